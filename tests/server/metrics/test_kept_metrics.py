"""Renderings of the metrics that follow each other too soon."""

import asyncio
from collections.abc import Mapping

from polydom.server.metrics.counts import Samples
from polydom.server.metrics.kept_metrics import SAVED_S, SHARE, KeptMetrics

TAKES_S = 0.002


class World:
    """A clock, and renderings that take `TAKES_S` on it."""

    def __init__(self) -> None:
        self.now_s, self.rendered = 50.0, 0
        self.kept = KeptMetrics(self.render, self.others, lambda: self.now_s)

    async def others(self) -> Mapping[int, Samples]:
        await asyncio.sleep(0)
        return {}

    def render(self, others: Mapping[int, Samples]) -> bytes:
        self.now_s += TAKES_S
        self.rendered += 1
        return b"%d" % self.rendered


def test_whoever_asks_now_and_then_gets_what_is_new() -> None:
    async def main() -> None:
        world = World()
        for number in range(200):
            assert await world.kept.get() == b"%d" % (number + 1)
            world.now_s += TAKES_S / SHARE

    asyncio.run(main())


def test_renderings_take_a_share_of_the_time_however_often_they_are_asked() -> None:
    async def main() -> None:
        world, asked, seconds = World(), 0, 20.0
        while world.now_s < 50 + seconds:
            said = await world.kept.get()
            assert said == b"%d" % world.rendered
            world.now_s += 0.001
            asked += 1
        most_s = SAVED_S + SHARE * seconds + TAKES_S
        assert SHARE * seconds < world.rendered * TAKES_S <= most_s
        assert asked > 10 * world.rendered
        world.now_s += 1.0
        before = world.rendered
        assert await world.kept.get() == b"%d" % (before + 1)

    asyncio.run(main())


def test_requests_at_a_time_share_a_rendering() -> None:
    async def main() -> None:
        world = World()
        said = await asyncio.gather(*(world.kept.get() for _ in range(10)))
        assert said == [b"1"] * 10

    asyncio.run(main())
