"""What is late already waits behind what can still be in time, and not for ever."""

import asyncio
import json
import math
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from polydom.server.engine.budget import Deadline
from polydom.server.engine.executions.execution import begin
from polydom.server.engine.planning.planner import Planner
from polydom.server.engine.request import Caller, Outcome, Request
from polydom.server.runtime.job import Job
from polydom.server.runtime.served_model import ServedModel
from polydom.server.runtime.translator import Translator
from polydom.server.runtime.work_queue import LATE_SHARE, WorkQueue
from polydom.server.schema.wire import PredictRequest
from polydom.server.settings import Settings
from tests.support.clock import Clock
from tests.support.indexes.served import SLOW_FILE, make_index, save_slow_index
from tests.support.oracles.engine import queue_order
from tests.support.planners import (
    AS_PROMISED,
    FAST,
    TEXT_100,
    extractor_of,
    slow_planner,
    typical_planner,
)
from tests.support.processes.servers import ask, serving
from tests.support.waiting import once_of_several

LATE = {"on_infeasible": "cheapest", "min_quality": 0.95}


def test_a_server_answers_in_time_though_much_that_is_late_waits(
    tmp_path: Path,
) -> None:
    """Forty answers of 40 ms that were due at once, and then one with 0.9 s.

    They are said to take 240 ms, so a fifth of the thread has done the first in 1.2 s.
    """
    terms = {"budget_ms": 0, "on_infeasible": "cheapest", "min_quality": 0.6}
    late = json.dumps({"text": "40 ms", **terms}).encode()
    body = json.dumps({"text": "0 ms", "budget_ms": 900}).encode()
    index = save_slow_index(tmp_path, scale=200.0)

    def is_in_time() -> bool:
        with serving(index, "--features", str(SLOW_FILE)) as (_, port):
            answers, begun = list[dict[str, Any]](), threading.Event()

            def ask_late() -> None:
                answers.append(ask(port, "POST", "/v1/predict", late)[1])
                begun.set()

            threads = [threading.Thread(target=ask_late) for _ in range(40)]
            for thread in threads:
                thread.start()
            assert begun.wait(20)  # the first has had its turn, so the others wait
            _, answer = ask(port, "POST", "/v1/predict", body)
            waited = len(answers) < 40
            for thread in threads:
                thread.join()
        assert {tuple(late["features"]) for late in answers} == {("length",)}
        return waited and "length" in answer["features"]  # type: ignore[operator]

    once_of_several(is_in_time)


def carry_out(
    clock: Clock, planner: Planner, requests: list[Request]
) -> tuple[list[Outcome], WorkQueue]:
    """What becomes of requests that all wait when the thread begins."""

    async def main() -> list[Outcome]:
        queue = WorkQueue(now=clock)
        jobs = [Job(planner, request, queue) for request in requests]
        for job, request in zip(jobs, requests, strict=True):
            job.post(request.budget.due_s)
        queue.start()
        await asyncio.to_thread(queue.stop)
        await asyncio.sleep(0)  # deliveries
        queues.append(queue)
        return [await job.result() for job in jobs]

    queues = list[WorkQueue]()
    return asyncio.run(asyncio.wait_for(main(), 20)), queues[0]


def test_late_answers_leave_the_others_their_time() -> None:
    clock = Clock()
    planner = slow_planner(clock, AS_PROMISED)
    late = [Request(TEXT_100, Deadline(50.0, 0.0), **LATE) for _ in range(10)]  # type: ignore[arg-type]
    timely = [Request(TEXT_100, Deadline(50.0, 45e-3)) for _ in range(5)]
    outcomes, queue = carry_out(clock, planner, late + timely)
    for outcome in outcomes[10:]:
        assert outcome.row > 0
        assert outcome.finished_s <= 50.045
    assert [outcome.row for outcome in outcomes[:10]] == [3] * 10
    assert (queue.late, queue.busy) == (0, False)


