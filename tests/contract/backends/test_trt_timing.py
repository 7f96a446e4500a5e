"""A build with a timing cache makes the calls that TensorRT has for it, and hears what it says.

On the stand-in with the recorded API; what a cache holds is bytes that nobody looks into.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from enginefarm.compile_options import CompileOptions, TimingReuse
from enginefarm.errors import JobFailed
from enginefarm.state import Blame
from enginefarm.target import Target
from tests.contract.backends.trt_api.acting import Sink, acting, plan
from tests.contract.backends.trt_api.described import VERSIONS, Api
from workers.backends.base import Compiled, ModelSource, TimingGiven
from workers.backends.tensorrt import TensorRT

MISMATCH = "Timing cache header mismatch: the incoming cache will not be used!"
MISS = (
    "Adding new entry to timing cache is not allowed if "
    "`BuilderFlag::kERROR_ON_TIMING_CACHE_MISS` is set"
)
SERVED = "Deleting timing cache: 174 entries, served 118 hits"


class Said:
    """What the runtime logs, and which caches it was given."""

    def __init__(self) -> None:
        self.logger: Any = None
        self.caches: list[bytes] = []

    def say(self, text: str) -> None:
        kinds = type(self.logger).Severity
        self.logger.log(kinds.VERBOSE, text)


def stand_in(version: str, said: Said, *, takes: bool = True, builds: bool = True) -> Api:
    def create(config: Any, data: bytes) -> Any:  # noqa: ANN401 - a class of the stand-in
        said.caches.append(bytes(data))
        return config.get_timing_cache()

    def attach(_config: Any, _cache: Any, *, ignore_mismatch: bool) -> bool:  # noqa: ANN401 - as above
        assert ignore_mismatch
        if said.caches[-1] and not takes:
            said.say(MISMATCH)
        return True

    def build(_builder: Any, _network: Any, _config: Any, writer: Any) -> bool:  # noqa: ANN401 - as above
        if not builds:
            _builder.error_recorder.report_error(None, MISS)
            return False
        said.say(SERVED)
        return bool(writer.write(plan(version)))

    more: dict[str, Any] = {
        "IBuilderConfig__create_timing_cache": create,
        "IBuilderConfig__set_timing_cache": attach,
        "ITimingCache__serialize": lambda _self: bytearray(b"all timings"),
        "ITimingCache__queryKeys": lambda _self: ["a", "b", "c"],
        "Builder__build_serialized_network_to_stream": build,
    }
    return acting(version, **more)


def compiled(
    folder: Path, api: Api, said: Said, given: bytes | None, reuse: TimingReuse
) -> Compiled:
    (folder / "out").mkdir()
    model, snapshot = folder / "model.onnx", folder / "snapshot"
    model.write_bytes(b"a model")
    snapshot.write_bytes(given or b"")
    timing = TimingGiven(folder, None if given is None else snapshot, reuse)
    source = ModelSource(
        model,
        Target.parse("tensorrt@sm_89"),
        options=CompileOptions(timing_cache=reuse),
        timing=timing,
    )
    backend = TensorRT(api.module, has_gpu=True)
    said.logger = backend._compiler.logger
    return backend.compile(source, folder / "out", Sink())


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("given", [None, b"a snapshot"])
def test_a_build_begins_with_the_snapshot_and_leaves_its_own(
    tmp_path: Path, version: str, given: bytes | None
) -> None:
    said = Said()
    built = compiled(tmp_path, stand_in(version, said), said, given, TimingReuse.AUTO)
    assert said.caches == [given or b""]
    assert built.timing is not None
    assert built.timing.path is not None
    assert built.timing.path.read_bytes() == b"all timings"
    assert (built.timing.entries, built.timing.hits, built.timing.refused) == (3, 118, None)
    # It is no output of the job: only its own road takes it on.
    assert built.timing.path.parent != built.path.parent


@pytest.mark.parametrize("version", VERSIONS)
def test_a_snapshot_that_is_only_refused_in_the_log_is_left_out_and_told(
    tmp_path: Path, version: str
) -> None:
    said = Said()
    api = stand_in(version, said, takes=False)
    built = compiled(tmp_path, api, said, b"foreign", TimingReuse.AUTO)
    assert said.caches == [b"foreign", b""]
    assert built.timing is not None
    assert built.timing.refused == MISMATCH
    assert built.path.exists()


def test_a_build_that_may_time_nothing_begins_only_with_a_cache(tmp_path: Path) -> None:
    for number, (given, takes) in enumerate([(None, True), (b"foreign", False)]):
        said, folder = Said(), tmp_path / str(number)
        folder.mkdir()
        api = stand_in(VERSIONS[0], said, takes=takes)
        with pytest.raises(JobFailed) as refused:
            compiled(folder, api, said, given, TimingReuse.REQUIRED)
        assert refused.value.code == "timing_cache_missing"
        assert refused.value.blame is Blame.PERSON


def test_a_build_that_may_time_nothing_is_refused_where_no_timings_are_kept(tmp_path: Path) -> None:
    said = Said()
    api = stand_in(VERSIONS[0], said)
    (tmp_path / "out").mkdir()
    model = tmp_path / "model.onnx"
    model.write_bytes(b"a model")
    asked = CompileOptions(timing_cache=TimingReuse.REQUIRED)
    source = ModelSource(model, Target.parse("tensorrt@sm_89"), options=asked)
    with pytest.raises(JobFailed) as refused:
        TensorRT(api.module, has_gpu=True).compile(source, tmp_path / "out", Sink())
    assert (refused.value.code, refused.value.blame) == ("timing_cache_missing", Blame.PERSON)
    assert "CUDA" in refused.value.why
    assert "Builder.build_serialized_network_to_stream" not in api.used


@pytest.mark.parametrize("version", VERSIONS)
def test_a_timing_that_is_lacking_fails_a_build_that_may_time_nothing(
    tmp_path: Path, version: str
) -> None:
    said = Said()
    api = stand_in(version, said, builds=False)
    with pytest.raises(JobFailed) as refused:
        compiled(tmp_path, api, said, b"a snapshot", TimingReuse.REQUIRED)
    assert refused.value.code == "timing_cache_miss"
    assert "IBuilderConfig.set_flag" in api.used


def test_without_a_namespace_no_timing_cache_is_touched(tmp_path: Path) -> None:
    said = Said()
    api = stand_in(VERSIONS[0], said)
    (tmp_path / "out").mkdir()
    model = tmp_path / "model.onnx"
    model.write_bytes(b"a model")
    backend = TensorRT(api.module, has_gpu=True)
    said.logger = backend._compiler.logger
    built = backend.compile(
        ModelSource(model, Target.parse("tensorrt@sm_89")), tmp_path / "out", Sink()
    )
    assert built.timing is None
    assert not [name for name in api.used if "iming" in name]
