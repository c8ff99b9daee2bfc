"""A fetcher asks once for all who wait, is never held up, and tells what came."""

import asyncio
import logging
import math
import time
from collections.abc import Sequence
from functools import partial
from typing import Any

import pytest

from polydom.features.errors import FetchFailed
from polydom.features.fetches.fetch import Key, fetch
from polydom.server.fetching.breaker import FAILURES
from polydom.server.fetching.fetcher import Fetcher
from tests.support.clock import Clock
from tests.support.fetch_sources import DRAWS, FOREVER_S, Source, ended, run, until


def test_a_thousand_requests_for_one_key_are_one_call() -> None:
    async def main() -> None:
        source = Source()
        fetcher = Fetcher(source.fetch, DRAWS)
        told: list[int] = []
        for number in range(1000):
            arrival = fetcher.ask((7,), FOREVER_S)
            assert arrival.state == "waiting"
            arrival.then(partial(told.append, number))
            if number == 500:
                await asyncio.sleep(0)  # some ask while the call is in flight
        assert await ended(arrival) == ["came"]
        assert arrival.values == {"twice": 14}
        assert told == [*range(1000)]
        assert len(source.calls) == 1
        await fetcher.close()

    run(main)


def test_keys_of_one_turn_of_the_loop_go_together_in_batches() -> None:
    async def main() -> None:
        source = Source(batch=4)
        fetcher = Fetcher(source.fetch, DRAWS)
        arrivals = [fetcher.ask((n,), FOREVER_S) for n in range(10)]
        assert source.calls == []
        assert {*await ended(*arrivals)} == {"came"}
        assert [len(keys) for keys, _ in source.calls] == [4, 4, 2]
        assert [a.values for a in arrivals] == [{"twice": 2 * n} for n in range(10)]
        await fetcher.close()

    run(main)


def test_values_that_python_calls_equal_are_different_keys() -> None:
    async def main() -> None:
        source = Source(keep_s=60.0)
        fetcher = Fetcher(source.fetch, DRAWS)
        keys: list[Key] = [(1,), (True,), ("1",)]
        await ended(*(fetcher.ask(key, FOREVER_S) for key in keys))
        assert list(map(repr, source.asked)) == ["1", "True", "'1'"]
        kept = [fetcher.ask(key, FOREVER_S).values for key in keys]
        assert kept == [{"twice": 2}, {"twice": -1}, None]
        await fetcher.close()

    run(main)


def test_the_call_learns_what_the_most_hurried_key_has_left() -> None:
    async def main() -> None:
        clock, source = Clock(), Source()
        fetcher = Fetcher(source.fetch, DRAWS, clock)
        arrivals = [
            fetcher.ask((n,), clock() + left_s)
            for n, left_s in enumerate((0.5, 0.2, -0.1, 9.0))
        ]
        assert await ended(*arrivals) == ["came", "came", "not_sent", "came"]
        ((keys, left_s),) = source.calls
        assert {*keys} == {(0,), (1,), (3,)}
        assert left_s == pytest.approx(0.2)
        assert await ended(fetcher.ask((9,), math.inf)) == ["came"]
        assert source.calls[-1][1] == source.fetch.at_most_s
        await fetcher.close()

    run(main)


def test_no_more_calls_than_allowed_are_in_flight() -> None:
    async def main() -> None:
        source = Source(at_once=3, batch=2)
        source.is_open.clear()
        fetcher = Fetcher(source.fetch, DRAWS)
        arrivals = [fetcher.ask((n,), FOREVER_S) for n in range(20)]
        await until(lambda: source.now == 3)
        assert fetcher.counts.in_flight == 3
        source.is_open.set()
        assert {*await ended(*arrivals)} == {"came"}
        assert source.most == 3
        assert sorted(source.asked) == [*range(20)]
        await until(lambda: not fetcher.counts.in_flight)
        await fetcher.close()

    run(main)


def test_the_most_hurried_keys_go_first() -> None:
    async def main() -> None:
        clock, source = Clock(), Source(at_once=1, batch=1)
        fetcher = Fetcher(source.fetch, DRAWS, clock)
        dues = (90.0, 70.0, 80.0)
        await ended(*(fetcher.ask((n,), due_s) for n, due_s in enumerate(dues)))
        assert source.asked == [1, 2, 0]
        await fetcher.close()

    run(main)


