"""Waiting requests are answered in time, whatever the computing thread is doing."""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import httpx2
import pytest

from polydom.features.errors import BadFeature, NothingFits
from polydom.features.extract import Extractor
from polydom.features.items import text_item
from polydom.server.app import create_app
from polydom.server.engine.budget import Deadline, MoneyBudget
from polydom.server.engine.planning.planner import Planner
from polydom.server.engine.request import Caller, Request
from polydom.server.errors import Overloaded
from polydom.server.runtime.job import Job
from polydom.server.runtime.served_model import ServedModel
from polydom.server.runtime.translator import Translator
from polydom.server.runtime.work_queue import WorkQueue
from polydom.server.schema.wire import PredictRequest
from polydom.server.settings import Settings
from tests.support.indexes.repositories import WAIT_S, run
from tests.support.indexes.served import FEATURES_FILE, WIDTHS, make_index, save_index

TEXT = text_item("x" * 100)


class Gate:
    """A feature's function that waits inside until it is let through."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function
        self.inside = threading.Event()
        self.open = threading.Event()
        self.threads: list[int] = []

    def __call__(self, *inputs: Any) -> Any:
        self.threads.append(threading.get_ident())
        self.inside.set()
        assert self.open.wait(WAIT_S)
        return self.function(*inputs)


def gated_planner(scale: float = 1.0) -> tuple[Planner, Gate]:
    """A planner whose second feature, `marks`, is behind a gate."""
    index = make_index(scale=scale)
    assert index.package is not None
    length, marks, words = index.package.extractor([FEATURES_FILE]).features
    gate = Gate(marks.function)
    gated = [length, replace(marks, function=gate), words]
    return Planner(index, Extractor(gated, WIDTHS)), gate


@asynccontextmanager
async def started(
    planner: Planner, queue_limit: int = 1024
) -> AsyncIterator[ServedModel]:
    """Serve with a planner until it is left."""
    queue = WorkQueue()
    queue.start()
    settings = Settings(max_budget_s=5, queue_limit=queue_limit)
    served = ServedModel(Translator(planner, settings), queue)
    await served.start()
    yield served
    await asyncio.to_thread(queue.stop)


async def ask(served: ServedModel) -> int:
    """Ask with 5 s of time; how many features were computed."""
    request = PredictRequest(text="x" * 100, budget_ms=5000)
    _, outcome = await served.answer(request, served.now(), Caller())
    return len(served.planner.feature_names[outcome.row])


def queue_of(waiting: int = 1) -> WorkQueue:
    """A queue whose thread never begins."""
    queue = WorkQueue()
    queue.waiting = waiting
    return queue


async def until_computed(queue: WorkQueue) -> None:
    while queue.waiting:
        await asyncio.sleep(1e-3)


def in_time(planner: Planner, amount_s: float) -> Deadline:
    return Deadline(planner.now(), amount_s)


def test_job_answers_from_what_is_complete_when_the_budget_is_up() -> None:
    planner, gate = gated_planner()

    async def main() -> Any:
        queue = queue_of()
        job = Job(planner, Request(TEXT, in_time(planner, 0.1)), queue)
        thread = threading.Thread(target=job.compute)
        thread.start()
        outcome = await job.result()
        assert gate.inside.is_set()
        assert queue.waiting == 1
        gate.open.set()
        await until_computed(queue)
        thread.join()
        return outcome

    outcome = run(main())
    assert (outcome.row, outcome.reason) == (1, "overrun")
    assert len(gate.threads) == 1


def test_job_that_never_began_is_answered_with_the_prior_and_costs_nothing() -> None:
    planner, gate = gated_planner()

    async def main() -> Any:
        queue = queue_of()
        job = Job(planner, Request(TEXT, in_time(planner, 0.02)), queue)
        outcome = await job.result()
        job.compute()
        await until_computed(queue)
        return outcome

    outcome = run(main())
    assert (outcome.row, outcome.reason) == (0, "waited")
    assert not gate.threads


def test_job_is_not_given_up_before_its_budget_is_up_where_timers_are_coarse() -> None:
    uvloop = pytest.importorskip("uvloop")
    planner, _ = gated_planner()

    async def main() -> list[float]:
        early_s = []
        for _ in range(20):
            budget = in_time(planner, 0.0004)
            job = Job(planner, Request(TEXT, budget), queue_of())
            await job.result()
            early_s.append(budget.due_s - planner.now())
        return early_s

    assert max(uvloop.run(main())) <= 0


def test_job_that_never_began_is_refused_where_that_was_asked_for() -> None:
    planner, _ = gated_planner()

    async def main() -> None:
        request = Request(TEXT, in_time(planner, 0.02), on_infeasible="error")
        await Job(planner, request, queue_of()).result()

    with pytest.raises(NothingFits, match="below the cheapest"):
        run(main())


@pytest.mark.parametrize("patient", ["cheapest", "money"])
def test_job_without_a_deadline_of_its_own_waits_for_its_turn(patient: str) -> None:
    planner, gate = gated_planner()
    gate.open.set()

    async def main() -> Any:
        request = Request(TEXT, MoneyBudget(0.0053))
        if patient == "cheapest":
            request = Request(TEXT, in_time(planner, 0.0), on_infeasible="cheapest")
        queue = WorkQueue()
        job = Job(planner, request, queue)
        job.post(0.0)
        waiting = asyncio.ensure_future(job.result())
        await asyncio.sleep(0)
        assert not waiting.done()
        queue.start()
        await asyncio.to_thread(queue.stop)
        return await waiting

    assert run(main()).row == {"cheapest": 1, "money": 2}[patient]


@pytest.mark.parametrize(("others", "chosen"), [(1, 1), (2, 2)])
def test_job_plans_again_only_where_others_wait(others: int, chosen: int) -> None:
    planner, gate = gated_planner()
    gate.open.set()
    plans = []

    def choose(*given: Any) -> Any:
        plans.append(given)
        return type(planner).choose(planner, *given)

    planner.choose = choose  # type: ignore[assignment,method-assign]

    async def main() -> Any:
        request = Request(TEXT, in_time(planner, WAIT_S))
        choice = planner.choose(request, planner.now())
        job = Job(planner, request, queue_of(others), choice)
        await asyncio.gather(job.result(), asyncio.to_thread(job.compute))
        return await job.result()

    assert run(main()).row == 3
    assert len(plans) == chosen


def test_job_hands_errors_over() -> None:
    planner, gate = gated_planner()
    gate.open.set()

    async def main() -> None:
        item = text_item("a\x00b")
        request = Request(item, MoneyBudget(1.0))
        job = Job(planner, request, queue_of())
        await asyncio.gather(job.result(), asyncio.to_thread(job.compute))

    with pytest.raises(BadFeature, match="'words'"):
        run(main())


def test_a_served_model_computes_quick_plans_on_the_loop_and_others_beside_it() -> None:
    where = {}
    for name, scale in (("quick", 0.01), ("slow", 1.0)):
        planner, gate = gated_planner(scale)
        gate.open.set()

        async def main(planner: Planner = planner) -> int:
            async with started(planner) as served:
                await ask(served)
            return threading.get_ident()

        loop_thread = run(main())
        where[name] = gate.threads[-1] == loop_thread
    assert where == {"quick": True, "slow": False}


def test_a_served_model_turns_away_what_exceeds_its_queue() -> None:
    planner, gate = gated_planner()

    async def main() -> list[int]:
        gate.open.set()
        async with started(planner, queue_limit=2) as served:
            gate.open.clear()
            gate.inside.clear()
            asking = [asyncio.ensure_future(ask(served)) for _ in range(2)]
            await asyncio.to_thread(gate.inside.wait, WAIT_S)
            with pytest.raises(Overloaded, match="2 requests wait already"):
                await ask(served)
            gate.open.set()
            return [*await asyncio.gather(*asking), await ask(served)]

    # the last came when there was room again
    assert run(main()) == [3, 3, 3]


def test_a_served_model_answers_those_that_wait_before_it_stops() -> None:
    planner, gate = gated_planner()
    gate.open.set()

    async def main() -> list[int]:
        async with started(planner) as served:
            asking = [asyncio.ensure_future(ask(served)) for _ in range(5)]
            await asyncio.sleep(0)
        return list(await asyncio.gather(*asking))

    assert run(main()) == [3] * 5


def test_app_answers_what_it_turns_away_with_429_and_when_to_retry(
    tmp_path: Any,
) -> None:
    settings = Settings(queue_limit=1)
    app = create_app(save_index(tmp_path), features=[FEATURES_FILE], settings=settings)
    # ready, though nobody computes: the first request waits until its budget is up
    app.state.repository.get().ready = True

    async def main() -> list[Any]:
        transport = httpx2.ASGITransport(app)
        async with httpx2.AsyncClient(transport=transport, base_url="http://x") as web:
            body = {"text": "hi", "budget_ms": 200}
            asking = [web.post("/v1/predict", json=body) for _ in range(2)]
            return list(await asyncio.gather(*asking))

    first, second = run(main())
    assert (first.status_code, first.json()["reason"]) == (200, "waited")
    assert (second.status_code, second.json()["code"]) == (429, "overloaded")
    assert second.headers["retry-after"] == "1"
