"""The services: private, on loopback alone, and their data outlives them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import boto3
import httpx
import psutil
import psycopg
import pytest
import redis
from botocore.client import Config
from botocore.exceptions import ClientError

from localfarm.services import Services, running_services

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

pytestmark = pytest.mark.services


def bucket_client(services: Services) -> S3Client:
    return boto3.client(
        "s3",
        endpoint_url=services.s3.endpoint,
        region_name=services.s3.region,
        aws_access_key_id=services.credentials.s3_access_key,
        aws_secret_access_key=services.credentials.s3_secret_key,
        config=Config(retries={"total_max_attempts": 1}),
    )


def test_each_process_of_a_run_has_a_database_of_its_own(
    bare_postgres_url: str, worker_number: int
) -> None:
    with psycopg.connect(bare_postgres_url.replace("+psycopg", "")) as connection:
        row = connection.execute("SELECT current_database()").fetchone()

    assert row == (f"bare_{worker_number}",)


def test_postgres_wants_its_password(bare_postgres_url: str) -> None:
    scheme, _, rest = bare_postgres_url.replace("+psycopg", "").partition("://")
    user, _, place = rest.partition("@")
    wrong = f"{scheme}://{user.partition(':')[0]}:wrong@{place}"

    with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
        psycopg.connect(wrong)


def test_valkey_wants_its_password(valkey_url: str) -> None:
    without = "redis://" + valkey_url.partition("@")[2]

    with redis.Redis.from_url(without) as client, pytest.raises(redis.AuthenticationError):
        client.ping()


def test_the_data_of_all_three_outlives_them_in_any_folder(tmp_path: Path) -> None:
    # Longer than the path of a unix socket may be.
    folder = tmp_path / ("long" * 30) / "a, b c"
    with running_services(folder) as services:
        url = services.postgres.ensure_database("kept").replace("+psycopg", "")
        with psycopg.connect(url) as connection:
            connection.execute("CREATE TABLE kept AS SELECT 42 AS value")
        with redis.Redis.from_url(services.valkey.url()) as client:
            client.set("kept", "42")
        bucket = bucket_client(services)
        bucket.create_bucket(Bucket="kept-bytes")
        bucket.put_object(Bucket="kept-bytes", Key="kept", Body=b"42")

    with running_services(folder) as services:
        url = services.postgres.ensure_database("kept").replace("+psycopg", "")
        with psycopg.connect(url) as connection:
            assert connection.execute("SELECT value FROM kept").fetchone() == (42,)
        with redis.Redis.from_url(services.valkey.url()) as client:
            assert client.get("kept") == b"42"
        answer = bucket_client(services).get_object(Bucket="kept-bytes", Key="kept")
        assert answer["Body"].read() == b"42"


def test_nothing_listens_beyond_loopback_and_nothing_stays_behind(tmp_path: Path) -> None:
    with running_services(tmp_path / "data", durable=False) as services:
        processes = [psutil.Process(child.pid) for child in services.children]
        addresses = {
            connection.laddr.ip
            for process in processes
            for connection in process.net_connections("inet")
            if connection.status == psutil.CONN_LISTEN
        }

    assert addresses == {"127.0.0.1"}
    assert not [process for process in processes if process.is_running()]
    assert not [path for path in services.s3.sockets() if path.exists()]


def test_a_wrong_key_does_not_open_the_bucket(s3: dict[str, str]) -> None:
    client = boto3.client(
        "s3",
        endpoint_url=s3["s3_endpoint"],
        region_name=s3["s3_region"],
        aws_access_key_id=s3["s3_access_key"],
        aws_secret_access_key="wrong",
        config=Config(retries={"total_max_attempts": 1}),
    )

    with pytest.raises(ClientError, match="SignatureDoesNotMatch"):
        client.list_buckets()


def test_the_door_behind_the_bucket_lets_nobody_change_an_object(tmp_path: Path) -> None:
    with running_services(tmp_path / "data", durable=False) as services:
        bucket = bucket_client(services)
        bucket.create_bucket(Bucket="kept-bytes")
        bucket.put_object(Bucket="kept-bytes", Key="kept", Body=b"good")
        url = f"{services.s3.filer}/buckets/kept-bytes/kept"

        answered = httpx.put(url, content=b"evil")

        answer = bucket.get_object(Bucket="kept-bytes", Key="kept")
        assert answered.status_code == httpx.codes.UNAUTHORIZED
        assert answer["Body"].read() == b"good"
