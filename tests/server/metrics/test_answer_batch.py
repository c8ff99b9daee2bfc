"""Answers that are counted together count as those that are counted one by one."""

import asyncio
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from polydom.server.metrics import counts
from polydom.server.metrics.answer_batch import MOST, AnswerBatch, Batch
from polydom.server.metrics.counts import BOUNDS, CandidateMetrics, Metrics, Timed
from tests.support.clock import Clock
from tests.support.examples import few
from tests.support.waiting import WAIT_S

FEATURES = ("a", "b")
SECONDS = st.sampled_from([0.0, 1e-6, 3e-4, 0.02, 1.5])
ANSWERS = st.tuples(
    st.sampled_from([None, "yes", ""]),
    st.sampled_from([None, "sure"]),
    st.lists(SECONDS, min_size=3, max_size=3),
    st.sampled_from([math.inf, -math.inf, 1.0, 1e-3]),
    st.sampled_from([0.0, 1e-4]),
)
# Answers of one turn, and the time until the next
TURNS = st.lists(st.tuples(st.lists(ANSWERS, max_size=9), SECONDS), max_size=9)


def collected(turns: Any, metrics: Metrics, one_by_one: Metrics) -> list[Batch]:
    """Count all answers in both ways; the batches."""
    clock, batches = Clock(100.0), list[Batch]()
    batch = AnswerBatch(batches.append, clock)
    for answers, pause_s in turns:
        first, times = True, list[Any]()
        for label, reason, (before_s, waited_s, took_s), left_s, predicted in answers:
            arrived_s = clock.now_s - before_s
            read_s = arrived_s + waited_s
            known = arrived_s, read_s, read_s + took_s, arrived_s + left_s, predicted
            assert batch.add(label, reason, *known) == first
            first = False
            arrived_s, read_s, finished_s, due_s, predicted = known
            stages = arrived_s, read_s, read_s, finished_s
            times.append(Timed(FEATURES, reason, predicted, *stages, due_s, None))
        clock.now_s += 1e-5
        if answers:
            batch.written()
            for one in times:
                one_by_one.answered(one, clock.now_s)
        clock.now_s += pause_s
    batch.count()
    for one in batches:
        metrics.answered_together(FEATURES, one)
    return batches


def are_same(metrics: Metrics, other: Metrics) -> bool:
    own, others = ([one.histogram(name) for name in BOUNDS] for one in (metrics, other))
    assert [one.total for one in own] == pytest.approx([one.total for one in others])
    return (
        all(map(np.array_equal, *([one.counts for one in of] for of in (own, others))))
        and metrics.answers == other.answers
        and metrics.answered_s == other.answered_s
    )


@pytest.mark.parametrize("at_once", [3, counts.AT_ONCE])
def test_answers_count_as_one_by_one(
    at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(counts, "AT_ONCE", at_once)

    @settings(max_examples=few(150), deadline=None)
    @given(TURNS)
    def check(turns: Any) -> None:
        async def main() -> list[Batch]:
            return collected(turns, metrics, single)

        whole, single = Metrics(), Metrics()
        metrics = CandidateMetrics(whole)
        batches = asyncio.run(main())
        assert are_same(metrics, single)
        assert are_same(whole, single)
        labels = [label for answers, _ in turns for label, *_ in answers]
        assert [one for batch in batches for one in batch.answers] == labels

    check()


def test_more_answers_than_there_is_room_for_are_counted() -> None:
    single, metrics, answer = Metrics(), Metrics(), (None, None, [0.0] * 3, 1.0, 1e-4)
    batches = collected([([answer] * MOST, 0.0)], metrics, single)
    assert [len(batch.answers) for batch in batches] == [MOST]
    assert are_same(metrics, single)

    async def fill() -> None:
        batch = AnswerBatch(batches.append, lambda: 5.0)
        for _ in range(2 * MOST + 7):
            batch.add("yes", None, *[1.0] * 5)
        batch.written()
        batch.count()

    asyncio.run(fill())
    assert [len(one.answers) for one in batches[1:]] == [MOST, MOST, 7]
    assert set(batches[-1].sent_s.tolist()) == {5.0}


def test_no_answer_waits_for_the_next_one() -> None:
    async def main() -> list[int]:
        counted, done = list[int](), asyncio.Event()

        def count(batch: Batch) -> None:
            counted.append(len(batch.answers))
            if len(counted) == 2:
                done.set()

        batch = AnswerBatch(count, lambda: 5.0)
        for _ in range(4):
            batch.add("yes", None, *[1.0] * 5)
            batch.written()
        assert counted == [1]
        await asyncio.wait_for(done.wait(), WAIT_S)
        return counted

    assert asyncio.run(main()) == [1, 3]
