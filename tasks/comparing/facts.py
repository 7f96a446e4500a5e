"""What a node says of two engines side by side: read strictly before anything is built upon it."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

from enginefarm.comparison_report import MAX_SHAPES, ComparedRuns
from enginefarm.errors import JobFailed
from enginefarm.report import Machine
from enginefarm.state import Blame, Stage
from enginefarm.target import Target
from tasks.place import require_place


class ComparedFacts(BaseModel):
    """The facts of a comparison's benchmark."""

    model_config = ConfigDict(extra="ignore")

    compared: Annotated[list[ComparedRuns], Field(min_length=1, max_length=MAX_SHAPES)]
    data: str
    threads: Annotated[int, Field(ge=0)]
    versions: dict[str, str] = {}


_MACHINE: TypeAdapter[Machine | None] = TypeAdapter(Machine | None)


def check_compared(target: Target, result: dict[str, Any], sku: str | None = None) -> None:
    """Refuse a result that no verdict on a target could be based on; ``sku`` was to be run on.

    Raises:
        JobFailed: the node's fault (code ``result_invalid``).
    """
    try:
        ComparedFacts.model_validate(result["facts"])
        machine = _MACHINE.validate_python(result["machine"])
        require_place(machine, Stage.BENCHMARK, target, sku)
        if result["outputs"]:
            message = "files were uploaded"
            raise ValueError(message)
    except (KeyError, TypeError, ValueError) as error:
        raise JobFailed(
            "What the node says of a comparison cannot be used.",
            blame=Blame.NODE,
            code="result_invalid",
            why=f"{str(error).splitlines()[0][:200]}.",
            fix="Bring the node to the farm's version.",
        ) from error
