"""``python -m api``: serve the API, on loopback unless told otherwise.

Told to stop, it takes no more connections, ends the streams of its watchers, lets requests under
way have a few seconds, and ends with exit status 0.
"""

from __future__ import annotations

import signal
import socket
import sys

import uvicorn
from fastapi import FastAPI

from api.app import create_app
from api.settings import ApiSettings
from enginefarm import logs

GRACE_S = 5
"""How long a request under way may take when the server is told to stop; then it is broken off."""


class _Server(uvicorn.Server):
    def __init__(self, config: uvicorn.Config, app: FastAPI) -> None:
        super().__init__(config)
        self._app = app

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._app.state.closing.begin()
        await super().shutdown(sockets)


def main() -> int:
    """Serve until a signal ends it; return the exit status."""
    # The server raises the signal that has ended it once more when all is done.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    logs.configure()
    settings = logs.settings_or_leave(ApiSettings)
    app = create_app(settings)
    server = _Server(
        uvicorn.Config(
            app,
            host=settings.host,
            port=settings.port,
            log_config=None,
            access_log=False,
            server_header=False,
            timeout_graceful_shutdown=GRACE_S,
        ),
        app,
    )
    try:
        server.run()
    except KeyboardInterrupt:  # a person's Ctrl-C, likewise raised again
        return 0
    return 0 if server.started else 1


if __name__ == "__main__":
    sys.exit(main())
