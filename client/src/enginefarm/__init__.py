"""The words of the farm: what a person, a node and the control plane all say.

``errors``, ``digest``, ``target``, ``state``, ``spec``, ``report``, ``manifest``, ``views``,
``attestation`` and ``provenance`` hold data and pure rules. ``enginefarm.client`` (HTTP) and
``enginefarm.cli`` are for people and are never imported by the server.
"""

__version__ = "0.1.0"
