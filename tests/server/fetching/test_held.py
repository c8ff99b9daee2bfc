"""What a key takes of the event loop is the median of the latest calls."""

import statistics
import time
from collections.abc import Sequence
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from polydom.features.fetches.fetch import Key, fetch
from polydom.server.fetching.breaker import FAILURES
from polydom.server.fetching.fetcher import Fetcher
from polydom.server.fetching.held import LATEST, OUTSIDE, Held
from tests.support.fetch_sources import DRAWS, FOREVER_S, ended, run

STEP_S = 0.02


@given(st.lists(st.floats(0, 1), min_size=1, max_size=3 * LATEST))
def test_it_is_a_median_that_forgets(steps_s: list[float]) -> None:
    held = Held()
    assert held.seconds == 0.0
    for step_s in steps_s:
        held.add(step_s)
    assert held.seconds == OUTSIDE * statistics.median_high(steps_s[-LATEST:])


def test_keys_of_a_call_share_what_its_steps_take() -> None:
    @fetch(key=["n"], columns=["x"], name="busy", batch=4)
    async def busy(keys: Sequence[Key], left_s: float) -> list[Any]:
        time.sleep(STEP_S)
        if keys[0][0] < 0:
            raise ValueError("no such key")
        return [[1]] * len(keys)

    async def main() -> None:
        fetcher = Fetcher(busy, DRAWS)
        assert fetcher.held_s == 0.0
        await ended(*(fetcher.ask((n,), FOREVER_S) for n in range(4)))
        shared_s = fetcher.held_s
        assert shared_s >= OUTSIDE * STEP_S / 4
        for n in range(4, 6):
            await ended(fetcher.ask((n,), FOREVER_S))
        assert fetcher.held_s >= max(OUTSIDE * STEP_S, shared_s)
        for n in range(FAILURES):
            await ended(fetcher.ask((-n - 1,), FOREVER_S))
        assert fetcher.down
        assert fetcher.held_s == 0.0  # nothing but probes would be sent
        await fetcher.close()

    run(main)
