"""Who calls, and what they may do: access keys with scopes, nodes by their own credentials.

A handler asks for an :class:`Entrance` (``needs(Scope.READ)``) and goes through it in its own
thread, so that a request holds at most one connection at a time. ``admin`` includes every scope.
"""

from __future__ import annotations

import hmac
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Annotated

import structlog
from fastapi import Depends, Request, Security
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer

from api.settings import ApiSettings
from enginefarm.errors import Forbidden, Unauthenticated
from enginefarm.state import Scope
from storage import access
from storage.database import Session
from tasks import enrol
from tasks.farm import Farm

access_key = HTTPBearer(
    scheme_name="AccessKey",
    description="An access key, `ef_…`, made by `python -m storage create-key`.",
    auto_error=False,
)
node_credential = HTTPBearer(
    scheme_name="NodeCredential",
    description="A node's own credential, `en_…`, given to it when it enrols.",
    auto_error=False,
)
enrolment_token = HTTPBearer(
    scheme_name="EnrolmentToken",
    description="The token with which a new node may enrol.",
    auto_error=False,
)
Bearer = HTTPAuthorizationCredentials | None


@dataclass(frozen=True)
class Caller:
    """The holder of an access key."""

    tenant_id: str
    key_id: str
    scopes: frozenset[Scope]

    def may(self, scope: Scope) -> bool:
        """Tell whether the key has a scope."""
        return scope in self.scopes or Scope.ADMIN in self.scopes


@dataclass(frozen=True)
class Entrance:
    """The way in for the holder of a key with one of ``needed`` scopes."""

    farm: Farm
    request: Request
    text: str = field(repr=False)
    needed: tuple[Scope, ...]

    @contextmanager
    def transaction(self) -> Iterator[tuple[Session, Caller]]:
        """Check the key and work, in one transaction."""
        with self.farm.database.transaction() as session:
            yield session, self._check(session)

    def caller(self) -> Caller:
        """Check the key in a transaction of its own, for steps that open theirs."""
        with self.transaction() as (_, caller):
            return caller

    def _check(self, session: Session) -> Caller:
        key = access.authenticate(session, self.text)
        caller = Caller(key.tenant_id, key.id, frozenset(Scope(scope) for scope in key.scopes))
        structlog.contextvars.bind_contextvars(key=caller.key_id, tenant=caller.tenant_id)
        # The handler's thread has its own copy of the context, the request's log line another.
        self.request.state.key_id = caller.key_id
        if not any(caller.may(scope) for scope in self.needed):
            raise _scope_missing(self.needed)
        return caller


def needs(*scopes: Scope) -> Callable[..., Awaitable[Entrance]]:
    """Return the dependency of a path that is open to keys with one of ``scopes``."""

    async def entrance(
        request: Request, bearer: Annotated[Bearer, Security(access_key)]
    ) -> Entrance:
        made = Entrance(farm_of(request), request, _text(bearer, "an access key"), scopes)
        request.state.entrance = made  # for whoever refuses the body: the key comes first
        return made

    return entrance


def node_of(request: Request, bearer: Annotated[Bearer, Security(node_credential)]) -> str:
    """Return the id of the node that calls."""
    node_id = enrol.authenticate(farm_of(request), _text(bearer, "a node's credential"))
    request.state.node_id = node_id
    return node_id


async def may_enrol(request: Request, bearer: Annotated[Bearer, Security(enrolment_token)]) -> None:
    """Refuse whoever does not hold the enrolment token."""
    expected = settings_of(request).enrolment_token.get_secret_value()
    given = _text(bearer, "the enrolment token")
    if not expected or not hmac.compare_digest(given.encode(), expected.encode()):
        raise Unauthenticated(
            "This is not the enrolment token.",
            code="enrolment_refused",
            why="" if expected else "The farm has none, so no node may enrol.",
            fix="Give the node the ENGINEFARM_ENROLMENT_TOKEN that the farm was started with.",
        )


def farm_of(request: Request) -> Farm:
    """Return the farm behind this application."""
    farm: Farm = request.app.state.farm
    return farm


def settings_of(request: Request) -> ApiSettings:
    """Return the settings this application was made with."""
    settings: ApiSettings = request.app.state.settings
    return settings


FarmOf = Annotated[Farm, Depends(farm_of)]


def _text(bearer: Bearer, what: str) -> str:
    if bearer is None:
        raise Unauthenticated(
            f"This path needs {what}.",
            code="unauthenticated",
            why="The request has no Authorization header of the form: Bearer <text>.",
            fix="Send Authorization: Bearer followed by it.",
        )
    return bearer.credentials


def _scope_missing(needed: tuple[Scope, ...]) -> Forbidden:
    names = " or ".join(needed)
    return Forbidden(
        f"This key lacks the scope {names}.",
        code="scope_missing",
        why="Each key may do only what it was made for.",
        fix=f"Use a key with the scope {names}; an operator can make one.",
        needed=list(needed),
    )
