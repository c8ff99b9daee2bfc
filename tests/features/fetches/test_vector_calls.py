"""Vectors of many items are asked for with patience, but not in vain."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from polydom.features.errors import FetchFailed
from polydom.features.fetches import vector_calls
from polydom.features.fetches.fetch import Fetch, fetch
from polydom.features.fetches.vector_calls import HOPELESS, VectorCalls

CALLS: list[list[str]] = []


@pytest.fixture(autouse=True)
def without_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vector_calls, "PAUSES_S", (0.001, 0.001))
    CALLS.clear()


def make(answer: Any, **terms: Any) -> Fetch:
    @fetch(kind="text", width=1, name="v", **terms)
    async def call(texts: Sequence[str], left_s: float) -> list[Any]:
        CALLS.append([*texts])
        return [await answer(text) if callable(answer) else answer for text in texts]

    return call.fetch


async def length(text: str) -> list[float]:
    return [len(text)]


def test_batches_are_asked_and_told() -> None:
    told: list[int] = []
    texts = ["a" * k for k in range(10)]
    calls = VectorCalls(make(length, batch=4), texts.__getitem__, told.append)
    calls.run([1, 2, 3, 5, 8])
    calls.run([9])
    assert {k: one.tolist() for k, one in calls.found.items()} == {
        k: [float(k)] for k in (1, 2, 3, 5, 8, 9)
    }
    # by the call and not by the text; the last run goes on counting
    assert told in ([4, 5, 6], [1, 5, 6])
    assert calls.failures == []
    assert sorted(map(len, CALLS)) == [1, 1, 4]


def test_what_fails_for_now_is_asked_again_and_alone() -> None:
    failing = {"bb": 2}

    async def answer(text: str) -> Any:
        if failing.get(text, 0):
            failing[text] -= 1
            return FetchFailed("busy")
        return [1.0]

    calls = VectorCalls(make(answer), ["a", "bb", "c"].__getitem__)
    calls.run([0, 1, 2])
    assert sorted(calls.found) == [0, 1, 2]
    assert calls.failures == []
    assert CALLS == [["a", "bb", "c"], ["bb"], ["bb"]]


def test_what_is_refused_for_good_is_not_asked_again() -> None:
    refused = FetchFailed("too long", again=False)
    calls = VectorCalls(make(refused), ["a", "b"].__getitem__)
    calls.run([0, 1])
    assert (calls.found, calls.failures) == ({}, [refused])
    assert len(CALLS) == 1


def test_nothing_for_an_item_is_no_failure() -> None:
    calls = VectorCalls(make(None), ["a"].__getitem__)
    calls.run([0])
    assert (calls.found, calls.failures) == ({}, [])


def test_a_source_that_brings_nothing_is_left_after_some_calls() -> None:
    texts = [str(k) for k in range(100)]
    broken = make(FetchFailed("no route", again=False), batch=1, at_once=1)
    calls = VectorCalls(broken, texts.__getitem__)
    calls.run(range(100))
    assert (len(CALLS), len(calls.failures)) == (HOPELESS, HOPELESS)


def test_a_call_that_never_ends_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    import asyncio

    monkeypatch.setattr(vector_calls, "LONGEST_S", 0.01)

    async def never(text: str) -> Any:
        await asyncio.sleep(60)

    calls = VectorCalls(make(never), ["a"].__getitem__)
    calls.run([0])
    assert "the call took longer than 0.01 s" in str(calls.failures[0])
    assert np.array([*calls.found]).size == 0
