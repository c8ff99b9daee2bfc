"""What trees cost beside what they cannot do without, and where the rest goes.

The model and the exits of `trees`. From Python and within compiled code the *same*
300 rows are evaluated in the same order, in turn, each way in each round after the
same preparation: *warm*, once untimed before; *cold*, after 16 MB of other data have
been read, more than a core's own caches hold. The difference is the call. Each figure
is a median of the rounds of the time spent in this thread, on one core.

A floor is what has to happen one after the other: reads whose place is known only
after another, each as far away as the model's bytes suggest, and sums in the trees'
order; or, in a batch, where rows can take turns, a choice for each test and a look-up
with an addition for each tree, of 64 rows at once and all of it in the first cache.
Mispredicted branches are in none of them.
"""

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polydom.models.early_exit.ensemble import Ensemble
from polydom.models.scoring.address_table import aligned
from polydom.models.scoring.kernels.native import entry
from polydom.models.trees import self_test
from polydom.models.trees.choose_layout import pack
from polydom.models.trees.kernels.avx512 import LANES, VECTORS
from polydom.models.trees.kernels.many_rows import BLOCK
from polydom.models.trees.kernels.one_row_vectors import ABREAST, SPAN
from polydom.models.trees.one_row import PackedTrees
from polydom.models.trees.trees import Trees

from ..data.tables import Split
from ..peers.contender import Singles
from .boosting import BINARY, TREES, FittedExit, boost, fit_exit
from .kernels import tree_floor as kernels

ROWS, BATCH = 300, 4096
SIZES = {"16 KB": 2**14, "1 MB": 2**20, "32 MB": 2**25, "512 MB": 2**29}
LINE = 64  # bytes that a cache reads at once
READS = 5  # table, column, value, cuts, leaf: each known after the one before it
STEPS = 100_000
OTHERS = np.zeros(2**21)
Act = Callable[[], Any]
Figures = dict[str, float]


@dataclass(frozen=True)
class Effort:
    """Trees of the model, rounds of each measurement, and bytes that reads go over."""

    trees: int
    rounds: int
    sizes: tuple[str, ...]


FULL, QUICK = Effort(TREES, 31, tuple(SIZES)), Effort(40, 1, ("16 KB", "1 MB"))


def median_ns(
    acts: dict[str, Act], count: int, rounds: int, prepare: Act | None = None
) -> Figures:
    """Nanoseconds of one of `count` steps of each act; they take turns."""
    times: dict[str, list[float]] = {name: [] for name in acts}
    for _ in range(rounds):
        for name, act in acts.items():
            (prepare or act)()
            start = time.thread_time_ns()
            act()
            times[name].append((time.thread_time_ns() - start) / count)
    return {name: round(statistics.median(each), 2) for name, each in times.items()}


def each(call: Callable[[int], Any], which: list[int]) -> Act:
    """Call from Python for each row."""

    def act() -> None:
        for i in which:
            call(i)

    return act


