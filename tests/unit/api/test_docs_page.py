"""The page about the API needs no other host than the API's own."""

from __future__ import annotations

import asyncio
import re

import httpx
import pytest
from fastapi import FastAPI

from api.app import create_app
from api.settings import ApiSettings

SETTINGS = {
    "database_url": "postgresql+psycopg://nowhere/none",
    "valkey_url": "redis://nowhere",
    "s3_access_key": "none",
    "s3_secret_key": "none",
}


class Client:
    """A browser without the application's lifespan: nothing here needs a farm."""

    def __init__(self, app: FastAPI) -> None:
        self._transport = httpx.ASGITransport(app)

    def get(self, path: str) -> httpx.Response:
        return asyncio.run(self._get(path))

    async def _get(self, path: str) -> httpx.Response:
        async with httpx.AsyncClient(transport=self._transport, base_url="http://farm") as client:
            return await client.get(path)


@pytest.fixture(scope="module")
def client() -> Client:
    return Client(create_app(ApiSettings.model_validate(SETTINGS)))


def test_the_bare_address_leads_to_the_page(client: Client) -> None:
    answer = client.get("/")

    assert answer.is_redirect
    assert answer.headers["location"] == "/docs"


def test_the_page_names_no_other_host(client: Client) -> None:
    page = client.get("/docs").text

    assert re.findall(r"(?:https?:)?//[\w.-]+\.\w+", page) == []
    assert "cdn" not in page.lower()


def test_all_that_the_page_loads_is_here(client: Client) -> None:
    page = client.get("/docs").text
    loaded = re.findall(r"(?:src|href)=\"(/[^\"]+)\"|url: '(/[^']+)'", page)

    kinds = {}
    for paths in loaded:
        path = "".join(paths)
        answer = client.get(path)
        assert answer.status_code == 200, path
        kinds[path] = answer.headers["content-type"].partition(";")[0]

    assert kinds == {
        "/docs/swagger-ui-bundle.js": "text/javascript",
        "/docs/swagger-ui.css": "text/css",
        "/openapi.json": "application/json",
    }
    assert "SwaggerUIBundle" in client.get("/docs/swagger-ui-bundle.js").text


@pytest.mark.parametrize("path", ["/docs/redoc.standalone.js", "/docs/../__init__.py", "/redoc"])
def test_nothing_else_of_the_package_is_given_out(client: Client, path: str) -> None:
    assert client.get(path).status_code in {400, 404}
