"""Calls in processes of any executor, and processes that are killed."""

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import pytest

from polydom.features.errors import BadInput, WorkerLost
from polydom.indexer.cluster.workers import Workers
from tests.support.builds.deadly_calls import die_at_two, die_once

WORKERS = "polydom.indexer.cluster.workers"


def double(number: int) -> int:
    if number < 0:
        raise BadInput(f"{number} is negative")
    return 2 * number


def name_of(number: int) -> str:
    return f"doubling {number}"


def run(workers: Workers, calls: Iterator[tuple[Any, ...]], **how: Any) -> list[Any]:
    return list(workers.run(double, calls, stage="doubling", **how))


def numbers(count: int) -> Iterator[tuple[int]]:
    return ((number,) for number in range(count))


@pytest.mark.parametrize("count", [1, 2])
def test_workers_give_results_in_order(count: int) -> None:
    workers = Workers.here(count)
    assert run(workers, numbers(20)) == [*range(0, 40, 2)]
    assert sorted(run(workers, numbers(20), ordered=False)) == [*range(0, 40, 2)]
    assert run(workers, numbers(0)) == []


def test_workers_pass_on_what_a_call_raises() -> None:
    with pytest.raises(BadInput, match="-1 is negative"):
        run(Workers.here(2), iter([(1,), (-1,)]))


@pytest.mark.parametrize("ordered", [True, False])
def test_workers_name_the_call_that_kills_each_that_has_it(ordered: bool) -> None:
    calls = Workers.here(2).run(
        die_at_two, numbers(6), stage="training sets", ordered=ordered, doing=name_of
    )
    with pytest.raises(
        WorkerLost,
        match="killed or crashed 3 times while doubling 2, most likely because memory "
        "ran out; use fewer workers",
    ) as lost:
        list(calls)
    assert lost.value.stage == "training sets"
    assert "run it again" in lost.value.cure
    again = Workers.here(2).run(double, iter([(1,)] * 3), stage="training sets")
    assert list(again) == [2, 2, 2]


@pytest.mark.parametrize("ordered", [True, False])
def test_workers_carry_out_each_call_though_some_are_killed(
    ordered: bool,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(f"{WORKERS}.RETRIES", 8)
    calls = ((number, tmp_path) for number in range(7))
    found = list(Workers.here(2).run(die_once, calls, stage="s", ordered=ordered))
    assert (found if ordered else sorted(found)) == [*range(7)]
    assert "s: a worker was lost; tried again (1 of 8)" in caplog.text


class Watched(Executor):
    """Threads, and how many calls they were ever given at a time."""

    def __init__(self) -> None:
        self.pool = ThreadPoolExecutor(2)
        self.lock = threading.Lock()
        self.given = self.most = 0

    def submit(
        self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any
    ) -> "Future[Any]":
        with self.lock:
            self.given += 1
            self.most = max(self.most, self.given)
        future = self.pool.submit(fn, *args, **kwargs)
        future.add_done_callback(self._done)
        return future

    def _done(self, future: "Future[Any]") -> None:
        with self.lock:
            self.given -= 1


def test_workers_take_calls_as_they_become_free() -> None:
    taken = []

    def calls() -> Iterator[tuple[int]]:
        for number in range(100):
            taken.append(number)
            yield (number,)

    watched = Watched()
    results = Workers(watched, 2).run(double, calls(), stage="s")
    assert next(results) == 0
    assert len(taken) < 12
    assert len(list(results)) == 99
    assert watched.most <= 4


def test_workers_give_no_more_calls_once_one_raises() -> None:
    taken = []

    def calls() -> Iterator[tuple[int]]:
        for number in range(10_000):
            taken.append(number)
            yield (-1 if number == 5 else number,)

    with pytest.raises(BadInput):
        list(Workers(Watched(), 2).run(double, calls(), stage="s"))
    assert len(taken) < 100


def test_workers_are_any_executors() -> None:
    with ProcessPoolExecutor(2, get_context("spawn")) as pool:
        assert run(Workers(pool, 2), numbers(5)) == [0, 2, 4, 6, 8]
    with ProcessPoolExecutor(2, get_context("spawn")) as pool:
        calls = Workers(pool, 2).run(die_at_two, numbers(4), stage="s")
        with pytest.raises(WorkerLost):  # such a pool does not come back
            list(calls)


class Emptied(Watched):
    """A cluster whose workers are gone, where calls wait for new ones."""

    def submit(
        self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any
    ) -> "Future[Any]":
        return Future()

    def cores(self) -> int:
        return 0


def test_workers_that_are_all_gone_are_not_waited_for_for_ever(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(f"{WORKERS}.WAIT_S", 1.0)
    began_s = time.monotonic()
    workers = Workers(Emptied(), 2)
    with pytest.raises(WorkerLost, match="doubling: no worker came for 1 s; start"):
        run(workers, numbers(3))
    assert time.monotonic() - began_s < 30
