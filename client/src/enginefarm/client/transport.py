"""HTTP to one farm: the access key goes to this origin alone, errors come back as the farm's own.

Nothing follows a redirect but :meth:`Transport.fetch`, and there the key stays behind. A read that
loses its connection is tried once more; a write only if it carries an idempotency key.
"""

from __future__ import annotations

import ipaddress
import ssl
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from typing import IO, Any, TypedDict, TypeVar, Unpack

import httpx
from pydantic import BaseModel, TypeAdapter, ValidationError

from enginefarm import __version__
from enginefarm.client.problems import error_of, invalid_url, unreachable, unreadable
from enginefarm.errors import FarmError

View = TypeVar("View", bound=BaseModel)
Params = Mapping[str, str | int | list[str]]
CONNECT_S, READ_S = 10.0, 60.0
_REDIRECTS = 3


class Options(TypedDict, total=False):
    """What a request carries, in httpx's words."""

    params: Params | None
    headers: Mapping[str, str]
    json: dict[str, Any]
    data: Mapping[str, str]
    files: list[tuple[str, tuple[str, IO[bytes]]]]
    content: bytes


class Transport:
    """The connections to one farm."""

    def __init__(
        self, url: str, key: str | None, *, http: httpx.BaseTransport | None = None
    ) -> None:
        """Prepare to talk to ``url``; nothing is sent yet."""
        try:
            self._base = httpx.URL(url.rstrip("/"))
        except httpx.InvalidURL as error:
            raise invalid_url(url) from error
        if self._base.scheme not in {"http", "https"} or not self._base.host:
            raise invalid_url(url)
        self.url = str(self._base)
        self._key = key
        # A proxy cannot see this machine's own loopback.
        self._trust_env = not _is_loopback(self._base.host)
        self._client = httpx.Client(
            headers={"User-Agent": f"enginefarm/{__version__}"},
            timeout=httpx.Timeout(READ_S, connect=CONNECT_S),
            transport=http,
            verify=_authorities(),
            trust_env=self._trust_env,
        )

    def get(self, path: str, view: type[View], params: Params | None = None) -> View:
        """Return what ``path`` shows."""
        response = self.request("GET", path, params=params, again=True)
        return self.read(response, view)

    def get_list(self, path: str, view: type[View], params: Params | None = None) -> list[View]:
        """Return the list that ``path`` shows."""
        response = self.request("GET", path, params=params, again=True)
        try:
            return TypeAdapter(list[view]).validate_json(response.content)  # type: ignore[valid-type]
        except ValidationError as error:
            raise unreadable(self.url, error) from error

    def read(self, response: httpx.Response, view: type[View]) -> View:
        """Return the view in a response."""
        try:
            return view.model_validate_json(response.content)
        except ValidationError as error:
            raise unreadable(self.url, error) from error

    def request(
        self, method: str, path: str, *, again: bool = False, **options: Unpack[Options]
    ) -> httpx.Response:
        """Send a request to the farm and return its good answer; ``again``: it may be repeated.

        Raises:
            FarmError: the farm's own refusal, or Unavailable when there is no answer.
        """
        request = self._build(method, path, **options)
        try:
            response = self._client.send(request)
        except (httpx.ReadError, httpx.RemoteProtocolError) as error:
            if not again:
                raise unreachable(self.url, error) from error
            return self.request(method, path, **options)
        except httpx.TransportError as error:
            raise unreachable(self.url, error) from error
        return self._good(response)

    @contextmanager
    def stream(
        self, path: str, headers: dict[str, str], *, read_s: float = READ_S
    ) -> Iterator[httpx.Response]:
        """Open a streamed answer of the farm; a connection that breaks raises Unavailable."""
        request = self._build("GET", path, headers=headers)
        request.extensions["timeout"]["read"] = read_s
        with self._errors():
            response = self._client.send(request, stream=True)
            try:
                yield self._good(response)
            finally:
                response.close()

    @contextmanager
    def fetch(self, path: str, headers: dict[str, str]) -> Iterator[httpx.Response]:
        """Open a download, following redirects; the key never leaves the farm's own origin.

        Unlike elsewhere a status of 412 or 416 is returned: the caller asked for a part.
        """
        request = self._build("GET", path, headers=headers)
        with self._errors():
            response = self._client.send(request, stream=True)
            for _ in range(_REDIRECTS):
                if response.next_request is None:
                    break
                response.close()
                response = self._client.send(self._onward(response, headers), stream=True)
            try:
                partial = response.status_code in {412, 416}
                yield response if partial else self._good(response)
            finally:
                response.close()

    def stranger(self) -> httpx.Client:
        """Return connections of their own for URLs that the farm names; they carry no key."""
        return httpx.Client(
            timeout=httpx.Timeout(READ_S, connect=CONNECT_S),
            verify=_authorities(),
            trust_env=self._trust_env,
        )

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def _build(self, method: str, path: str, **options: Unpack[Options]) -> httpx.Request:
        headers = dict(options.get("headers", {}))
        if self._key:
            headers["Authorization"] = f"Bearer {self._key}"
        return self._client.build_request(
            method,
            f"{self.url}{path}",
            headers=headers,
            params=options.get("params"),
            json=options.get("json"),
            data=options.get("data"),
            files=options.get("files"),
            content=options.get("content"),
        )

    def _onward(self, response: httpx.Response, headers: dict[str, str]) -> httpx.Request:
        target = response.next_request
        if target is None:  # the caller has looked
            raise self._strayed(response)
        kept = dict(headers)
        if _origin(target.url) == _origin(self._base):
            if self._key:
                kept["Authorization"] = f"Bearer {self._key}"
        else:
            # A bucket has its own entity tags; the bytes are hashed in any case.
            kept.pop("If-Match", None)
        return self._client.build_request("GET", target.url, headers=kept)

    def _good(self, response: httpx.Response) -> httpx.Response:
        if response.is_success:
            return response
        if response.is_redirect:
            raise self._strayed(response)
        response.read()
        raise error_of(response)

    def _strayed(self, response: httpx.Response) -> FarmError:
        return FarmError(
            f"{self.url} sends us elsewhere.",
            code="unexpected_redirect",
            why=f"It answered {response.status_code} where no redirect belongs.",
            fix="Name the farm's final address with --url.",
        )

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except httpx.TransportError as error:
            raise unreachable(self.url, error) from error


@cache
def _authorities() -> ssl.SSLContext:
    """Return who is trusted for https; reading the list takes longer than most requests."""
    return httpx.create_ssl_context()


def _origin(url: httpx.URL) -> tuple[str, str, int | None]:
    default = {"http": 80, "https": 443}.get(url.scheme)
    return url.scheme, url.host, url.port or default


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
