"""``python -m api``: serve the API, on loopback unless told otherwise."""

from __future__ import annotations

import uvicorn

from api.app import create_app
from api.settings import ApiSettings
from enginefarm import logs

GRACE_S = 5
"""Watchers of events never end by themselves; at a stop they are cut off after this long."""


def main() -> None:
    """Serve until a signal ends it."""
    logs.configure()
    settings = ApiSettings()
    uvicorn.run(
        create_app(settings),
        host=settings.host,
        port=settings.port,
        log_config=None,
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=GRACE_S,
    )


if __name__ == "__main__":
    main()
