"""Speed of a machine, relative to the build's machine, at the work of an index.

Cost curves follow a high quantile of thousands of measured times. A server has no time
to measure as many when it starts. So the build also measures a few rounds of work on
the sample items in the index, and a server measures the same work. The ratios of the
two measurements are factors for all costs.

Processor time is compared, since other programs do not disturb it. So factors hold for
computing alone: time in which a feature waits, as for a network, is left as it is.
"""

import time
import warnings
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from math import comb, inf
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from polydom.features.costs.curve import CostTable
from polydom.features.costs.stopwatch import Stopwatch, busy_clock
from polydom.features.errors import BadIndexFile, FeatureFailed
from polydom.features.extract import FLOAT32, Extractor
from polydom.features.items import Item, make_item
from polydom.models.scoring.model import Model

Floats = NDArray[np.float64]
T = TypeVar("T")

ROUNDS = 9
LEAST_ROUNDS = 2
TRIES = 2  # tries of an interrupted call; long calls on a busy machine always are
PIECE_S = 1e-3  # seconds of timing between two pauses
MODELS = 16  # most models that are timed
BUSY = busy_clock()
CONFIDENCE = 0.95
SLOWEST = 8.0
FASTEST = 1 / SLOWEST


# Row and column of a call's seconds, then the call and its argument.
TimedCall = tuple[int, int, Callable[[Any], object], Any]


class MachineTimes(NamedTuple):
    """Median seconds of work on each of S sample items, on the build's machine."""

    # (S,): Seconds of reading an item's header and preparing its features
    overhead_s: Floats
    # (S, s): Seconds of each step, and (S, m): of each feature without its steps; NaN
    # for declared seconds, and where nothing was timed
    step_s: Floats
    feature_s: Floats
    model_s: Floats  # (S, M): Seconds of the models that `compared_models` names

    def facts(self) -> dict[str, Any]:
        """Return the times as plain data, for the header of an index."""
        named = zip(self._fields, self, strict=True)
        return {name.removesuffix("_s"): times.tolist() for name, times in named}

    @classmethod
    def read(
        cls,
        facts: Any,
        *,
        samples: int,
        steps: int,
        features: int,
        rows: int,
    ) -> "MachineTimes":
        """Read a result of `facts`; raise BadIndexFile if it does not fit the index.

        `samples`, `steps`, `features` and `rows` are the index's numbers of sample
        items, steps, features and candidates.
        """
        shapes = {
            "overhead": (samples,),
            "step": (samples, steps),
            "feature": (samples, features),
            "model": (samples, len(compared_models(rows))),
        }
        if not isinstance(facts, Mapping) or set(facts) != set(shapes):
            raise BadIndexFile("damaged: its sample times are no sample times")
        try:
            arrays = {
                name: np.asarray(facts[name], np.float64).reshape(shape)
                for name, shape in shapes.items()
            }
        except (TypeError, ValueError) as error:
            raise BadIndexFile("damaged: its sample times are not its own") from error
        found = cls(*arrays.values())
        for timed, times in zip(shapes, found, strict=True):
            untimed = np.isnan(times) & (timed in ("step", "feature"))
            if not ((times > 0) & (times < inf) | untimed).all():
                raise BadIndexFile("damaged: a sample time is no time above 0")
        return found


def time_features(
    extractor: Extractor,
    items: Sequence[Item],
    used: Sequence[int] | None = None,
    *,
    now: Callable[[], float] = BUSY,
    limit_s: float = inf,
) -> Generator[None, None, Floats]:
    """Time the overhead, the steps and the features of S items, in R rounds.

    `used` are the positions of the features that are timed with their steps, by default
    all. The generator yields about once a millisecond, so that a server can answer
    requests meanwhile. It returns seconds (R, S, 1 + s + m) of the overhead, the s
    steps and the m features; NaN if a feature's seconds are declared, if it fails, or
    if it is not used. `now` is a clock of processor time. After `limit_s` of elapsed
    time, without pauses, no round starts, except for the first two. All code must have
    run once before.
    """
    row = np.zeros(extractor.width, FLOAT32)
    steps = len(extractor.steps)
    if used is None:
        used = range(len(extractor.features))
    needed = sorted({step for position in used for step in extractor.needs[position]})

    def begin(item: Item) -> None:
        extractor.begin(make_item(item.payload, item.kind, pair=item.pair), row)

    def calls() -> Iterator[TimedCall]:
        for sample, item in enumerate(items):
            yield sample, 0, begin, item
            extraction = extractor.begin(extractor.read(item), row)
            for step in needed:
                yield sample, 1 + step, extraction.compute_step, step
            for position in used:
                if "s" not in extractor.features[position].declared:
                    column = 1 + steps + position
                    yield sample, column, extraction.compute, position

    width = 1 + steps + len(extractor.features)
    return _time_rounds(calls, (len(items), width), now, limit_s)


def time_models(
    models: Sequence[Model],
    rows: Sequence[NDArray[np.float32]],
    *,
    now: Callable[[], float] = BUSY,
    limit_s: float = inf,
) -> Generator[None, None, Floats]:
    """Time M models on S feature rows, in R rounds, as `time_features` does.

    The generator returns seconds (R, S, M).
    """

    def calls() -> Iterator[TimedCall]:
        for place, model in enumerate(models):
            for sample, row in enumerate(rows):
                yield sample, place, model.answer, row

    return _time_rounds(calls, (len(rows), len(models)), now, limit_s)


