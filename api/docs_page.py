"""The page that describes the API to people, with everything it needs from this very server.

A farm may stand where no other host can be reached; nor shall its users' browsers tell one what
they look at.
"""

from __future__ import annotations

from importlib import resources
from typing import Literal

from fastapi import APIRouter, Request
from fastapi.openapi.docs import get_swagger_ui_html
from fastapi.responses import FileResponse, HTMLResponse, RedirectResponse

router = APIRouter(include_in_schema=False)
PATH = "/docs"
Asset = Literal["swagger-ui-bundle.js", "swagger-ui.css"]
_NO_ICON = "data:,"


@router.get("/")
def start() -> RedirectResponse:
    """Lead whoever opens the bare address to the page."""
    return RedirectResponse(PATH)


@router.get(PATH)
def docs(request: Request) -> HTMLResponse:
    """Show the page."""
    at = request.scope.get("root_path", "")
    return get_swagger_ui_html(
        openapi_url=f"{at}{request.app.openapi_url}",
        title=f"{request.app.title} API",
        swagger_js_url=f"{at}{PATH}/swagger-ui-bundle.js",
        swagger_css_url=f"{at}{PATH}/swagger-ui.css",
        swagger_favicon_url=_NO_ICON,
        # Else the page asks a validator on the internet about the document.
        swagger_ui_parameters={"validatorUrl": None},
    )


@router.get(f"{PATH}/{{name}}")
def asset(name: Asset) -> FileResponse:
    """Give a file that the page loads."""
    with resources.as_file(resources.files("fastapi_offline") / "static" / name) as path:
        return FileResponse(path, headers={"Cache-Control": "no-cache"})
