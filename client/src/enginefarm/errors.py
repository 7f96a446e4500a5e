"""Every error the farm can give, under one root.

An error says what happened (``message``), why (``why``) and what to do (``fix``), and carries a
stable ``code`` from :mod:`enginefarm.codes`. It knows no HTTP: ``api.errors`` maps families to
statuses and ``enginefarm.cli`` maps them to exit codes.

    FarmError
    ├── InvalidRequest      a field, option or body that cannot be right        (person)
    ├── InvalidModel        the model file cannot be used                       (person)
    ├── InvalidDataset      the dataset cannot be used                          (person)
    ├── InvalidProfile      an optimization profile does not fit the model      (person)
    ├── TooLarge            the body is above the operator's limit              (person)
    ├── QuotaExceeded       the tenant has as much in the farm as it may have   (person)
    ├── NotServed           no live node can do what a target needs             (person)
    ├── Unauthenticated     no key, or one that is unknown, expired or revoked  (person)
    ├── Forbidden           the key lacks a scope                               (person)
    ├── NotFound            nothing of that name for this tenant                (person)
    ├── Conflict            the request contradicts what is already there       (person)
    ├── LeaseLost           a node speaks for a job that is no longer its own   (node)
    ├── JobFailed           a stage of a build failed; ``blame`` says whose     (any)
    ├── VerificationFailed  bytes, signature or subject are not what was signed (person)
    └── Unavailable         database, broker or bucket is away                  (farm)
"""

from __future__ import annotations

from typing import ClassVar

from pydantic import BaseModel, ConfigDict, Field, JsonValue

from enginefarm.state import Blame


class Failure(BaseModel):
    """An error as data: the form in which it crosses a process or is kept in a row."""

    model_config = ConfigDict(extra="forbid")

    code: str
    blame: Blame
    message: str = Field(description="What happened, in one sentence.")
    why: str = ""
    fix: str = ""
    context: dict[str, JsonValue] = Field(default_factory=dict)


class FarmError(Exception):
    """Root of every error that a person may see."""

    default_code: ClassVar[str] = "internal"
    blame: Blame = Blame.FARM

    def __init__(
        self,
        message: str,
        *,
        code: str | None = None,
        why: str = "",
        fix: str = "",
        **context: JsonValue,
    ) -> None:
        """Say what happened; ``context`` holds the values a program would want."""
        super().__init__(message)
        self.code = code or self.default_code
        self.message = message
        self.why = why
        self.fix = fix
        self.context: dict[str, JsonValue] = dict(context)

    def __str__(self) -> str:
        """Return the sentences a person reads: what, why, what to do."""
        return " ".join(part for part in (self.message, self.why, self.fix) if part)

    def as_failure(self) -> Failure:
        """Return this error as data."""
        return Failure(
            code=self.code,
            blame=self.blame,
            message=self.message,
            why=self.why,
            fix=self.fix,
            context=self.context,
        )


class _PersonError(FarmError):
    blame = Blame.PERSON


class InvalidRequest(_PersonError):
    """A field, an option or a body that cannot be right."""

    default_code = "invalid_request"


class InvalidModel(_PersonError):
    """The model file cannot be used."""

    default_code = "not_a_model"


class InvalidDataset(_PersonError):
    """The dataset cannot be used."""

    default_code = "invalid_dataset"


class InvalidProfile(_PersonError):
    """An optimization profile does not fit the model."""

    default_code = "invalid_profile"


class TooLarge(_PersonError):
    """The body is above the operator's limit."""

    default_code = "too_large"


class QuotaExceeded(_PersonError):
    """The tenant has as much in the farm as its operator allows."""

    default_code = "quota_exceeded"


class NotServed(_PersonError):
    """No live node can do what a target needs."""

    default_code = "target_not_served"


class Unauthenticated(_PersonError):
    """No key, or one that is unknown, expired or revoked."""

    default_code = "unauthenticated"


class Forbidden(_PersonError):
    """The key lacks a scope."""

    default_code = "scope_missing"


class NotFound(_PersonError):
    """Nothing of that name for this tenant."""

    default_code = "not_found"


class Gone(_PersonError):
    """It was here, and was taken back for good."""

    default_code = "artifact_revoked"


class Conflict(_PersonError):
    """The request contradicts what is already there."""

    default_code = "conflict"


class LeaseLost(FarmError):
    """A node speaks for a job that is no longer its own."""

    default_code = "lease_lost"
    blame = Blame.NODE


class JobFailed(FarmError):
    """A stage of a build failed; ``blame`` says whose fault it is."""

    default_code = "job_failed"

    def __init__(
        self,
        message: str,
        *,
        blame: Blame,
        code: str | None = None,
        why: str = "",
        fix: str = "",
        **context: JsonValue,
    ) -> None:
        """As :class:`FarmError`, with the blame that decides whether another attempt is made."""
        super().__init__(message, code=code, why=why, fix=fix, **context)
        self.blame = blame

    @classmethod
    def from_failure(cls, failure: Failure) -> JobFailed:
        """Rebuild the error from its data form."""
        error = cls(
            failure.message,
            blame=failure.blame,
            code=failure.code,
            why=failure.why,
            fix=failure.fix,
        )
        error.context = dict(failure.context)
        return error


class VerificationFailed(_PersonError):
    """Bytes, signature or subject are not what was signed."""

    default_code = "verification_failed"


class Unavailable(FarmError):
    """The database, the broker or the bucket is away; the same call may work later."""

    default_code = "unavailable"
    blame = Blame.FARM
