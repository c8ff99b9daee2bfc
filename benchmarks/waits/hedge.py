"""How late do keys come if slow calls are sent a second time?

python -m benchmarks hedge

A fetch asks a function that waits for as long as is drawn, log-normally: median 12 ms,
99th percentile 90 ms. *Independent*: each call draws its own time. *Of the key*: all
calls for a key take equally long, so that second calls cannot help. Requests arrive at
random, each for a key of its own. Times count from the asking until a key comes.
"""

import argparse
import asyncio
import math
import statistics
import time
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from polydom.features.fetches.fetch import Key, fetch
from polydom.server.fetching.fetcher import Fetcher

from .. import report
from .sources import LAWS
from .tables import SLOW

LAW = LAWS["log-normal"][SLOW]
SHARES = (0.0, 0.05, 0.1, 0.2)
BUDGETS_MS = (20, 50, 70, 90)
RATE = 400.0  # requests a second
DRAWS = 200  # known at the build


class Run(NamedTuple):
    """What one run measured."""

    took_ms: NDArray[np.float64]
    calls: int
    wins: int  # second calls that came first
    processor_s: float


async def ask(share: float, seed: int, asked: int, *, of_key: bool) -> Run:
    """Ask for keys one after the other, at random times, and time them."""
    rng = np.random.default_rng(seed)
    of_keys = LAW.draw(rng, asked)
    starts_s = rng.exponential(1 / RATE, asked).cumsum()
    calls = 0

    @fetch(key=["n"], columns=["x"], hedge=share, batch=1, at_most_ms=9000)
    async def drawn(keys: Sequence[Key], left_s: float) -> list[list[int]]:
        nonlocal calls
        calls += 1
        ((n,),) = keys
        assert isinstance(n, int)
        await asyncio.sleep(of_keys[n] if of_key else LAW.draw(rng, 1)[0])
        return [[n]]

    fetcher = Fetcher(drawn, LAW.draw(rng, DRAWS))
    began_s, began_work_s = time.monotonic(), time.process_time()
    arrivals = []
    for n, start_s in enumerate(starts_s):
        await asyncio.sleep(began_s + start_s - time.monotonic())
        arrivals.append(fetcher.ask((n,), math.inf))
    while fetcher.counts.in_flight:
        await asyncio.sleep(0.01)
    processor_s = time.process_time() - began_work_s
    await fetcher.close()
    took_s = [arrival.came_s - arrival.sent_s for arrival in arrivals]
    return Run(np.array(took_s) * 1e3, calls, fetcher.counts.hedges[True], processor_s)


def row(times: str, share: float, runs: Sequence[Run]) -> dict[str, Any]:
    """Return the medians over some runs."""

    def median(values: Sequence[float]) -> float:
        return round(float(statistics.median(values)), 4)

    took_ms = [run.took_ms for run in runs]
    asked = len(took_ms[0])
    quantiles = {
        f"p{q:g}, ms": round(median([float(np.percentile(own, q)) for own in took_ms]))
        for q in (50, 95, 99, 99.9)
    }
    in_time = {
        f"in {ms} ms": median([float((own <= ms).mean()) for own in took_ms])
        for ms in BUDGETS_MS
    }
    return {
        "times": times,
        "hedge": share,
        **quantiles,
        **in_time,
        "second calls": median([run.calls / asked - 1 for run in runs]),
        "won": median([run.wins / max(run.calls - asked, 1) for run in runs]),
        "CPU, us": round(median([run.processor_s / asked * 1e6 for run in runs])),
    }


def measure(given: argparse.Namespace) -> dict[str, Any]:
    """Measure each share, in turns."""
    asked = 500 if given.quick else 6000
    cases = [("independent", share) for share in SHARES]
    cases += [("of the key", share) for share in SHARES[:2]]
    runs: dict[tuple[str, float], list[Run]] = {case: [] for case in cases}
    for seed in range(1 if given.quick else given.rounds):
        for times, share in cases:
            run = asyncio.run(ask(share, seed, asked, of_key=times == "of the key"))
            runs[times, share].append(run)
    return {"arrivals": [row(*case, own) for case, own in runs.items()]}


def main(arguments: list[str] | None = None) -> None:
    """Run the benchmark."""
    parser = report.options(__name__)
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args(arguments)
    report.tell(measure(given), given)
