"""Recognise a calibration cache of TensorRT 10 or older, which holds scales and no samples."""

from __future__ import annotations

import re

from enginefarm.errors import InvalidDataset

HEAD_BYTES = 64
_CACHE = re.compile(rb"TRT-[0-9]{3,8}-[A-Za-z0-9]{0,24}Calibration[0-9]?\r?\n")


def refuse_calibration_cache(head: bytes) -> None:
    """Refuse a file that begins as such a cache does; ``head``: its first bytes.

    Raises:
        InvalidDataset: code ``calibration_cache``.
    """
    if _CACHE.match(head):
        raise InvalidDataset(
            "The file is a calibration cache of TensorRT 10 or older, not a dataset.",
            code="calibration_cache",
            why="It holds a scale for each tensor of one parsed network, for implicit int8;"
            " TensorRT 11 and TensorRT-RTX take int8 from the model file alone.",
            fix="Send the samples that it was made from as an .npz, and ask for int8 with them.",
        )
