"""The codes that are about a node's GPUs, and measuring on them. See :mod:`enginefarm.codes`."""

from __future__ import annotations

DEVICE_CODES: dict[str, str] = {
    "batch_outside_profile": "A batch that was to be measured is not within the build's profile.",
    "device_busy": "No GPU of the node became free, or all of them are out of service.",
    "device_lock_unavailable": "The node cannot lock a GPU, so nobody would have it alone.",
    "device_lost": "A GPU does not answer any more.",
    "device_unknown": "A name of a GPU fits none of the machine, or more than one.",
    "measure_on_cpu": "SKUs to measure on are named, but no target is for a GPU.",
    "runtime_cache_refused": "TensorRT-RTX does not take the runtime cache that it has just left.",
    "sku_not_measured": "No live node can measure the target on a SKU that is named.",
    "sku_of_another_architecture": "A SKU is of an architecture that the build has no target for.",
    "too_many_skus": "Live nodes have more SKUs than one build is measured on.",
    "unknown_sku": "No live node has a GPU of that SKU.",
}
