"""What Poly-Dom's look-up is compared with: Index-All, Naive-Lookup, Greedy (ICSP)."""

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from polydom.indexer.index.kernels.size_search import cost_at
from polydom.indexer.index.size_lookup import SizeLookup
from polydom.indexer.set_search.feature_order import prefixes
from polydom.indexer.set_search.greedy import GreedySearch
from polydom.indexer.skyline.kernels.crossings import compare

from .kernels.lookups import index_all_ranks, naive_ranks, polydom_ranks
from .workloads import Candidates

QUERIES, REPEATS = 20_000, 7


@dataclass(frozen=True, slots=True, eq=False)
class GreedyLookup:
    """Any-time retrieval from greedy sequences (ICSP, section 4, "Retrieval").

    The budget chooses a sequence by the skyline of the size optimised for; along that
    sequence features are added while the budget lasts for the item at hand.
    """

    masks: NDArray[np.int64]  # (C,) int64: Feature set of each row
    # (C, d + 1) float64: Cost polynomial of each row, constant first, seconds
    coefficients: NDArray[np.float64]
    accuracies: NDArray[np.float64]  # Accuracy of each row, shape (C,)
    # (Q, L) int64: Rows that each sequence passes, the empty set first, then -1
    paths: NDArray[np.int64]
    # `costs_s` and `chosen`: (K,): Skyline at the size optimised for: ascending costs,
    # and the sequence of each
    costs_s: NDArray[np.float64]
    chosen: NDArray[np.int64]

    @classmethod
    def build(
        cls,
        search: GreedySearch,
        coefficients_of: Callable[[NDArray[np.uint64]], NDArray[np.float64]],
        size: float,
    ) -> Self:
        """Keep the sets on some sequence, and the skyline of them at `size`.

        Parameters
        ----------
        search
            From `search_greedy`.
        coefficients_of
            Cost polynomials (C, d + 1) of C masks, such as `CostTable.of_many`.
        size
            The item size that was optimised for.
        """
        passed = [prefixes(sequence.features) for sequence in search.sequences]
        masks = sorted({mask for masks in passed for mask in masks})
        row = {mask: at for at, mask in enumerate(masks)}
        paths = np.array([[row[mask] for mask in masks] for masks in passed])
        coefficients = np.ascontiguousarray(coefficients_of(np.array(masks, np.uint64)))
        accuracies = np.array([search.expanded[mask] for mask in masks])
        costs_s = np.array(
            [cost_at(coefficients, at, size) for at in range(len(masks))]
        )
        order = np.lexsort([-accuracies, costs_s])
        reached = np.maximum.accumulate(accuracies[order])
        skyline = order[np.flatnonzero(np.diff(reached, prepend=-1.0) > 0)]
        chosen = [int((paths == at).any(axis=1).argmax()) for at in skyline]
        return cls(
            np.array(masks, np.int64),
            coefficients,
            accuracies,
            paths,
            costs_s[skyline],
            np.array(chosen, np.int64),
        )

    def best(self, size: float, budget_s: float) -> int:
        """Row of the most accurate affordable set on the chosen sequence, or -1."""
        at = int(np.searchsorted(self.costs_s, budget_s, side="right")) - 1
        best = -1
        for row in self.paths[self.chosen[max(at, 0)]]:
            if not cost_at(self.coefficients, row, size) <= budget_s:
                break
            if best < 0 or self.accuracies[row] > self.accuracies[best]:
                best = int(row)
        return best

    def order(self, row: int) -> tuple[int, ...]:
        """Features of a row in the order of the first sequence that passes it."""
        path = self.paths[(self.paths == row).any(axis=1).argmax()]
        masks = self.masks[path[: int((path == row).argmax()) + 1]]
        return tuple(int(added).bit_length() - 1 for added in masks[1:] ^ masks[:-1])


def index_all(
    candidates: Candidates, lookup: SizeLookup, sizes: tuple[float, float]
) -> tuple[NDArray[Any], ...]:
    """Poly-Dom-Index-All: the skyline of every range between any two crossings."""
    curves = candidates.coefficients
    found = set[float]()
    for i in range(len(curves)):
        for j in range(i):
            starts, _ = compare(curves[i], curves[j], *sizes)
            found.update(starts[1:].tolist())
    crossings = np.array(sorted(found))
    rank = np.zeros(len(curves), np.int32)
    rank[lookup.rows] = np.arange(len(lookup.rows))
    skylines = [rank[lookup.skyline(n)] for n in (sizes[0], *crossings)]
    offsets = np.cumsum([0, *map(len, skylines)])
    return crossings, offsets, np.concatenate(skylines)


def size_of(lookup: SizeLookup) -> int:
    """Bytes of the index without the candidates' curves, which all rivals need."""
    arrays = lookup.arrays()
    return sum(a.nbytes for n, a in arrays.items() if n not in ("coefficients", "rows"))


def time_lookups(
    candidates: Candidates,
    lookup: SizeLookup,
    everything: tuple[NDArray[Any], ...] | None,
    between: tuple[float, float],
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
    lookup: SizeLookup | GreedyLookup, accuracies: NDArray[np.float64]
) -> Callable[[float, float], float]:
    return lambda size, budget: float(accuracies[lookup.best(size, budget)])