def test_a_key_that_waits_until_its_time_is_over_is_not_sent() -> None:
    async def main() -> None:
        clock, source = Clock(), Source(at_once=1, batch=1)
        source.is_open.clear()
        fetcher = Fetcher(source.fetch, DRAWS, clock)
        chance = fetcher.latency.chance(0.0, 10.0)
        first = fetcher.ask((0,), clock() + 100)
        await until(lambda: source.now)
        late = fetcher.ask((1,), clock() + 1)
        later = fetcher.ask((2,), clock() + 1)
        await asyncio.sleep(0.01)
        fetcher.ask((2,), clock() + 50)  # another request has more time
        clock.now_s += 2
        last = fetcher.ask((3,), clock() + 50)
        # the next turn of the loop finds what is late, though no call is free
        assert await ended(late) == ["not_sent"]
        assert late.values is None
        assert late.came_s == math.inf
        source.is_open.set()
        assert await ended(first, later, last) == ["came"] * 3
        assert source.asked == [0, 3, 2] or source.asked == [0, 2, 3]
        assert fetcher.counts.not_sent == 1
        assert fetcher.latency.chance(0.0, 10.0) == pytest.approx(chance)
        await fetcher.close()

    run(main)


def test_a_queued_key_for_which_nobody_waits_any_more_is_not_sent() -> None:
    async def main() -> None:
        source = Source(at_once=1, batch=1)
        source.is_open.clear()
        fetcher = Fetcher(source.fetch, DRAWS)
        told: list[str] = []
        first = fetcher.ask((0,), FOREVER_S)
        await until(lambda: source.now)
        left, wanted = (fetcher.ask((n,), FOREVER_S) for n in (1, 2))

        def one() -> None:
            told.append("one")

        def other() -> None:
            told.append("other")

        left.then(one)
        wanted.then(one)
        wanted.then(other)
        left.forget(one)
        wanted.forget(other)  # and waits again, in the same turn of the loop
        wanted.forget(one)
        wanted.forget(one)  # as often as one likes
        wanted.then(other)
        source.is_open.set()
        assert await ended(first, wanted, left) == ["came", "came", "not_sent"]
        assert source.asked == [0, 2]
        assert told == ["other"]
        await fetcher.close()

    run(main)


def test_kept_values_are_there_at_once_until_they_are_too_old() -> None:
    async def main() -> None:
        clock, source = Clock(), Source(keep_s=10.0)
        fetcher = Fetcher(source.fetch, DRAWS, clock)
        first = fetcher.ask((1,), FOREVER_S)
        nothing = fetcher.ask(("x",), FOREVER_S)
        await ended(first, nothing)
        clock.now_s += 9.9
        kept = fetcher.ask((1,), FOREVER_S)
        assert (kept.state, kept.values) == ("kept", {"twice": 2})
        assert (kept.sent_s, kept.came_s) == (first.sent_s, first.came_s)
        assert fetcher.ask(("x",), FOREVER_S).state == "kept"
        assert fetcher.counts.kept == 2
        clock.now_s += 0.2
        assert await ended(fetcher.ask((1,), FOREVER_S)) == ["came"]
        assert source.asked == [1, "x", 1]
        await fetcher.close()

    run(main)


def test_values_that_are_not_to_be_kept_are_asked_for_again() -> None:
    async def main() -> None:
        source = Source()
        fetcher = Fetcher(source.fetch, DRAWS)
        for _ in range(3):
            assert await ended(fetcher.ask((1,), FOREVER_S)) == ["came"]
        assert source.asked == [1, 1, 1]
        await fetcher.close()

    run(main)


def test_a_call_that_is_left_behind_keeps_what_it_brings() -> None:
    async def main() -> None:
        source = Source(keep_s=60.0, at_most_ms=500)
        source.is_open.clear()
        fetcher = Fetcher(source.fetch, DRAWS)
        left = fetcher.ask((1,), FOREVER_S)
        given_up = fetcher.ask((2,), FOREVER_S)

        def done() -> None:
            pytest.fail("a request that left was told")

        left.then(done)
        await until(lambda: source.now)
        left.forget(done)
        assert await ended(given_up) == ["failed"]
        assert left.state == "failed"
        assert given_up.came_s == math.inf
        assert fetcher.counts.in_flight == 1  # it goes on
        source.is_open.set()
        await until(lambda: not fetcher.counts.in_flight)
        for n in (1, 2):
            kept = fetcher.ask((n,), FOREVER_S)
            assert (kept.state, kept.values) == ("kept", {"twice": 2 * n})
        assert given_up.state == "failed"
        assert given_up.values is None
        assert sum(fetcher.counts.seconds["failed"].counts) == 1
        assert sum(fetcher.counts.seconds["came"].counts) == 0
        await fetcher.close()

    run(main)


