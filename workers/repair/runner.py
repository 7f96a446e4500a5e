"""Try the passes of a recipe one after the other; keep what is proven, undo what is not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import onnx

from enginefarm.counted import counted
from enginefarm.errors import FarmError, JobFailed
from enginefarm.repair_report import Outcome, PassReport, Proof
from enginefarm.repairs import REPAIRS, Exactness, PassId, Repair
from enginefarm.state import Blame
from workers.backends.base import ProgressSink
from workers.diagnosis import shorten
from workers.repair.base import Ground, NotApplied, Pass
from workers.repair.prover import Prover, Ran, Unproven
from workers.repair.registry import PASSES

WEIGHTS_ALONE_IR = 4
MOST_MEASURED = 0.2
"""A measured pass that differs by more of an output's largest value has changed what is meant."""


@dataclass
class Repaired:
    """Where the passes have got to: the model as it is now, and what became of each pass."""

    model: onnx.ModelProto
    path: Path
    reports: list[PassReport] = field(default_factory=list)


@dataclass(frozen=True)
class _Verdict:
    keep: bool
    why: str
    proof: Proof | None = None


def require_passes(wanted: Sequence[PassId]) -> list[Repair]:
    """Return the passes that a recipe names, as this node has them.

    Raises:
        JobFailed: it has other versions (code ``passes_differ``, the node's).
    """
    here = {row.name: row for row in REPAIRS if row.name in PASSES}
    for row in wanted:
        if row.name not in here or here[row.name].version != row.version:
            mine = f"version {here[row.name].version}" if row.name in here else "no such pass"
            raise JobFailed(
                f"The job asks for the repair {row.name}, version {row.version}.",
                blame=Blame.NODE,
                code="passes_differ",
                why=f"This node has {mine}; a job's key names the version.",
                fix="Bring the node to the farm's version.",
            )
    return [here[row.name] for row in wanted]


def repair(
    state: Repaired, passes: Sequence[Repair], ground: Ground, work: Path, sink: ProgressSink
) -> Repaired:
    """Bring a model through every pass that can be kept; candidates are written into ``work``.

    Raises:
        FarmError: something that was asked for cannot be done.
    """
    bench = _Bench(Prover(ground, lambda: sink.report(None, "proving")), state.path)
    for number, row in enumerate(passes):
        sink.report(number / len(passes), "repairing", row.name)
        if sink.stopping:
            raise JobFailed("The repair was stopped.", blame=Blame.NODE, code="cancelled")
        state.reports.append(_try(row, PASSES[row.name], state, bench, ground, work))
    return state


def _try(
    row: Repair, run: Pass, state: Repaired, bench: _Bench, ground: Ground, work: Path
) -> PassReport:
    candidate = onnx.ModelProto()
    candidate.CopyFrom(state.model)
    try:
        said = run(candidate, ground)
        # Before it every weight had to be an input, and a pass may have added weights.
        candidate.ir_version = max(candidate.ir_version, WEIGHTS_ALONE_IR)
        data = candidate.SerializeToString(deterministic=True) if said is not None else b""
    except FarmError:
        raise
    except NotApplied as error:
        return _report(row, Outcome.NOT_APPLIED, str(error))
    except Exception as error:  # noqa: BLE001 - a pass that breaks must not break the build
        why = f"the pass failed: {type(error).__name__}: {shorten(str(error), 200)}"
        return _report(row, Outcome.NOT_APPLIED, why)
    if said is None:
        return _report(row, Outcome.NOTHING_TO_DO, "the model does not need it")
    path = work / f"{row.name}.onnx"
    path.write_bytes(data)
    verdict = _judged(bench, row, path)
    if not verdict.keep:
        outcome = Outcome.NOT_APPLIED if verdict.proof is None else Outcome.UNDONE
        return _report(row, outcome, verdict.why, verdict.proof)
    state.model, state.path = candidate, path
    return _report(row, Outcome.APPLIED, f"{said}; {verdict.why}", verdict.proof)