def latencies(effort: Effort) -> Figures:
    """One read after another, at places all over so many bytes."""
    found: Figures = {}
    draw = np.random.default_rng(0)
    for name in effort.sizes:
        size = SIZES[name]
        lines = draw.permutation(size // LINE) * (LINE // 8)
        places = np.zeros(size // 8, np.int64)
        places[lines] = np.roll(lines, 1)
        act = partial(kernels.follow, places, STEPS)
        found |= median_ns({name: act}, STEPS, effort.rounds)
    return found


def calls(rounds: int) -> Figures:
    """Calls from Python of compiled functions that do nothing."""
    row, which = np.zeros(14, np.float32), list(range(ROWS))
    dispatchers = kernels.take_nothing, kernels.take_numbers, kernels.take_row
    acts = {"Python function that does nothing": each(lambda i: None, which)}
    for way, entered in (
        ("entry point", map(entry, dispatchers)),
        ("dispatcher", iter(dispatchers)),
    ):
        nothing, numbers, array = entered
        acts |= {
            f"{way}, no argument": each(lambda i, f=nothing: f(), which),  # type: ignore[misc]
            f"{way}, two numbers": each(lambda i, f=numbers: f(i, 7), which),  # type: ignore[misc]
            f"{way}, array and number": each(lambda i, f=array: f(row, 7), which),  # type: ignore[misc]
        }
    return median_ns(acts, ROWS, rounds)


def basics(effort: Effort) -> Figures:
    """Addition in the trees' order, 64 bytes, and a batch's two steps for 64 rows."""
    draw = np.random.default_rng(0)
    values, table = draw.normal(size=effort.trees), np.zeros(2**15, np.int64)
    rows = aligned(draw.integers(0, 32, (4, BLOCK), np.uint8))
    totals, leaves = aligned(np.zeros(BLOCK)), aligned(draw.normal(size=32))
    times, vectors = 2**11, 2**11 * BLOCK // LANES
    acts: dict[str, tuple[Act, int]] = {
        "addition in order": (
            lambda: kernels.add_in_order(values, 40),
            40 * effort.trees,
        ),
        "64 of 256 KB, in order": (lambda: kernels.read_all(table, 40), 40 * 2**12),
        "choice for 64 rows": (lambda: kernels.choose_rows(rows, times), vectors),
    }
    if VECTORS:
        add = partial(kernels.add_rows, rows[1], leaves, totals, times)
        acts["look-up and addition for 64 rows"] = add, vectors
    found: Figures = {}
    for name, (act, count) in acts.items():
        found |= median_ns({name: act}, count, effort.rounds)
    return found


def touched(packed: PackedTrees, used: NDArray[np.int64]) -> dict[str, int]:
    """Bytes of whole lines that the vector kernel reads for a row, on average.

    `used` (N,) are the trees after which rows stop.
    """
    arrays = packed.table.arrays
    deep = arrays["depths"]
    slots = arrays["columns"].nbytes // 4
    ends = [1]
    while ends[-1] < len(deep):
        ends.append(min(ends[-1] + min(ends[-1], SPAN), len(deep)))
    groups = np.array(ends)[np.searchsorted(ends, -(-used // LANES))]
    tests = np.cumsum(((1 << deep) - 1) * 2 * LANES)[groups - 1]
    found = -(-used // ABREAST) * ABREAST
    return {
        "row": LINE,
        "thresholds": slots * (3 * 4 + 2 * LINE),
        "tests": int(tests.mean()),
        "leaves": int(found.mean() * LINE),
    }


def asked(X: Singles) -> list[int]:
    """Numbers of the rows that are evaluated: `ROWS`, or all where there are fewer."""
    step = max(1, len(X) // ROWS)
    return list(range(0, min(ROWS * step, len(X)), step))


def ways(ensemble: Ensemble, fitted: FittedExit, X: Singles) -> dict[str, Act]:
    """Each way to evaluate the same rows, in the same order."""
    which = asked(X)
    numbers, rows = np.array(which), list(X)
    packed = ensemble.classifier.scorer.packed  # type: ignore[attr-defined]
    exits = fitted.exits
    assert isinstance(exits.packed, PackedTrees)
    enter, at, classifier = packed.enter, packed.at, ensemble.classifier
    return {
        "full, compiled": lambda: kernels.sum_each(X, numbers, at),
        "full, entry point": each(lambda i: enter(rows[i], at), which),
        "full, choose": each(lambda i: classifier.choose(rows[i]), which),
        "exit, choose": each(lambda i: exits.choose(rows[i]), which),
        "a Python function that does nothing": each(lambda i: None, which),
    }


def packing(ensemble: Ensemble, fitted: FittedExit, rounds: int) -> Figures:
    """Milliseconds of packing a model's trees, and its exits, self-tested and not."""
    trees, exits = ensemble.classifier.scorer, fitted.exits
    assert isinstance(trees, Trees)
    order, stops = exits.schedule.order, exits.stops
    acts: dict[str, Act] = {
        "full": lambda: pack(trees),
        "exit": lambda: pack(trees, order, stops),
    }
    found: Figures = {}
    held = self_test.TRUST.held
    for way, trust in (("with a self-test", held), ("without", False)):
        self_test.TRUST.held = trust
        times = median_ns(acts, 1_000_000, rounds)
        found |= {f"{name}, {way}": time for name, time in times.items()}
    self_test.TRUST.held = held
    return found


def floors(facts: dict[str, Any], size: int, trees: float, tests: int) -> Figures:
    """Nanoseconds of what must happen to a row; see the module."""
    reads, basic = facts["reads_ns"], facts["basics_ns"]
    in_order = basic["addition in order"]
    found = {
        "full": READS * reads["1 MB"] + size * in_order,
        "exit": READS * reads["16 KB"] + trees * in_order,
    }
    if VECTORS:
        add = basic["look-up and addition for 64 rows"]
        found["batch"] = (tests * basic["choice for 64 rows"] + size * add) / LANES
    return {name: round(ns, 1) for name, ns in found.items()}


def measure(rows: Split, quick: bool) -> dict[str, Any]:
    """Train, fit, time; every figure."""
    X, y, test, _ = rows
    effort = QUICK if quick else FULL
    _, ensemble = boost(X, y, effort.trees, **BINARY, num_threads=1)
    fitted = fit_exit(ensemble, X, test)
    packed = ensemble.classifier.scorer.packed
    acts, batch, which = ways(ensemble, fitted, test), test[:BATCH], asked(test)
    timed = partial(median_ns, rounds=effort.rounds)
    trees = float(fitted.used[which].mean())
    facts: dict[str, Any] = {
        "kernels": self_test.TRUST.kernels,
        "trees": {"of these rows": trees, "of all": float(fitted.used.mean())},
        "changed": fitted.changed,
        "reads_ns": latencies(effort),
        "calls_ns": calls(effort.rounds),
        "basics_ns": basics(effort),
        "warm_ns": timed(acts, len(which)),
        "cold_ns": timed(acts, len(which), prepare=lambda: OTHERS.sum()),
        "batch_ns": timed({"batch": lambda: packed.follow(batch)}, len(batch)),
        "packing_ms": packing(ensemble, fitted, effort.rounds),
    }
    tests = len(packed.batch.forest.tests)
    facts["tests"] = tests
    facts["floors_ns"] = floors(facts, effort.trees, trees, tests)
    if packed.vector:
        exits = fitted.exits.packed
        assert isinstance(exits, PackedTrees)
        facts["bytes"] = {
            "full": touched(packed, np.array([effort.trees])),
            "exit": touched(exits, fitted.used),
        }
    return facts
