"""The error codes about plugin libraries. In order."""

from __future__ import annotations

from typing import Final

PLUGIN_CODES: Final[dict[str, str]] = {
    "plugin_backend": "The backend for which plugins are named loads none.",
    "plugin_changed": "A plugin's file is not what it was when its node started; it is not loaded.",
    "plugin_missing": "A node cannot give a job a plugin that it said it has.",
    "plugin_needed": "The engine needs plugins, and other libraries are given, or none.",
    "plugin_not_served": "No live node that builds the target has the plugins that are named.",
    "plugin_precision": "The precision cannot be made of a model that needs these plugins.",
    "plugin_refused": "The backend does not load a plugin of which the node said that it does.",
    "plugin_tool": "The tool that makes the precision cannot be given the model's plugins.",
    "plugin_serialize": "Plugins shall lie in the engine, and none is named for its backend.",
    "plugin_unknown": "What is named as a plugin is neither a file here nor a digest.",
    "plugin_unused": "Plugins are named for a backend of which there is no target.",
}