def _judged(bench: _Bench, row: Repair, path: Path) -> _Verdict:
    """Judge a pass; a judgement that breaks is none, and the pass is not kept."""
    try:
        return bench.judge(row, path)
    except FarmError:
        raise
    except Exception as error:  # noqa: BLE001 - what cannot be judged must not break the build
        told = f"{type(error).__name__}: {shorten(str(error), 200)}"
        return _Verdict(keep=False, why=f"it cannot be proven: the comparison failed: {told}")


class _Bench:
    """What the model gave before, and the judgement of what it gives after a pass."""

    def __init__(self, prover: Prover, original: Path) -> None:
        self._prover = prover
        self._original = original
        self._before: Ran | None = None
        self._mute: str | None = None
        """Why there is nothing to compare with."""

    def judge(self, row: Repair, path: Path) -> _Verdict:
        self._measure_original()
        try:
            after = self._prover.run(path)
        except Unproven as error:
            return self._without_a_run(row, str(error))
        if self._before is None:
            return self._without_a_before(row, after)
        try:
            proof = self._prover.compare(self._before, after)
        except Unproven as error:
            return _Verdict(keep=False, why=f"undone: {error}")
        return self._weighed(row, proof, self._before, after)

    def _weighed(self, row: Repair, proof: Proof, before: Ran, after: Ran) -> _Verdict:
        if not proof.outputs:
            return self._without_a_comparison(row)
        if row.exactness is Exactness.MEASURED:
            if proof.max_rel_error is None or proof.max_rel_error > MOST_MEASURED:
                why = f"undone: {_measured(proof)}, and {MOST_MEASURED} is the most that is kept"
                return _Verdict(keep=False, why=why, proof=proof)
            self._before = after
            return _Verdict(keep=True, why=_measured(proof), proof=proof)
        changed = self._prover.changed(before, after)
        if changed is not None:
            why = f"undone: {changed}, {_measured(proof)}"
            return _Verdict(keep=False, why=why, proof=proof)
        return _Verdict(keep=True, why=f"proven: {_equal(proof)}", proof=proof)

    def _measure_original(self) -> None:
        if self._before is None and self._mute is None:
            try:
                self._before = self._prover.run(self._original)
            except Unproven as error:
                self._mute = str(error)

    def _without_a_comparison(self, row: Repair) -> _Verdict:
        """Both versions run, but give nothing that could be compared: sequences, for example."""
        said = "none of the model's outputs can be compared"
        if row.exactness is Exactness.STRUCTURAL:
            return _Verdict(keep=True, why=f"not proven, it changes no computation: {said}")
        return _Verdict(keep=False, why=f"it cannot be proven: {said}")

    def _without_a_run(self, row: Repair, said: str) -> _Verdict:
        """Keep a pass that computes nothing anew if the model did not run before either."""
        if row.exactness is Exactness.STRUCTURAL and self._mute is not None:
            return _Verdict(keep=True, why=f"not proven, it changes no computation: {self._mute}")
        if self._mute is not None:
            return _Verdict(keep=False, why=f"it cannot be proven: {self._mute}")
        return _Verdict(keep=False, why=f"undone, the model does not run after it: {said}")

    def _without_a_before(self, row: Repair, after: Ran) -> _Verdict:
        """The model runs now and did not before: what it gives now is what later passes keep."""
        if row.exactness is not Exactness.STRUCTURAL:
            return _Verdict(keep=False, why=f"it cannot be proven: {self._mute}")
        self._before = after
        return _Verdict(keep=True, why=f"the model runs now, it did not before: {self._mute}")


def _equal(proof: Proof) -> str:
    outputs = counted(proof.outputs, "output")
    if proof.bit_equal:
        return f"{outputs} bit for bit the same"
    return f"{outputs} within {proof.max_rel_error:.1e} of their largest value"


def _measured(proof: Proof) -> str:
    return (
        f"outputs differ by at most {proof.max_abs_error:.2e},"
        f" {proof.max_rel_error:.2e} of their largest value"
    )


def _report(row: Repair, outcome: Outcome, why: str, proof: Proof | None = None) -> PassReport:
    return PassReport(
        name=row.name,
        version=row.version,
        exactness=row.exactness,
        outcome=outcome,
        why=why,
        proof=proof,
    )
