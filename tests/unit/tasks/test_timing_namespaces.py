"""What parts the timing caches of a fleet."""

from __future__ import annotations

from typing import Any

import pytest

from enginefarm.digest import digest_of
from enginefarm.target import Target
from tasks.messages import BackendDescription, Device, NodeDescription
from tasks.timing_caches import namespace_of

TARGET = Target.parse("tensorrt@sm_89")
OPS, OTHER = digest_of(b"operators"), digest_of(b"other operators")


def node(*gpus: str, cuda: str | None = "13") -> NodeDescription:
    backend = BackendDescription(
        name="tensorrt", version="11.4", builds=["sm_89"], measures=[], cuda=cuda
    )
    return NodeDescription(
        hostname="rack-1",
        cpu="EPYC",
        cores=8,
        memory_bytes=1 << 34,
        devices=[Device(arch="sm_89", name=gpu) for gpu in gpus or ("NVIDIA L4",)],
        backends=[backend],
        stages=[],
        farm_version="0",
    )


def namespace(**plugins: list[str]) -> dict[str, Any]:
    found = namespace_of(TARGET, "11.4", {"tf32": False, "workspace_mib": 1}, node(), plugins)
    assert found is not None
    return found


def test_kernels_of_other_libraries_are_timed_apart() -> None:
    assert namespace(tensorrt=[OPS]) != namespace(tensorrt=[OTHER])
    assert namespace(tensorrt=[OPS, OTHER]) == namespace(tensorrt=[OTHER, OPS])


def test_a_build_without_plugins_of_its_compiler_has_the_namespace_that_it_had_before() -> None:
    before = {
        "backend": "tensorrt",
        "version": "11.4",
        "cuda": "13",
        "gpu": "NVIDIA L4",
        "flags": {"tf32": False},
    }
    assert namespace() == namespace(onnxruntime=[OPS]) == before


@pytest.mark.parametrize("told", [node(cuda=None), node("NVIDIA L4", "NVIDIA L40S")])
def test_where_something_is_not_certain_there_is_none(told: NodeDescription) -> None:
    assert namespace_of(TARGET, "11.4", {}, told) is None
