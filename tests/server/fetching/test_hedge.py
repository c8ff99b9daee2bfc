"""Calls that take long are sent twice: the tail is shorter, the load hardly larger."""

import asyncio
import math
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from polydom.features.fetches.fetch import Fetch, Key, fetch
from polydom.indexer.index.fetches.stored_fetches import StoredFetch
from polydom.server.fetching.fetcher import Fetcher
from polydom.server.fetching.fetchers import Fetchers
from polydom.server.fetching.hedge import PAUSE_S, SHORT, Hedging
from polydom.server.fetching.latency import Latency
from tests.support.clock import Clock
from tests.support.fetch_sources import DRAWS, FOREVER_S, ended, run, until

# Seconds of usual calls and of slow ones; requests at the same time, and in all.
USUAL_S, SLOW_S = (0.03, 0.06), 1.0
AT_ONCE, ASKED = 25, 500


class Answers:
    """A source whose calls wait until the test answers them.

    Calls for negative keys are answered at once.
    """

    def __init__(self, **terms: Any) -> None:
        self.calls: list[asyncio.Future[int]] = []
        decorate = fetch(key=["n"], columns=["x"], name="held", **terms)
        self.fetch: Fetch = decorate(self.bring)

    async def bring(self, keys: Sequence[Key], left_s: float) -> list[list[int]]:
        ((n,),) = keys
        assert isinstance(n, int)
        if n < 0:
            return [[n]]
        call = asyncio.get_running_loop().create_future()
        self.calls.append(call)
        return [[await call]]

    async def warm(self, fetcher: Fetcher) -> None:
        """Let two calls come, so that one of every two may be repeated."""
        for n in (-1, -2):
            assert await ended(fetcher.ask((n,), FOREVER_S)) == ["came"]


async def asked(
    took_s: Callable[[int, int], float], hedge: float
) -> tuple[np.ndarray[Any, Any], int, dict[bool, int]]:
    """Ask for many keys of a source; return seconds, number of calls and hedges.

    `took_s` returns how long a call takes, of its number and its key.
    """
    calls = 0

    @fetch(key=["n"], columns=["x"], hedge=hedge, batch=1, at_most_ms=9000)
    async def drawn(keys: Sequence[Key], left_s: float) -> list[list[int]]:
        nonlocal calls
        calls += 1
        ((n,),) = keys
        assert isinstance(n, int)
        await asyncio.sleep(took_s(calls, n))
        return [[n]]

    fetcher = Fetcher(drawn, np.linspace(*USUAL_S, 100))
    numbers, seconds = iter(range(ASKED)), []

    async def ask() -> None:
        for n in numbers:
            began_s = time.monotonic()
            assert await ended(fetcher.ask((n,), FOREVER_S)) == ["came"]
            seconds.append(time.monotonic() - began_s)

    await asyncio.gather(*(ask() for _ in range(AT_ONCE)))
    await until(lambda: not fetcher.counts.in_flight)
    await fetcher.close()
    return np.array(seconds), calls, fetcher.counts.hedges


def usual_s(number: int) -> float:
    low_s, high_s = USUAL_S
    return low_s + (high_s - low_s) * (number * 0.618 % 1)


def test_the_tail_is_shorter_and_hedges_stay_within_their_share() -> None:
    def took_s(call: int, n: int) -> float:
        return SLOW_S if call % 50 == 49 else usual_s(call)

    seconds, calls, _ = run(lambda: asked(took_s, 0.0))
    assert calls == ASKED
    assert np.quantile(seconds, 0.985) >= SLOW_S
    seconds, calls, hedges = run(lambda: asked(took_s, 0.25))
    assert np.quantile(seconds, 0.985) < SLOW_S / 2
    assert hedges[True] > 0
    assert calls == ASKED + sum(hedges.values()) <= ASKED * 1.25


def test_keys_that_are_slow_for_everybody_end_hedging() -> None:
    def took_s(call: int, n: int) -> float:
        return usual_s(n) + (0.2 if n % 4 == 0 else 0)

    _, calls, hedges = run(lambda: asked(took_s, 0.25))
    assert 0 < sum(hedges.values()) <= SHORT + 2 * AT_ONCE < ASKED * 0.25
    assert calls == ASKED + sum(hedges.values())


@pytest.mark.parametrize("winner", [0, 1])
def test_the_first_answer_wins_and_the_other_call_goes_on(winner: int) -> None:
    async def main() -> None:
        source = Answers(hedge=0.5)
        fetcher = Fetcher(source.fetch, DRAWS)
        await source.warm(fetcher)
        arrival = fetcher.ask((7,), FOREVER_S)
        await until(lambda: len(source.calls) == 2)
        source.calls[winner].set_result(winner)
        assert await ended(arrival) == ["came"]
        assert arrival.values == {"x": winner}
        assert fetcher.counts.in_flight == 1
        source.calls[1 - winner].set_result(1 - winner)
        await until(lambda: not fetcher.counts.in_flight)
        assert arrival.values == {"x": winner}
        assert fetcher.counts.hedges == {True: winner, False: 1 - winner}
        assert fetcher.counts.seconds["came"].total < 60
        assert sum(fetcher.counts.seconds["came"].counts) == 3
        await fetcher.close()

    run(main)


