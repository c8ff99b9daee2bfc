"""Steps of a coroutine are measured, and it runs as it would without that."""

import asyncio
import time
from collections.abc import Coroutine
from typing import Any, TypeVar

import pytest

from polydom.server.fetching.stepped import stepped
from tests.support.fetch_sources import run

T = TypeVar("T")


async def answer(blocked_s: float) -> str:
    await asyncio.sleep(0.001)
    time.sleep(blocked_s)
    await asyncio.sleep(0)
    return "done"


def test_each_step_is_measured_and_waits_are_not() -> None:
    held: list[float] = []
    assert run(lambda: stepped_task(answer(0.2), held)) == "done"
    assert len(held) == 3
    assert held[1] >= 0.2


async def stepped_task(coroutine: Coroutine[Any, Any, T], held: list[float]) -> T:
    return await stepped(coroutine, held.append)


def test_errors_come_out_and_are_thrown_in() -> None:
    seen: list[str] = []

    async def work() -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            seen.append("cancelled")
            await asyncio.sleep(0.001)  # a clean-up may wait
            seen.append("cleaned")
            raise ValueError("after all") from None

    async def main() -> None:
        held: list[float] = []
        task = asyncio.create_task(stepped_task(work(), held))
        await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(ValueError, match="after all"):
            await task
        assert len(held) == 3

    run(main)
    assert seen == ["cancelled", "cleaned"]
