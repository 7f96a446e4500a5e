"""What a node's operator reads of what did not load, and of GPUs that nothing uses."""

from __future__ import annotations

import structlog

from workers.probe import Probe

log = structlog.get_logger(__name__)


def tell_absent(found: Probe) -> None:
    """Log each backend, plugin and GPU that is left out, with its reason."""
    for name, reason in found.absent.items():
        log.info("backend_absent", backend=name, reason=reason)
    for name, reason in found.plugins_absent.items():
        log.warning("plugin_absent", plugin=name, reason=reason)
    for row in found.backends:
        if row.gpus_unused:
            log.warning("gpus_unused", backend=row.name, reason=row.gpus_unused)
