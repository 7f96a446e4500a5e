"""What a node may say, before anything is asked of the database."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from tasks.messages import FinishRequest, LeaseBeat, UploadsRequest

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
