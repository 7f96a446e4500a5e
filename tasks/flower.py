"""The Celery application that Flower is given: ``celery --app=tasks.flower flower``.

It knows every queue there can be, so that Flower shows their lengths; and it waits for the broker
no longer than a page may take. Where the broker is, Celery itself reads from ``CELERY_BROKER_URL``.
"""

from __future__ import annotations

from tasks.app import make_app

app = make_app("", publisher=True)
