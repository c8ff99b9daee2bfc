"""What Poly-Dom's look-up is compared with: Index-All and Naive-Lookup (ICSP)."""

import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polydom.indexer._crossing_kernels import compare
from polydom.indexer.greedy import GreedyLookup
from polydom.indexer.lookup import Lookup

from ._lookup_kernels import index_all_ranks, naive_ranks, polydom_ranks
from .synthetic_sets import SIZES, Candidates

QUERIES, REPEATS = 20_000, 7


def index_all(
    candidates: Candidates, lookup: Lookup, sizes: tuple[float, float] = SIZES
) -> tuple[NDArray[Any], ...]:
    """Poly-Dom-Index-All: the skyline of every range between any two crossings."""
    curves = candidates.coefficients
    starts, signs = np.empty(curves.shape[1]), np.empty(curves.shape[1], np.int64)
    found = set[float]()
    for i in range(len(curves)):
        for j in range(i):
            count = compare(curves[i], curves[j], *sizes, starts, signs)
            found.update(starts[1:count].tolist())
    crossings = np.array(sorted(found))
    rank = np.zeros(len(curves), np.int32)
    rank[lookup.rows] = np.arange(len(lookup.rows))
    skylines = [rank[lookup.skyline(n)] for n in (sizes[0], *crossings)]
    offsets = np.cumsum([0, *map(len, skylines)])
    return crossings, offsets, np.concatenate(skylines)


def size_of(lookup: Lookup) -> int:
    """Bytes of the index without the candidates' curves, which all rivals need."""
    arrays = lookup.arrays()
    return sum(a.nbytes for n, a in arrays.items() if n not in ("coefficients", "rows"))


def time_lookups(
    candidates: Candidates,
    lookup: Lookup,
    everything: tuple[NDArray[Any], ...] | None,
    between: tuple[float, float] = SIZES,
) -> dict[str, float]:
    """Nanoseconds per look-up, interleaved; all must answer alike."""
    random = np.random.default_rng(0)
    sizes = random.uniform(*between, QUERIES)
    curves = candidates.coefficients[random.integers(len(candidates[1]), size=QUERIES)]
    powers = sizes[:, None] ** np.arange(curves.shape[1])
    budgets = (curves * powers).sum(axis=1) * random.uniform(0.9, 1.1, QUERIES)
    order = np.argsort(candidates.accuracies, kind="stable")
    ranked = np.ascontiguousarray(candidates.coefficients[order])
    arrays = [a for name, a in lookup.arrays().items() if name != "rows"]
    contenders: dict[str, tuple[Callable[..., None], list[Any]]] = {
        "ns": (polydom_ranks, arrays),
        "ns Naive": (naive_ranks, [ranked]),
    }
    if everything is not None:
        arguments = [*everything, lookup.coefficients]
        contenders["ns Index-All"] = index_all_ranks, arguments
    rows = {"ns Naive": order}
    times: dict[str, list[float]] = {name: [] for name in contenders}
    answers = {}
    for _ in range(REPEATS):
        for name, (find, arguments) in contenders.items():
            out = np.empty(QUERIES, np.int64)
            # CPU time: one look-up is far shorter than being put off the processor.
            start = time.thread_time()
            find(*arguments, sizes, budgets, out)
            times[name].append((time.thread_time() - start) / QUERIES * 1e9)
            found = candidates.accuracies[rows.get(name, lookup.rows)[out]]
            answers[name] = np.where(out < 0, -1.0, found)
    for name, given in answers.items():
        if not np.array_equal(given, answers["ns"]):
            raise AssertionError(f"{name} answers differently")
    return {name: statistics.median(values) for name, values in times.items()}


def chosen_accuracy(
    lookup: Lookup | GreedyLookup, accuracies: NDArray[np.float64]
) -> Callable[[float, float], float]:
    return lambda size, budget: float(accuracies[lookup.best(size, budget)])
