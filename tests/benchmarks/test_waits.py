"""Sources answer when they should or not at all; rivals wait as their rules say."""

import asyncio
import http.client
import json
import time
from typing import Any

import numpy as np
import pytest

from benchmarks.waits.mix import Answers, Requests
from benchmarks.waits.sources import LAWS, Source, draw_latencies, ramp, source
from benchmarks.waits.tables import FAST, SLOW

pytestmark = pytest.mark.jit  # of no kernel
VALUES: list[dict[str, Any]] = [{"a": 1.5}, {"a": None}, {"a": "word"}]


def ask(served: Source, *keys: int, timeout: float = 10.0) -> tuple[float, Any]:
    """Seconds that a source took, and its values."""
    began_s = time.perf_counter()
    connection = http.client.HTTPConnection("127.0.0.1", served.port, timeout=timeout)
    try:
        body = json.dumps({"keys": [[key] for key in keys], "left_ms": 5.0})
        connection.request("POST", "/values", body)
        values = json.loads(connection.getresponse().read())["values"]
    finally:
        connection.close()
    return time.perf_counter() - began_s, values


def test_a_source_answers_after_the_latency_of_its_keys() -> None:
    with source(np.array([0.0, 0.2, np.inf]), VALUES) as served:
        assert ask(served, 0)[1] == VALUES[:1]
        took_s, values = ask(served, 0, 1)
        assert values == VALUES[:2]
        assert took_s >= 0.2
        served.slow_down(2.0)
        assert ask(served, 1)[0] >= 0.4
        with pytest.raises(TimeoutError):
            ask(served, 2, timeout=0.3)
        assert served.asked() == 5
        assert served.asked() == 0


def test_a_source_can_hang_and_refuse_and_is_back_at_its_port() -> None:
    with source(np.zeros(3), VALUES) as served:
        served.become("hangs")
        with pytest.raises(TimeoutError):
            ask(served, 0, timeout=0.3)
        served.become("refuses")
        with pytest.raises(ConnectionError):
            ask(served, 0)
        served.become("up")
        assert ask(served, 2)[1] == VALUES[2:]


def test_a_ramp_makes_a_source_slower_and_what_it_was_again() -> None:
    with source(np.array([0.1]), VALUES) as served:
        with ramp(served, 5.0, 0.0, 1.0) as moments:
            began_s, took_s = time.perf_counter(), list[float]()
            while time.perf_counter() < began_s + 1.0:
                took_s.append(ask(served, 0)[0])
        assert max(took_s) >= 0.2
        assert moments == sorted(moments)
        assert min(ask(served, 0)[0] for _ in range(4)) < 0.4  # of 0.5 at the longest


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("fetch", [FAST, SLOW])
def test_a_key_has_one_latency(law: str, fetch: str) -> None:
    drawn = draw_latencies(law, fetch, 1000)
    assert (drawn == draw_latencies(law, fetch, 1000)).all()
    assert (drawn > 0).all()
    assert 0 < np.isinf(drawn).mean() < 0.02


def test_a_rival_takes_what_has_come_by_its_time_and_cancels_nothing() -> None:
    rivals = pytest.importorskip("benchmarks.waits.rivals")
    rival = rivals.Rival(None, {FAST: "", SLOW: ""}, rivals.cut_at_budget)

    async def bring(after_s: float) -> dict[str, float]:
        await asyncio.sleep(after_s)
        if after_s == 0.01:
            raise OSError
        return {"after_s": after_s}

    async def run() -> None:
        now_s = asyncio.get_running_loop().time()
        tasks = [asyncio.create_task(bring(after)) for after in (0.0, 0.01, 0.5, 0.5)]
        ends_s = [now_s + 0.2, now_s + 0.2, now_s + 0.05, now_s + 5.0]
        found = await rival.wait(tasks, ends_s)
        assert found == [{"after_s": 0.0}, None, {"after_s": 0.5}, {"after_s": 0.5}]
        tasks = [asyncio.create_task(bring(0.2))]
        began_s = time.perf_counter()
        assert await rival.wait(tasks, [asyncio.get_running_loop().time()]) == [None]
        assert time.perf_counter() - began_s < 0.2
        assert await tasks[0] == {"after_s": 0.2}

    asyncio.run(run())


def test_stated_qualities_are_compared_on_the_rows_drawn_and_on_all() -> None:
    ahead = pytest.importorskip("benchmarks.waits.ahead")
    models = [frozenset[str](), frozenset({"request"})]
    answers = Answers(
        Requests([{}] * 4, np.array([5.0, 5.0, 5.0, 9.0]), []),
        np.zeros(4),
        np.ones(4),
        np.array([True, False, True, True]),
        np.array([0.5, 0.8, np.nan, 0.8]),
        np.zeros(4, int),
        [models[0], models[1], frozenset(), models[1]],
    )
    known = dict(zip(models, (0.45, 0.79), strict=True))
    (row,) = ahead.stated_rows([answers], known)  # 9 ms is none of the budgets
    assert (row["budget ms"], row["stated"], row["right"]) == (5, 0.65, 0.5)
    assert row["all rows"] == pytest.approx(0.62)
    assert row["too high of all"] == pytest.approx(3.0)


def test_a_cascade_has_the_least_threshold_that_costs_little() -> None:
    rivals = pytest.importorskip("benchmarks.waits.rivals")
    sure = np.array([0.6, 0.7, 0.8, 0.9])
    first = np.array([False, False, True, True])
    whole = np.array([True, True, True, True])
    assert rivals.least_threshold(sure, first, whole) == pytest.approx(0.705)
    assert rivals.least_threshold(sure, first, ~whole) == 0.5
    assert rivals.least_threshold(sure + 1.0, ~whole, whole) == np.inf
