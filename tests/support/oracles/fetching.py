"""A slow twin of the wait for fetches: time goes on in small steps."""

import math
from collections.abc import Callable, Mapping, Sequence
from itertools import product
from typing import NamedTuple

from polydom.indexer.index.kernels.expected_quality import LEAST_GAIN
from polydom.server.fetching.chances import HALVINGS, LATE_SHARE
from polydom.server.fetching.latency import Latency

STEP_S = 2e-5
NEAR_GAIN = 2e-4


class Waited(NamedTuple):
    """What was sent and came, as masks; when the wait ended; and if that was close.

    It is close if an arrival was near a decision, by `near_s` seconds, or if a purchase
    gained about as much as it has to.
    """

    sent: int
    came: int
    waited_s: float
    near_s: float
    close: bool


def worth_sending(
    quality: Callable[[int, float], float],
    able: int,
    chances: Sequence[float],
    held_s: Sequence[float],
) -> dict[int, float]:
    """Return the expected quality of sending each set of the fetches that gain.

    `quality` is that of an answer with the fetches in a mask, of which calls hold the
    loop for some seconds. An answer that waits for what does not come is late in one of
    a hundred cases, and worth nothing then. A fetch gains if it raises the quality by
    `LEAST_GAIN`, alone or if all others come, and takes no time.
    """
    gaining = 0
    for u, chance in enumerate(chances):
        own = 1 << u
        if able & own:
            for others in (0, able & ~own):
                came, late = quality(others | own, 0.0), 0.99 * quality(others, 0.0)
                expected = chance * came + (1 - chance) * late
                if expected - quality(others, 0.0) >= LEAST_GAIN:
                    gaining |= own
    values = {}
    for sent in range(gaining + 1):
        if sent & ~gaining:
            continue
        values[sent], own_s = 0.0, sum(s for u, s in enumerate(held_s) if sent >> u & 1)
        for came in range(sent + 1):
            if came & ~sent:
                continue
            share = 1.0 if came == sent else 0.99
            for u, chance in enumerate(chances):
                if sent >> u & 1:
                    share *= chance if came >> u & 1 else 1 - chance
            values[sent] += share * quality(came, own_s)
    return values


def wait(
    draw: Sequence[float],
    latencies: Sequence[Latency],
    qualities: Mapping[int, float],
    paid: int,
    until_s: float,
    tick_s: float,
    on_late: Callable[[float], object],
) -> Waited:
    """Send what pays, and wait step by step; fetch number `paid` has a price.

    The wait ends by `until_s`, and timers count whole ticks of `tick_s`. The fetch with
    a price is bought as late as its chance to come in time hardly falls. `on_late` is
    called with the time of each wait that ends at most a tick before its planned end.
    """
    count = len(draw)
    every = (1 << count) - 1
    steps = [k * STEP_S for k in range(max(int(until_s / STEP_S), 0) + 1)]
    asked: dict[int, float] = {}
    for u in range(count):
        own = 1 << u
        chance = latencies[u].chance(0.0, until_s)
        gains = [
            chance * qualities[others | own]
            + (1 - chance) * 0.99 * qualities[others]
            - qualities[others]
            for others in (0, every & ~own)
        ]
        if u != paid and max(gains) >= LEAST_GAIN:
            asked[u] = 0.0
    least = LATE_SHARE * latencies[paid].chance(0.0, until_s)
    decide_s = max(t for t in steps if latencies[paid].chance(0, until_s - t) >= least)
    decide_s *= bool(asked)

    def expected(sent: int, came: int, left_s: float) -> float:
        total = 0.0
        for outcome in product((0, 1), repeat=count):
            share, some = 1.0, 0
            for u, comes in enumerate(outcome):
                chance = latencies[u].chance(0.0, left_s) if sent >> u & 1 else 0.0
                chance = 1.0 if came >> u & 1 else chance
                share *= chance if comes else 1 - chance
                some |= comes << u
            total += share * qualities[some]
        return total

    came, now_s, undecided, undoubted, ends = 0, 0.0, True, True, [0.0]
    while True:
        sent = sum(1 << u for u in asked)
        gain = qualities[sent] - qualities[came]
        useful = [
            t
            for t in steps
            for u, at_s in asked.items()
            if not came >> u & 1
            and t >= at_s
            and latencies[u].chance(t - at_s, until_s - at_s) * gain >= LEAST_GAIN
        ]
        end_s = max(useful, default=0.0)
        stops = gain < LEAST_GAIN or end_s <= now_s or until_s - now_s < tick_s
        if undecided and (stops or now_s >= decide_s):
            undecided, left_s, own = False, until_s - now_s, 1 << paid
            without = expected(sent, came, left_s)
            gain = expected(sent | own, came, left_s) - without
            undoubted = abs(gain - LEAST_GAIN) > NEAR_GAIN
            if gain >= LEAST_GAIN:
                asked[paid] = now_s
            continue
        if stops:
            break
        end_s = max(min(end_s, decide_s) if undecided else end_s, now_s + tick_s)
        ticks = max(math.floor((end_s - now_s) / tick_s), 1)
        wakes_s = now_s + ticks * tick_s
        ends.append(wakes_s)
        before = came
        while now_s < wakes_s and came == before:
            now_s = min(now_s + STEP_S, wakes_s)
            come = [u for u, at_s in asked.items() if at_s + draw[u] <= now_s]
            came = sum(1 << u for u in come)
        if now_s > end_s - tick_s:
            on_late(now_s)
    near_s = 3 * STEP_S + 2 * until_s / 2**HALVINGS
    limits = [*ends, decide_s, until_s - tick_s]
    arrived = [at_s + draw[u] for u, at_s in asked.items()]
    close = any(abs(a - b) <= near_s for a in arrived for b in limits)
    return Waited(sent, came, now_s, near_s, close or not undoubted)