def test_a_call_that_never_returns_is_given_up_and_cancelled_at_last() -> None:
    async def main() -> None:
        source = Source(at_most_ms=200, at_once=1)
        source.is_open.clear()
        fetcher = Fetcher(source.fetch, DRAWS)
        chance = fetcher.latency.chance(0.0, 10.0)
        began_s = time.monotonic()
        assert await ended(fetcher.ask((1,), FOREVER_S)) == ["failed"]
        assert time.monotonic() - began_s >= 0.2
        assert fetcher.latency.chance(0.0, 10.0) < chance
        assert source.cancelled == 0
        # the call holds no place any more, and goes on for a while
        assert await ended(fetcher.ask((2,), FOREVER_S)) == ["failed"]
        await until(lambda: source.cancelled == 2)
        assert time.monotonic() - began_s >= 0.4
        assert source.now == fetcher.counts.in_flight == 0
        await fetcher.close()

    run(main)


async def too_few(keys: Sequence[Key], left_s: float) -> list[Any]:
    return [[1]]


async def a_list_too_long(keys: Sequence[Key], left_s: float) -> list[Any]:
    return [[1, 2]] * len(keys)


async def an_error(keys: Sequence[Key], left_s: float) -> list[Any]:
    raise KeyError(*keys)


async def a_refused_connection(keys: Sequence[Key], left_s: float) -> list[Any]:
    try:
        raise ConnectionRefusedError(111, f"for {keys}")
    except OSError as error:
        raise RuntimeError(f"no values of {keys}") from error


async def a_sentence_with_keys(keys: Sequence[Key], left_s: float) -> list[Any]:
    raise FetchFailed(f"two rows for key {keys[0][0]}, as in 'n_{keys[1][0]}'")


async def its_own_end(keys: Sequence[Key], left_s: float) -> list[Any]:
    raise asyncio.CancelledError(keys)


