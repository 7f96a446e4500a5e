"""A cache of scales is not taken for samples, and is told from what merely begins like one."""

from __future__ import annotations

from io import BytesIO
from pathlib import Path

import pytest

from enginefarm.calibration_cache import refuse_calibration_cache
from enginefarm.client.catalogue import require_npz
from enginefarm.errors import InvalidDataset
from intake.datasets import scan_npz

CACHES = [
    b"TRT-8601-EntropyCalibration2\ninput: 3c010a14\n",
    b"TRT-100300-MinMaxCalibration\r\ninput: 3c010a14\r\n",
    b"TRT-7103-LegacyCalibration\n",
]


@pytest.mark.parametrize("cache", CACHES)
def test_a_calibration_cache_is_refused_where_it_is_named_and_where_it_is_read(
    tmp_path: Path, cache: bytes
) -> None:
    path = tmp_path / "x.calib"
    path.write_bytes(cache)
    for refuse in (lambda: require_npz(path), lambda: scan_npz(BytesIO(cache))):
        with pytest.raises(InvalidDataset) as refused:
            refuse()
        assert refused.value.code == "calibration_cache"
        assert ".npz" in refused.value.fix


@pytest.mark.parametrize("other", [b"", b"TRT-8601", b"TRT-8601-Engine\n", b"PK\x03\x04"])
def test_what_is_no_cache_is_left_to_others(other: bytes) -> None:
    refuse_calibration_cache(other)
    with pytest.raises(InvalidDataset) as refused:
        scan_npz(BytesIO(other))
    assert refused.value.code == "dataset_not_npz"
