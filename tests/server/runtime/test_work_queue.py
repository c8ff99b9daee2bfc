"""The queue runs what is most urgent, and all of it."""

import asyncio
import functools
import heapq
import math
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from polydom.server.runtime.work_queue import WorkQueue
from tests.support.indexes.repositories import run


def run_all(dues: list[float]) -> list[int]:
    """Order in which work posted before the start is done."""
    queue, done = WorkQueue(), list[int]()
    for number, due_s in enumerate(dues):
        queue.post(due_s, functools.partial(done.append, number))
    queue.start()
    queue.stop()
    return done


@given(st.lists(st.sampled_from([0.0, 1.0, 2.5, math.inf]), max_size=12))
def test_queue_does_everything_earliest_deadline_first_and_ties_in_order(
    dues: list[float],
) -> None:
    assert run_all(dues) == [
        number for _, number in sorted((due_s, n) for n, due_s in enumerate(dues))
    ]


def test_queue_lets_what_came_while_it_worked_overtake_what_waited() -> None:
    queue, done = WorkQueue(), list[str]()
    working, go_on = threading.Event(), threading.Event()

    def long_work() -> None:
        working.set()
        go_on.wait(10)
        done.append("long")

    queue.post(0.0, long_work)
    queue.start()
    assert working.wait(10)
    queue.post(2.0, lambda: done.append("patient"))
    queue.post(1.0, lambda: done.append("urgent"))
    go_on.set()
    queue.stop()
    assert done == ["long", "urgent", "patient"]


def test_queue_works_in_one_thread_that_is_not_the_poster() -> None:
    queue, threads = WorkQueue(), set[int]()
    for _ in range(5):
        queue.post(0.0, lambda: threads.add(threading.get_ident()))
    queue.start()
    queue.stop()
    assert len(threads) == 1
    assert threading.get_ident() not in threads


def test_queue_agrees_with_a_plain_heap_on_interleaved_posts_and_takes() -> None:
    queue, heap = WorkQueue(), list[tuple[float, int]]()
    done, expected = list[int](), list[int]()
    dues = [5.0, 3.0, 4.0, 1.0, 9.0, 2.0, 6.0, 0.5]
    for number, due_s in enumerate(dues):
        queue.post(due_s, functools.partial(done.append, number))
        heapq.heappush(heap, (due_s, number))
        if number % 3 == 2:
            work = queue.take()
            assert work is not None
            work()
            expected.append(heapq.heappop(heap)[1])
    queue.start()
    queue.stop()
    expected += [heapq.heappop(heap)[1] for _ in range(len(heap))]
    assert done == expected


def test_queue_leaves_out_what_nobody_wants_any_more() -> None:
    async def main() -> tuple[list[str], str]:
        queue, done = WorkQueue(), list[str]()
        left = asyncio.create_task(queue.compute(lambda: done.append("left"), 0.0))
        kept = asyncio.create_task(queue.compute(lambda: "kept", 1.0))
        await asyncio.sleep(0)
        left.cancel()
        with pytest.raises(asyncio.CancelledError):
            await left
        queue.start()
        answer = await kept
        await asyncio.to_thread(queue.stop)
        return done, answer

    assert run(main()) == ([], "kept")
