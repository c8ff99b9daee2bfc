"""A fetcher of a real Redis, which is killed while it is asked, and comes back."""

import asyncio
import logging
import time
from pathlib import Path

import pytest

from polydom.server.fetching.fetcher import Fetcher
from tests.support.fetch_files import load_one
from tests.support.fetch_sources import DRAWS, FOREVER_S, ended, run
from tests.support.redis_server import RedisServer, serving_redis

KEYS = range(40404, 40504)


def fill(server: RedisServer) -> None:
    for n in KEYS:
        server.client.hset(f"customer:{n}", mapping={"n_orders": str(n + 1)})


def test_a_redis_that_is_killed_is_not_waited_for_and_soon_used_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def bring_all(fetcher: Fetcher) -> set[str]:
        arrivals = [fetcher.ask((n,), FOREVER_S) for n in KEYS]
        states = {*await ended(*arrivals)}
        for n, arrival in zip(KEYS, arrivals, strict=True):
            if arrival.state == "came":
                assert arrival.values == {"n_orders": n + 1}
        return states

    async def main(server: RedisServer) -> None:
        asked = load_one(
            tmp_path,
            redis=server.address,
            hash="customer:{customer_id}",
            at_most_ms=1000,
            batch=16,
        )
        fetcher = Fetcher(asked.bound_to(["customer_id"], ["n_orders"]), DRAWS)
        assert await bring_all(fetcher) == {"came"}
        server.kill()
        while not fetcher.down:
            assert "came" not in await bring_all(fetcher)
        began_s = time.monotonic()
        while time.monotonic() < began_s + 0.7:  # with a probe
            assert await bring_all(fetcher) <= {"not_sent", "failed"}
            await asyncio.sleep(0.01)
        server.start()
        fill(server)
        back_s = time.monotonic()
        while await bring_all(fetcher) != {"came"}:
            await asyncio.sleep(0.01)
        assert time.monotonic() - back_s <= 2
        await fetcher.close()

    with caplog.at_level(logging.WARNING, "polydom"), serving_redis() as server:
        fill(server)
        run(lambda: main(server))
    said = [record.getMessage() for record in caplog.records]
    assert len(said) == 2
    assert said[0].startswith("fetch 'orders' failed: Redis at 127.0.0.1:")
    assert said[1].startswith("fetch 'orders' is down: ")
    assert "404" not in caplog.text.replace(str(server.port), "")
