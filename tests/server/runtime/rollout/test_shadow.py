"""Comparisons with a candidate are computed while nothing waits, and never else."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from polydom.features.errors import BadItem
from polydom.server.engine.request import Caller
from polydom.server.runtime.repository import Repository
from polydom.server.runtime.rollout.shadow import (
    MOST_BYTES,
    MOST_WAITING,
    Shadow,
    ShadowCounts,
    _agree,
)
from polydom.server.schema.wire import Answer, PredictRequest
from tests.support.indexes.repositories import run, started
from tests.support.indexes.served import HAM, SLOW_FILE, SPAM, save, save_slow_index


def read(text: str = HAM) -> PredictRequest:
    return PredictRequest(text=text, budget_ms=900)


async def answer_of(repository: Repository, text: str = HAM) -> Answer:
    served = repository.get()
    answered = await served.answer(read(text), served.now(), Caller())
    return served.translator.answer(*answered)


async def until(condition: Callable[[], bool], again: Callable[[], Any]) -> None:
    """Do something until a condition holds, as a busy machine may drop it."""
    while not condition():
        again()
        await asyncio.sleep(0.01)


def test_answers_are_compared_by_label_and_counted(tmp_path: Path) -> None:
    async def main() -> ShadowCounts:
        async with started(save(tmp_path / "a.pdx")) as repository:
            answer, counts = await answer_of(repository), ShadowCounts()
            shadow = Shadow(repository.get(), counts, 1.0)
            results = counts.results
            await until(
                lambda: results["agreed"] > 0, lambda: shadow.add(read, 9, answer)
            )
            assert results["differed"] == 0
            other = replace(answer, label="spam")
            await until(
                lambda: results["differed"] > 0, lambda: shadow.add(read, 9, other)
            )
            return counts

    counts = run(main())
    compared = counts.results["agreed"] + counts.results["differed"]
    assert counts.quality[0] == pytest.approx(0.95 * compared)
    assert counts.quality[1] == pytest.approx(0.95 * compared)
    assert counts.plan_s[1] > 0


def test_a_share_of_none_compares_nothing(tmp_path: Path) -> None:
    async def main() -> None:
        async with started(save(tmp_path / "a.pdx")) as repository:
            counts = ShadowCounts()
            shadow = Shadow(repository.get(), counts, 0.0)
            for _ in range(100):
                shadow.add(read, 9, await answer_of(repository))
            await asyncio.sleep(0.05)
            assert not any(counts.results.values())

    run(main())


def test_what_waits_is_bounded_and_dropped_if_a_request_waits(tmp_path: Path) -> None:
    async def main() -> None:
        async with started(save(tmp_path / "a.pdx")) as repository:
            answer, counts = await answer_of(repository), ShadowCounts()
            shadow = Shadow(repository.get(), counts, 1.0)
            repository.queue.waiting += 1
            shadow.add(read, MOST_BYTES + 1, answer)
            assert counts.results["dropped"] == 1
            for _ in range(MOST_WAITING + 5):
                shadow.add(read, 9, answer)
            assert counts.results["dropped"] == 6
            while counts.results["dropped"] < MOST_WAITING + 6:
                await asyncio.sleep(0.01)
            repository.queue.waiting -= 1
            assert counts.results["agreed"] == 0

    run(main())


def test_a_long_comparison_makes_way_for_a_request(tmp_path: Path) -> None:
    async def main() -> None:
        slow = save_slow_index(tmp_path)
        repository = Repository([slow], features=[SLOW_FILE])
        await repository.start()
        answer, counts = await answer_of(repository), ShadowCounts()
        shadow = Shadow(repository.get(), counts, 1.0)
        results, queue = counts.results, repository.queue

        async def interrupt() -> None:
            before = results["dropped"]
            shadow.add(read, 9, answer)
            while shadow._task is None and results["dropped"] == before:
                await asyncio.sleep(0)
            queue.waiting += 1  # while the first feature takes 12 ms
            while shadow._task is not None:
                await asyncio.sleep(0.001)
            queue.waiting -= 1

        for _ in range(3):
            await interrupt()
        assert (results["dropped"], results["agreed"]) == (3, 0)
        await repository.stop()

    run(main())


def test_a_candidate_that_fails_is_counted(tmp_path: Path) -> None:
    def bad() -> PredictRequest:
        raise BadItem("no item")

    async def main() -> None:
        async with started(save(tmp_path / "a.pdx")) as repository:
            answer, counts = await answer_of(repository), ShadowCounts()
            shadow = Shadow(repository.get(), counts, 1.0)
            await until(
                lambda: counts.results["failed"] > 0,
                lambda: shadow.add(bad, 9, answer),
            )

    run(main())


def test_numbers_agree_inside_the_interval(tmp_path: Path) -> None:
    async def main() -> Answer:
        async with started(save(tmp_path / "a.pdx")) as repository:
            return await answer_of(repository, SPAM)

    answer = run(main())
    assert _agree(answer, answer)
    ours = replace(answer, label=None, value=2.0, interval=(1.0, 3.0))
    for value, same in ((1.0, True), (3.0, True), (0.9, False), (3.1, False)):
        theirs = replace(ours, value=value, interval=(0.0, 9.0))
        assert _agree(ours, theirs) == same
