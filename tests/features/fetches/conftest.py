"""Databases that run while the tests of fetches ask them."""

from collections.abc import Iterator

import pytest

from tests.support.postgres_server import PostgresServer, serving_postgres
from tests.support.redis_server import RedisServer, serving_redis


@pytest.fixture(scope="module")
def redis_server() -> Iterator[RedisServer]:
    with serving_redis() as server:
        yield server


@pytest.fixture(scope="module")
def postgres_server() -> Iterator[PostgresServer]:
    with serving_postgres() as server:
        yield server
