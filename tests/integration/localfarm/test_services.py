"""The services a test run shares, and those of a data folder."""

from __future__ import annotations

import psycopg
import pytest
import redis


@pytest.mark.services
def test_each_process_of_a_run_has_a_database_of_its_own(
    bare_postgres_url: str, worker_number: int
) -> None:
    with psycopg.connect(bare_postgres_url.replace("+psycopg", "")) as connection:
        row = connection.execute("SELECT current_database()").fetchone()

    assert row == (f"bare_{worker_number}",)


@pytest.mark.services
def test_valkey_answers_and_wants_its_password(valkey_url: str) -> None:
    with redis.Redis.from_url(valkey_url) as client:
        assert client.ping()

    without = "redis://" + valkey_url.partition("@")[2]
    with redis.Redis.from_url(without) as client, pytest.raises(redis.AuthenticationError):
        client.ping()


@pytest.mark.services
def test_s3(s3: dict[str, str]) -> None:
    assert s3["s3_endpoint"].startswith("http://127.0.0.1:")