def _time_rounds(
    calls: Callable[[], Iterator[TimedCall]],
    shape: tuple[int, int],
    now: Callable[[], float],
    limit_s: float,
) -> Generator[None, None, Floats]:
    """Time all calls in R rounds, and return seconds (R, *shape); NaN if one fails."""
    rounds: list[Floats] = []
    stopwatch = Stopwatch(now, now, TRIES)
    # a call that waits takes almost no processor time, but holds the thread
    elapsed = time.perf_counter if now is BUSY else now
    spent_s, piece_s = 0.0, elapsed()
    while len(rounds) < LEAST_ROUNDS or (len(rounds) < ROUNDS and spent_s < limit_s):
        rounds.append(np.full(shape, np.nan))
        for row, column, function, argument in calls():
            with suppress(FeatureFailed):
                rounds[-1][row, column] = stopwatch.time(function, argument)
            if (took_s := elapsed() - piece_s) > PIECE_S:
                spent_s += took_s
                yield
                piece_s = elapsed()
    return np.array(rounds)


def finish(work: Generator[None, None, T]) -> T:
    """Run a generator to its end, and return its result."""
    while True:
        try:
            next(work)
        except StopIteration as end:
            result: T = end.value
            return result


def compared_models(rows: int) -> list[int]:
    """Choose which models of `rows` candidates are timed: at most `MODELS`."""
    spread = np.linspace(0, rows - 1, min(rows, MODELS))
    return [round(row) for row in spread.tolist()]


def medians_of(parts: Floats, models: Floats, steps: int) -> MachineTimes:
    """Return the medians over the rounds that were timed.

    `parts` is the result of `time_features`, and `models` of `time_models`. `steps` is
    the number of steps.
    """
    with warnings.catch_warnings():  # of declared seconds, which are NaN throughout
        warnings.simplefilter("ignore", RuntimeWarning)
        middle = np.nanmedian(parts, axis=0)
    return MachineTimes(
        middle[:, 0],
        middle[:, 1 : 1 + steps],
        middle[:, 1 + steps :],
        np.median(models, axis=0),
    )


class MachineFactors(NamedTuple):
    """Time on this machine divided by time on the build's machine, by kind of work."""

    # `overhead` and `models`: one factor for every overhead, one for all models
    overhead: float
    steps: Floats  # (s,): Factor of each step
    features: Floats  # (m,): Factor of each feature; 1 if seconds are declared
    models: float


def compare(
    build: MachineTimes, parts: Floats, models: Floats, waits: Floats | None = None
) -> MachineFactors:
    """Return the factors by which this machine is slower than the build's machine.

    `parts` is this machine's result of `time_features`, and `models` of `time_models`.
    A factor is the `upper_median` of the ratios in all rounds and samples, limited to
    the range from `FASTEST` to `SLOWEST`. It is assumed that high quantiles differ by
    the same factor as medians, and large items by the same factor as small ones.
    `waits` (m + s,) has the share of its time that each feature, then each step, waits
    on the build's machine, by default 0; the factor of this share is 1.
    """
    steps = build.step_s.shape[1]
    built_s = np.hstack([build.step_s, build.feature_s])
    ratios = np.moveaxis(parts[:, :, 1:] / built_s, 2, 0)
    factors = np.array([_factor(own) for own in ratios])
    if waits is not None:
        # the features' factors come after those of the steps
        share = np.roll(waits, steps)
        factors = share + (1 - share) * factors
    return MachineFactors(
        _factor(parts[:, :, 0] / build.overhead_s),
        factors[:steps],
        factors[steps:],
        _factor(models / build.model_s),
    )


def rescale_costs(
    costs: CostTable, factors: MachineFactors, declared: Floats
) -> CostTable:
    """Multiply the measured parts of costs by factors; declared parts stay the same.

    `declared` has the declared part of the constant term of each feature's cost: shape
    (m,), or (m + s,) with those of the steps after those of the features.
    """
    features = costs.feature_coefficients
    m = len(features)
    steps = declared[m:] if len(declared) > m else np.zeros(len(factors.steps))
    return replace(
        costs,
        feature_coefficients=_scaled(features, factors.features, declared[:m]),
        step_coefficients=_scaled(costs.step_coefficients, factors.steps, steps),
        overhead=factors.overhead * costs.overhead,
    )


def _scaled(coefficients: Floats, factors: Floats, declared: Floats) -> Floats:
    fixed = np.zeros_like(coefficients)
    fixed[:, 0] = np.minimum(declared, coefficients[:, 0])
    scaled: Floats = fixed + factors[:, np.newaxis] * (coefficients - fixed)
    return scaled


def _factor(ratios: Floats) -> float:
    known = ratios[~np.isnan(ratios)]
    if not len(known):
        return 1.0
    return float(np.clip(upper_median(known), FASTEST, SLOWEST))


def upper_median(values: Floats, confidence: float = CONFIDENCE) -> float:
    """Return an upper confidence bound for a distribution's median.

    `values` (N,) are drawn from the distribution. The bound is the smallest value that
    lies below the median with a probability of at most 1 - `confidence`. By the sign
    test, the number of values below the median is distributed like the number of heads
    in N throws of a coin. If N is too small, the bound is the largest value.
    """
    count = len(values)
    rank, tail = count, 1 / 2**count
    while tail + comb(count, rank - 1) / 2**count <= 1 - confidence:
        rank -= 1
        tail += comb(count, rank) / 2**count
    return float(np.partition(values, rank - 1)[rank - 1])
