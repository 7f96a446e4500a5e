"""The error codes about plugin libraries. In order."""

from __future__ import annotations

from typing import Final

PLUGIN_CODES: Final[dict[str, str]] = {
    "plugin_backend": "The backend for which plugins are named loads none.",
    "plugin_needed": "The engine needs plugins, and other libraries are given, or none.",
    "plugin_not_served": "No live node that builds the target has the plugins that are named.",
    "plugin_precision": "The precision cannot be made of a model that needs these plugins.",
    "plugin_unknown": "What is named as a plugin is neither a file here nor a digest.",
    "plugin_unused": "Plugins are named for a backend of which there is no target.",
}