def test_late_requests_press_nobody() -> None:
    """They have no deadline to lose, so nobody takes a cheaper plan for their sake."""
    clock = Clock()
    planner = slow_planner(clock, AS_PROMISED)
    late = [Request(TEXT_100, Deadline(50.0, 0.0), **LATE) for _ in range(10)]  # type: ignore[arg-type]
    timely = Request(TEXT_100, Deadline(50.0, 40e-3))
    outcomes, _ = carry_out(clock, planner, [*late, timely])
    assert (outcomes[-1].row, outcomes[-1].reason) == (3, None)


def test_late_answers_come_though_others_never_cease() -> None:
    """Each takes 9 ms, so with a fifth of the time one is done every 46 ms."""
    clock = Clock()
    planner = slow_planner(clock, AS_PROMISED)
    queue, done_s = WorkQueue(now=clock), list[float]()

    def late() -> None:
        clock.now_s += 9e-3
        done_s.append(clock.now_s - 50.0)

    def timely() -> None:
        clock.now_s += 9e-3
        queue.post(clock.now_s + 50e-3, timely)

    for _ in range(3):
        queue.defer(planner.index.cost_s(3, 100.0), late)
    for _ in range(10):
        queue.post(50.0, timely)
    while len(done_s) < 3:
        work = queue.take()
        assert work is not None
        work()
        assert clock.now_s < 51.0
    assert done_s[0] > 9.2e-3
    assert done_s[-1] <= 3 * 9.2e-3 / LATE_SHARE + 0.1


@given(
    posts=st.lists(
        st.tuples(st.floats(0, 0.1), st.floats(1e-3, 0.05)), min_size=1, max_size=8
    ),
    late=st.lists(st.floats(1e-3, 0.05), max_size=6),
)
def test_queue_with_late_work_agrees_with_its_slow_twin(
    posts: list[tuple[float, float]], late: list[float]
) -> None:
    clock = Clock(0.0)
    queue, done = WorkQueue(now=clock), list[tuple[str, int]]()

    def work(kind: str, number: int, cost_s: float) -> Callable[[], None]:
        def do() -> None:
            clock.now_s += cost_s
            done.append((kind, number))

        return do

    for number, cost_s in enumerate(late):
        queue.defer(cost_s, work("late", number, cost_s))
    assert queue.late == len(late)
    for number, (due_s, cost_s) in enumerate(posts):
        queue.post(due_s, work("timely", number, cost_s))
    queue.start()
    queue.stop()
    assert done == queue_order([due for due, _ in posts], late, LATE_SHARE)
    assert queue.late == 0


def test_what_no_deadline_drives_waits_no_longer_than_the_largest_budget() -> None:
    """Money, and the pieces of a warm-up."""
    clock, posted = Clock(), list[float]()
    index = make_index("usd")

    class Queue(WorkQueue):
        def post(self, due_s: float, work: Callable[[], None]) -> None:
            posted.append(due_s)
            super().post(due_s, work)

    async def main() -> None:
        queue = Queue(now=clock)
        planner = Planner(index, extractor_of(index), now=clock)
        one = ServedModel(Translator(planner, Settings(max_budget_s=2.0)), queue)
        queue.start()
        await one.start()
        await one.answer(PredictRequest(text="x", budget=1.0), clock(), Caller())
        await asyncio.to_thread(queue.stop)

    asyncio.run(asyncio.wait_for(main(), 20))
    assert math.inf not in posted
    assert {due_s - 50.0 for due_s in posted} == {2.0}


@pytest.mark.parametrize(("come", "row"), [(True, 1), (False, 2)])
def test_a_course_leaves_what_is_over_to_those_who_come(come: bool, row: int) -> None:
    """What surely fitted at first is computed; what fast features leave is theirs."""
    request = Request(TEXT_100, Deadline(50.0, 4.5e-3))
    planner = typical_planner(FAST)
    outcome = begin(planner, request, 0, lambda: int(come)).run()
    assert outcome.row == row
    assert outcome.reason == ("pressure" if come else "budget")
