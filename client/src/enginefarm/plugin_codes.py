"""The error codes about plugin libraries. In order."""

from __future__ import annotations

from typing import Final

PLUGIN_CODES: Final[dict[str, str]] = {
    "plugin_backend": "The backend for which plugins are named loads none.",
    "plugin_changed": "A plugin's file is not what it was when its node started; it is not loaded.",
    "plugin_missing": "A node cannot give a job a plugin that it said it has.",
    "plugin_refused": "The backend does not load a plugin of which the node said that it does.",
    "plugin_tool": "The tool that makes the precision cannot be given the model's plugins.",
}
