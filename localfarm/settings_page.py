"""Write docs/operate/settings.md from the settings: ``python -m localfarm.settings_page``."""

from __future__ import annotations

from pydantic import SecretStr
from pydantic.fields import FieldInfo
from pydantic_settings import BaseSettings

from api.settings import ApiSettings
from localfarm.settings import ROOT, LocalFarmSettings
from storage.settings import RetentionSettings, StorageSettings
from tasks.settings import ControlSettings, PolicySettings, ReaderSettings
from workers.settings import NodeSettings

PAGE = ROOT / "docs" / "operate" / "settings.md"
SECTIONS: tuple[tuple[str, type[BaseSettings], tuple[type[BaseSettings], ...]], ...] = (
    # heading, settings, and those that have a section of their own
    ("Storage: every process of the control plane, and `python -m storage`", StorageSettings, ()),
    ("Retention: `python -m tasks`, and `python -m storage retention`", RetentionSettings, ()),
    ("API: `python -m api`, with those of storage", ApiSettings, (StorageSettings,)),
    (
        "Control loops: `python -m tasks`, with those of storage, the policy and readers above",
        ControlSettings,
        (StorageSettings, PolicySettings, ReaderSettings, RetentionSettings),
    ),
    ("Node: `python -m workers`", NodeSettings, ()),
    ("Local farm: `python -m localfarm`", LocalFarmSettings, ()),
)
# What depends on the machine is told in words.
TOLD = {
    "ENGINEFARM_NODE_NAME": "the machine's name",
    "ENGINEFARM_STAGES": "`repair cast calibrate check compile benchmark`",
    "ENGINEFARM_LOCAL_FOLDER": "`.farm` beside the code",
}
_HEAD = """\
# Settings

Read from the environment by the process they belong to, and nowhere else. Those without a default
are required. The policy (leases, clocks, retries) is read by both API and control loops: give both
the same values. Times are seconds and sizes bytes unless a name says otherwise.
"""


def page() -> str:
    """Return the whole page."""
    parts = [_HEAD]
    for heading, settings, elsewhere in SECTIONS:
        known = {name for each in elsewhere for name in each.model_fields}
        rows = [
            row(settings, name, field)
            for name, field in settings.model_fields.items()
            if name not in known
        ]
        table = ["| variable | default | what |", "| --- | --- | --- |", *rows]
        parts.append(f"## {heading}\n\n" + "\n".join(table) + "\n")
    return "\n".join(parts)


def row(settings: type[BaseSettings], name: str, field: FieldInfo) -> str:
    """Return the row of one setting."""
    variable = f"{settings.model_config.get('env_prefix', '')}{name}".upper()
    default = TOLD.get(variable) or _default(field)
    return f"| `{variable}` | {default} | {field.description} |"


def _default(field: FieldInfo) -> str:
    if field.is_required():
        return "required"
    value = field.get_default(call_default_factory=True)
    if isinstance(value, SecretStr):
        value = value.get_secret_value()
    if value is None:
        return "absent"
    return "empty" if value == "" else f"`{value}`"


if __name__ == "__main__":
    PAGE.write_text(page(), "utf-8")
