"""A stand-in for TensorRT that times kernels: its timing caches are kept, merged and refused.

A model is a list of names, one for each kernel to time; a cache holds a tactic for each, which
differs from build to build. It takes no cache of another version, and nothing that is damaged.
"""

from __future__ import annotations

import json
import os
import secrets
from pathlib import Path
from typing import Any

from tests.contract.backends.trt_api.acting import acting, plan

MISMATCH = "Timing cache header mismatch: the incoming cache will not be used!"
MISS = (
    "Adding new entry to timing cache is not allowed if "
    "`BuilderFlag::kERROR_ON_TIMING_CACHE_MISS` is set"
)
CRASHES = "a tactic that is no code"
"""A cache with it is one that the runtime takes, and crashes on."""
_MAGIC = b"timed:"


def model_of(*kernels: str) -> bytes:
    """Return a model whose build times these kernels."""
    return json.dumps([secrets.token_hex(4), *kernels]).encode()


def cache_of(version: str, tactics: dict[str, str]) -> bytes:
    """Return a cache as a version writes it."""
    return _MAGIC + json.dumps({"version": version, "tactics": tactics}).encode()


def tactics_in(data: bytes) -> dict[str, str]:
    """Return what a cache holds: the tactic of each kernel."""
    found: dict[str, str] = json.loads(data.removeprefix(_MAGIC))["tactics"]
    return found


class TimingRuntime:
    """One process's runtime; ``module`` is what is imported."""

    def __init__(self, version: str) -> None:
        """Make the recorded API of a version act."""
        self.version = version
        self._logger: Any = None
        self._api = acting(
            version,
            IBuilderConfig__create_timing_cache=self._create,
            IBuilderConfig__set_timing_cache=self._attach,
            IBuilderConfig__get_timing_cache=lambda config: vars(config)["timing"],
            ITimingCache__serialize=lambda cache: cache_of(version, vars(cache)["tactics"]),
            ITimingCache__queryKeys=lambda cache: list(vars(cache)["tactics"]),
            ITimingCache__combine=self._combine,
            OnnxParser__parse_from_file=self._parse,
            Builder__build_serialized_network_to_stream=self._build,
        )
        self._kernels: list[str] = []
        self.module = self._api.module
        self.module.Builder = self._listened(self._api.classes["Builder"])

    def _listened(self, builder: Any) -> Any:  # noqa: ANN401 - a class of the stand-in
        def build(this: Any, logger: Any) -> None:  # noqa: ANN401 - as above
            self._logger = logger
            builder.__init__(this, logger)

        return type("Builder", (builder,), {"__init__": build})

    def _say(self, severity: str, text: str) -> None:
        self._logger.log(self._logger.Severity[severity], text)

    def _create(self, _config: Any, data: bytes) -> Any:  # noqa: ANN401 - as above
        held = bytes(data) or cache_of(self.version, {})
        if not held.startswith(_MAGIC):
            return None
        made = self._api.classes["ITimingCache"].__new__(self._api.classes["ITimingCache"])
        told = json.loads(held.removeprefix(_MAGIC))
        vars(made).update(_made={}, tactics=told["tactics"], version=told["version"])
        return made

    def _attach(self, config: Any, cache: Any, *, ignore_mismatch: bool) -> bool:  # noqa: ANN401 - as above
        assert ignore_mismatch
        if CRASHES in vars(cache)["tactics"]:
            os.abort()
        if vars(cache)["version"] != self.version:
            self._say("WARNING", MISMATCH)  # and the build would go on without
            return True
        vars(config)["timing"] = cache
        return True

    def _combine(self, cache: Any, other: Any, *, ignore_mismatch: bool) -> bool:  # noqa: ANN401 - as above
        assert ignore_mismatch
        both = vars(other)["tactics"] | vars(cache)["tactics"]
        vars(cache)["tactics"] = both
        return True

    def _parse(self, _parser: Any, path: str) -> bool:  # noqa: ANN401 - as above
        self._kernels = json.loads(Path(path).read_bytes())[1:]
        return True

    def _build(self, builder: Any, _network: Any, config: Any, writer: Any) -> bool:  # noqa: ANN401 - as above
        known = vars(config)["timing"] if "timing" in vars(config) else self._create(config, b"")
        tactics: dict[str, str] = vars(known)["tactics"]
        new = [name for name in self._kernels if name not in tactics]
        if new and config.get_flag(self.module.BuilderFlag.ERROR_ON_TIMING_CACHE_MISS):
            builder.error_recorder.report_error(None, MISS)
            return False
        tactics.update({name: secrets.token_hex(4) for name in new})
        served = len(self._kernels) - len(new)
        self._say("VERBOSE", f"Deleting timing cache: {len(tactics)} entries, served {served} hits")
        used = json.dumps({name: tactics[name] for name in self._kernels}).encode()
        return bool(writer.write(plan(self.version) + used))