@pytest.mark.parametrize(
    ("call", "why"),
    [
        (too_few, "1 answers to 2 keys"),
        (a_list_too_long, "a list of 2 values"),
        (an_error, "KeyError in test_fetcher.py, line"),
        (
            a_refused_connection,
            "RuntimeError after ConnectionRefusedError (Connection refused) in test_",
        ),
        (a_sentence_with_keys, "two rows for key ..., as in 'n_...'"),
        (its_own_end, "cancelled"),
    ],
)
def test_a_failed_call_is_told_and_logged_without_keys(
    call: Any, why: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        own = fetch(key=["n"], columns=["twice"], name="doubled", keep_s=60.0)(call)
        fetcher = Fetcher(own, DRAWS)
        before = fetcher.latency.chance(0.0, 10.0)
        asked = [fetcher.ask((n,), FOREVER_S) for n in (40404, 50505)]
        assert await ended(*asked) == ["failed", "failed"]
        assert [arrival.values for arrival in asked] == [None, None]
        answered = call is a_list_too_long  # of each key, and so in time
        assert (fetcher.latency.chance(0.0, 10.0) >= before) == answered
        assert fetcher.ask((40404,), FOREVER_S).state == "waiting"  # not kept
        await fetcher.close()

    with caplog.at_level(logging.WARNING, "polydom"):
        run(main)
    (record,) = caplog.records
    said = record.getMessage()
    assert said.startswith("fetch 'doubled' failed: ")
    assert why in said
    assert "40404" not in caplog.text
    assert "50505" not in caplog.text


async def unusable_for_one(keys: Sequence[Key], left_s: float) -> list[Any]:
    return [[math.inf] if n == 40404 else None if n == 3 else [2] for (n,) in keys]


def test_an_unusable_answer_fails_for_its_key_alone(
    caplog: pytest.LogCaptureFixture,
) -> None:
    own = fetch(key=["n"], columns=["twice"], name="doubled", keep_s=60.0)

    async def main() -> None:
        fetcher = Fetcher(own(unusable_for_one), DRAWS)
        before = fetcher.latency.chance(0.0, 10.0)
        for turn in range(2 * FAILURES):
            keys: list[Key] = [(40404,), (turn + 4,), (3,)]
            asked = [fetcher.ask(key, FOREVER_S) for key in keys]
            states = await ended(*asked)
            assert states == ["failed", "came", "kept" if turn else "came"]
            assert [one.values for one in asked] == [None, {"twice": 2}, None]
            assert math.isinf(asked[0].came_s)
        assert not fetcher.down
        assert fetcher.latency.chance(0.0, 10.0) >= before - 1e-9
        took = fetcher.counts.seconds
        assert [sum(took[state].counts) for state in ("came", "failed")] == [
            2 * FAILURES,
            2 * FAILURES,
        ]
        # a row that nobody can use alone makes the source neither down nor slow
        before = fetcher.latency.chance(0.0, 10.0)
        for _ in range(2 * FAILURES):
            assert await ended(fetcher.ask((40404,), FOREVER_S)) == ["failed"]
        assert not fetcher.down
        assert fetcher.latency.chance(0.0, 10.0) >= before - 1e-9
        await fetcher.close()

    with caplog.at_level(logging.WARNING, "polydom"):
        run(main)
    (failed,) = (record.getMessage() for record in caplog.records)
    assert "column 'twice' holds inf; a finite number is needed" in failed
    assert "40404" not in caplog.text


def test_failures_are_logged_once_a_minute_with_their_number(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def main() -> None:
        clock, source = Clock(), Source()
        fetcher = Fetcher(source.fetch, DRAWS, clock)
        source.error = ValueError("17")
        for _ in range(FAILURES - 2):
            await ended(fetcher.ask((17,), FOREVER_S))
        clock.now_s += 61
        await ended(fetcher.ask((17,), FOREVER_S))
        await fetcher.close()

    with caplog.at_level(logging.WARNING, "polydom"):
        run(main)
    first, last = (record.getMessage() for record in caplog.records)
    assert first.startswith(
        "fetch 'doubled' failed: ValueError in fetch_sources.py, line "
    )
    assert "failed 3 times since the last record: ValueError in" in last


def test_a_source_that_is_down_is_probed_and_soon_back(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def main() -> None:
        source = Source()
        fetcher = Fetcher(source.fetch, DRAWS)
        source.error = ConnectionError("away")
        while not fetcher.down:
            await ended(fetcher.ask((len(source.calls),), FOREVER_S))
        assert len(source.calls) == FAILURES
        began_s = time.monotonic()
        refused = [fetcher.ask((n,), FOREVER_S) for n in range(100)]
        assert {arrival.state for arrival in refused} == {"not_sent"}
        assert fetcher.counts.not_sent == 100
        while time.monotonic() < began_s + 1.2:
            await ended(*(fetcher.ask((n,), FOREVER_S) for n in range(100)))
            await asyncio.sleep(0.01)
        probes = len(source.calls) - FAILURES
        assert 1 <= probes <= (time.monotonic() - began_s) / 0.5
        source.error = None
        back_s = time.monotonic()
        await until(
            lambda: (
                fetcher.ask((1000,), FOREVER_S).state != "not_sent" and not fetcher.down
            )
        )
        assert time.monotonic() - back_s <= 2
        assert await ended(fetcher.ask((5,), FOREVER_S)) == ["came"]
        await fetcher.close()

    with caplog.at_level(logging.WARNING, "polydom"):
        run(main)
    downs = [r.getMessage() for r in caplog.records if "is down" in r.getMessage()]
    assert len(downs) == 1
    assert "5 calls in a row failed" in downs[0]


def test_a_source_whose_calls_hang_is_back_as_soon_as_one_ends() -> None:
    async def main() -> None:
        source = Source(at_once=2, batch=1, at_most_ms=100)
        source.is_open.clear()
        fetcher = Fetcher(source.fetch, DRAWS)
        while not fetcher.down:
            await ended(*(fetcher.ask((n,), FOREVER_S) for n in range(4)))
        # those that were queued are refused
        assert fetcher.ask((0,), FOREVER_S).state == "not_sent"
        await asyncio.sleep(0.6)
        source.is_open.set()
        began_s = time.monotonic()
        await until(
            lambda: (
                fetcher.ask((1,), FOREVER_S).state != "not_sent" and not fetcher.down
            )
        )
        assert time.monotonic() - began_s <= 2
        await fetcher.close()

    run(main)


def test_queued_keys_are_refused_when_the_source_goes_down() -> None:
    async def main() -> None:
        source = Source(at_once=FAILURES, batch=1)
        source.is_open.clear()
        source.error = ConnectionError("away")
        fetcher = Fetcher(source.fetch, DRAWS)
        arrivals = [fetcher.ask((n,), FOREVER_S) for n in range(FAILURES + 3)]
        await until(lambda: source.now == FAILURES)
        source.is_open.set()
        states = await ended(*arrivals)
        assert states[:FAILURES] == ["failed"] * FAILURES
        assert "not_sent" in states
        await fetcher.close()

    run(main)


def test_closing_ends_calls_in_flight_and_what_waits() -> None:
    async def main() -> None:
        source = Source(at_once=1, batch=1)
        source.is_open.clear()
        fetcher = Fetcher(source.fetch, DRAWS)
        told: list[int] = []
        arrivals = [fetcher.ask((n,), FOREVER_S) for n in range(3)]
        for n, arrival in enumerate(arrivals):
            arrival.then(partial(told.append, n))
        await until(lambda: source.now)
        await fetcher.close()
        assert sorted(told) == [0, 1, 2]
        states = [arrival.state for arrival in arrivals]
        assert states == ["failed", "not_sent", "not_sent"]
        assert (source.cancelled, source.now, source.closed) == (1, 0, 1)
        assert fetcher.ask((9,), FOREVER_S).state == "not_sent"

    run(main)


def test_closing_does_not_wait_for_ever(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("polydom.server.fetching.fetcher.CLOSE_S", 0.05)

    async def stubborn(keys: Sequence[Key], left_s: float) -> list[Any]:
        while not free.is_set():
            try:
                await free.wait()
            except asyncio.CancelledError:
                continue
        return [None] * len(keys)

    async def close() -> None:
        await free.wait()

    async def main() -> None:
        own = fetch(key=["n"], columns=["twice"], close=close)(stubborn)
        fetcher = Fetcher(own, DRAWS)
        fetcher.ask((1,), FOREVER_S)
        await until(lambda: fetcher.counts.in_flight)
        await asyncio.sleep(0.01)
        await fetcher.close()
        free.set()
        await until(lambda: not fetcher.counts.in_flight)

    free = asyncio.Event()
    with caplog.at_level(logging.WARNING, "polydom"):
        run(main)
    assert "TimeoutError" in caplog.text


@pytest.mark.parametrize("key", [([1],), (math.nan,), ({"a": 1},), ("a", math.nan)])
def test_a_key_without_use_is_not_sent(key: Any) -> None:
    async def main() -> None:
        source = Source()
        fetcher = Fetcher(source.fetch, DRAWS)
        arrival = fetcher.ask(key, FOREVER_S)
        assert (arrival.state, arrival.values) == ("not_sent", None)
        await asyncio.sleep(0.01)
        assert source.calls == []
        await fetcher.close()

    run(main)


@pytest.mark.parametrize("waits_before", [False, True])
def test_a_call_that_blocks_the_loop_is_logged_once_a_minute(
    waits_before: bool, caplog: pytest.LogCaptureFixture
) -> None:
    async def blocking(keys: Sequence[Key], left_s: float) -> list[Any]:
        if waits_before:
            await asyncio.sleep(0.01)
        time.sleep(0.3)
        return [[1]] * len(keys)

    async def main() -> None:
        own = fetch(key=["n"], columns=["twice"])(blocking)
        fetcher = Fetcher(own, DRAWS)
        for n in range(3):
            assert await ended(fetcher.ask((n,), FOREVER_S)) == ["came"]
        await fetcher.close()

    with caplog.at_level(logging.WARNING, "polydom"):
        run(main)
    (record,) = caplog.records
    assert record.getMessage().startswith("fetch 'blocking' blocked the event loop, ")


def test_latencies_count_from_the_asking_once_for_keys_that_go_together() -> None:
    async def main() -> None:
        clock, source = Clock(), Source(at_once=1)
        source.is_open.clear()
        fetcher = Fetcher(source.fetch, DRAWS[:0], clock)
        first = [fetcher.ask((n,), FOREVER_S) for n in range(3)]
        await until(lambda: source.now)
        clock.now_s += 0.25
        second = [fetcher.ask((n,), FOREVER_S) for n in range(3, 5)]
        await asyncio.sleep(0.01)
        clock.now_s += 0.25
        third = fetcher.ask((9,), FOREVER_S)
        await asyncio.sleep(0.01)
        clock.now_s += 0.5
        source.is_open.set()
        await ended(*first, *second, third)
        assert [arrival.came_s - arrival.sent_s for arrival in (*second, third)] == [
            0.75,
            0.75,
            0.5,
        ]
        came = fetcher.counts.seconds["came"]
        assert (sum(came.counts), came.total) == (3, 1.0 + 0.75 + 0.5)
        assert fetcher.latency.chance(0.0, 0.85) == pytest.approx(2 / 3, rel=1e-2)
        await fetcher.close()

    run(main)


def test_the_waiting_are_told_after_all_values_are_set() -> None:
    async def main() -> None:
        source = Source(keep_s=60.0)
        fetcher = Fetcher(source.fetch, DRAWS)
        arrivals = [fetcher.ask((n,), FOREVER_S) for n in range(3)]
        seen: list[list[str]] = []

        def look() -> None:
            states = [arrival.state for arrival in arrivals]
            seen.append([*states, fetcher.ask((2,), FOREVER_S).state])

        arrivals[0].then(look)
        await ended(*arrivals)
        assert seen == [["came", "came", "came", "kept"]]
        await fetcher.close()

    run(main)