@pytest.mark.parametrize("both", [False, True])
def test_a_key_fails_only_if_both_calls_fail(both: bool) -> None:
    async def main() -> None:
        source = Answers(hedge=0.5)
        fetcher = Fetcher(source.fetch, DRAWS)
        await source.warm(fetcher)
        arrival = fetcher.ask((7,), FOREVER_S)
        told: list[str] = []
        arrival.then(lambda: told.append(arrival.state))
        await until(lambda: len(source.calls) == 2)
        source.calls[0].set_exception(ConnectionError("away"))
        await until(lambda: fetcher.counts.in_flight == 1)
        assert arrival.state == "waiting"
        if both:
            source.calls[1].set_exception(ConnectionError("away"))
        else:
            source.calls[1].set_result(1)
        await until(lambda: not fetcher.counts.in_flight)
        assert told == ["failed" if both else "came"]
        assert fetcher.counts.hedges == {True: not both, False: both}
        await fetcher.close()

    run(main)


def test_closing_ends_both_calls() -> None:
    async def main() -> None:
        source = Answers(hedge=0.5)
        fetcher = Fetcher(source.fetch, DRAWS)
        await source.warm(fetcher)
        arrival = fetcher.ask((7,), FOREVER_S)
        await until(lambda: len(source.calls) == 2)
        await fetcher.close()
        assert arrival.state == "failed"
        assert all(call.cancelled() for call in source.calls)

    run(main)


def test_a_second_call_that_hangs_is_cancelled_as_any_other() -> None:
    async def main() -> None:
        source = Answers(hedge=0.5, at_most_ms=50)
        fetcher = Fetcher(source.fetch, DRAWS)
        await source.warm(fetcher)
        arrival = fetcher.ask((7,), FOREVER_S)
        await until(lambda: len(source.calls) == 2)
        source.calls[1].set_result(1)
        assert await ended(arrival) == ["came"]
        await until(source.calls[0].cancelled)
        await until(lambda: not fetcher.counts.in_flight)
        await fetcher.close()

    run(main)


@pytest.mark.parametrize(
    "case",
    ["no share", "no slot is free", "nobody waits", "time is over", "it is too late"],
)
def test_calls_that_are_not_repeated(case: str) -> None:
    async def main() -> None:
        source = Answers(
            hedge=0.0 if case == "no share" else 0.5,
            at_once=1 if case == "no slot is free" else 64,
        )
        fetcher = Fetcher(source.fetch, DRAWS)
        await source.warm(fetcher)
        due_s = 0.005 if case == "time is over" else math.inf
        if case == "it is too late":  # a second call would come after 200 ms
            fetcher.latency = Latency(10 * DRAWS)
            due_s = 0.15
        arrival = fetcher.ask((7,), time.monotonic() + due_s)
        await until(lambda: source.calls or arrival.state != "waiting")
        if case == "nobody waits":
            arrival.then(fetcher.refuse)
            arrival.forget(fetcher.refuse)
        await asyncio.sleep(0.2)
        assert len(source.calls) <= 1
        assert fetcher.counts.in_flight == len(source.calls)
        await fetcher.close()

    run(main)


def test_calls_with_a_price_are_not_repeated() -> None:
    source = Answers(hedge=0.5)
    fetchers = Fetchers({"held": source.fetch})
    free = StoredFetch("held", ["n"], ["x"], {"usd": 0.0})
    (fetcher,) = fetchers.of([free], DRAWS[:, None])
    assert fetcher is not None
    assert fetcher.hedging is not None
    # another index pays for the same calls
    assert fetchers.of(
        [StoredFetch("held", ["n"], ["x"], {"usd": 0.1})], DRAWS[:, None]
    )
    assert fetcher.hedging is None


def test_a_pause_ends() -> None:
    clock, latency = Clock(), Latency(DRAWS)
    hedging = Hedging(0.5, clock)
    assert hedging.after_s(latency) == pytest.approx(0.01, rel=0.1)
    assert not hedging.allows()
    assert hedging.after_s(latency) < math.inf
    assert hedging.allows()
    assert not hedging.allows()
    for _ in range(29):
        hedging.add(won=False, chance=0.5)
    assert hedging.after_s(latency) < math.inf
    hedging.add(won=False, chance=0.5)
    assert hedging.after_s(latency) == math.inf
    clock.now_s += PAUSE_S
    assert hedging.after_s(latency) < math.inf
    rng = np.random.default_rng(0)
    for won in rng.random(5000) < 0.5:
        hedging.add(bool(won), 0.5)
        assert hedging.after_s(latency) < math.inf


def test_quantiles_are_of_calls_that_came() -> None:
    latency = Latency(np.array([*np.linspace(0.01, 0.1, 90), *[math.inf] * 10]))
    assert latency.quantile(0.9) == pytest.approx(0.091, rel=0.02)
    assert Latency(DRAWS[:0]).quantile(0.9) == math.inf
