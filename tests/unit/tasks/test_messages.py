"""What a node may say, before anything is asked of the database."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from tasks.messages import MOST_FILES, FinishRequest, LeaseBeat, UploadsRequest

SAID: dict[Any, dict[str, Any]] = {
    FinishRequest: {"state": "failed"},
    LeaseBeat: {},
    UploadsRequest: {"files": []},
}


@pytest.mark.parametrize("kind", SAID)
@pytest.mark.parametrize(
    "wrong", [{"attempt": 1 << 31}, {"attempt": -1}, {"lease_token": "\ud800"}], ids=str
)
def test_what_no_attempt_can_be_called_is_refused(kind: Any, wrong: dict[str, Any]) -> None:  # noqa: ANN401 - a class of message
    right = {"attempt": 1, "lease_token": "token", **SAID[kind]}
    kind.model_validate(right)
    with pytest.raises(ValidationError):
        kind.model_validate(right | wrong)


@pytest.mark.parametrize("field", ["files", "outputs"])
def test_a_message_names_no_more_files_than_a_job_makes(field: str) -> None:
    kind: Any = UploadsRequest if field == "files" else FinishRequest
    file = {"role": "log", "name": "job.log", "digest": "sha256:" + "0" * 64, "size": 1}
    right = {"attempt": 1, "lease_token": "token", **SAID[kind]}
    many = [file | {"media_type": "text/plain"}] * MOST_FILES
    kind.model_validate(right | {field: many})
    with pytest.raises(ValidationError):
        kind.model_validate(right | {field: [*many, many[0]]})
