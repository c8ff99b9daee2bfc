"""Slow twins of what the engine learns and decides."""

import math
import statistics
from collections.abc import Sequence

import numpy as np


def drift_after(
    plans: Sequence[tuple[bool, float]],
    now_s: float,
    quantile: float,
    step: float,
    largest: float,
) -> float:
    """Multiply by e to the step's share after each plan, and keep within the bounds.

    What was learned holds for half a second after the last that exceeded, then less by
    and by until it is nothing at one second; of that an eighth is believed with each
    plan in time.
    """
    learned, last_s = 1.0, -math.inf

    def held(at_s: float) -> float:
        share = float(np.interp(at_s - last_s, [0.5, 1.0], [1.0, 0.0]))
        return math.exp(share * math.log(learned))

    for exceeded, at_s in plans:
        if exceeded:
            learned, last_s = learned * math.exp(step * quantile), at_s
        else:
            doubted = (learned / held(at_s)) ** 0.125
            learned /= max(math.exp(step * (1 - quantile)), doubted)
        learned = min(max(learned, 1.0), largest)
    return held(now_s)


def answering_after(
    answers: Sequence[tuple[int, int]], overhead_s: float, quantile: float
) -> float:
    """Multiply by e to the steps of late and of timely answers, within the bounds."""
    seconds, count = overhead_s, 0
    for late, timely in answers:
        count += late + timely
        step = 0.5 / (1 + count / 100)
        step = max(step, 0.05)
        seconds = max(seconds, 1e-7)
        seconds *= math.exp(step * late * quantile)
        seconds /= math.exp(step * timely * (1 - quantile))
        # a tenth of a microsecond, and a fifth of a millisecond or the first estimate
        seconds = min(max(seconds, 1e-7), max(2e-4, overhead_s))
    return seconds


def send_times_after(
    measured_s: Sequence[float],
    timed: Sequence[tuple[float, float]],
    now_s: float,
    chances: Sequence[float],
) -> tuple[float, list[float]]:
    """What is usual, and the quantiles of the last second's times, at most 200.

    The first ones were measured at 50 s. Where they are fewer than 20, as many others
    take twice what is usual: 5 % more or less after each that took longer or not.
    """
    usual = statistics.median(measured_s) if measured_s else 1e-4
    all_timed = [*((50.0, seconds) for seconds in measured_s), *timed]
    for k, (_, seconds) in enumerate(timed):
        if k == 0 and not measured_s:
            usual = seconds
        else:
            usual = usual * 1.05 if seconds > usual else usual / 1.05
    latest = [seconds for at_s, seconds in all_timed[-200:] if at_s >= now_s - 1.0]
    latest.sort()
    few = len(latest) < 20
    latest = sorted(latest + [2 * usual] * (20 - len(latest)))
    quantiles = [
        next(s for s in latest if sum(t <= s for t in latest) >= chance * len(latest))
        for chance in chances
    ]
    assert not few or quantiles[0] == latest[-1]
    return usual, quantiles


def right_in_time(
    levels: Sequence[tuple[float, float]], worths: Sequence[float]
) -> float:
    """The largest chance of a right answer in time, of all that may be kept."""
    return max(
        chance * worth for (chance, _), worth in zip(levels, worths, strict=True)
    )


def audit_alarm(
    seen: Sequence[bool], alpha: float, times: Sequence[float], quiet: float
) -> bool:
    """Whether `ExitAudit` has sounded: every bet from every beginning, anew."""
    if alpha == 0:
        return any(seen)
    rates = [min(factor * alpha, (1 + alpha) / 2) for factor in times]
    for n in range(1, len(seen) + 1):
        total = 0.0
        for rate in rates:
            for start in range(n):
                bet = 1.0
                for changed in seen[start:n]:
                    bet *= rate / alpha if changed else (1 - rate) / (1 - alpha)
                total += bet / len(rates)
        if total > quiet:
            return True
    return False


def queue_order(
    dues_s: Sequence[float], late_s: Sequence[float], share: float
) -> list[tuple[str, int]]:
    """Order of work that all waits at 0 s: by deadline; late work has its own.

    That is when a share of the time would have done it and all late work before it.
    """
    order = [
        (sum(late_s[: number + 1]) / share, 0, ("late", number))
        for number in range(len(late_s))
    ]
    order += [(due_s, 1, ("timely", number)) for number, due_s in enumerate(dues_s)]
    return [name for *_, name in sorted(order)]
