"""The search that a project asks for, and what it leaves to be indexed."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polydom.features.sizes import Size

from ...progress import OnProgress, Progress
from ...set_search import poly_dom
from ...set_search.feature_order import Orders, answers_along, order_features, prefixes
from ...set_search.greedy import GreedySearch, search_greedy
from ...skyline.prune import prune
from ..project import Search
from .progressive_search import SetTrainer, search_progressively

LAMBDAS = {
    "greedy": (0.0, math.inf),
    "greedy-acc": (0.0, 0.0),
    "greedy-cost": (math.inf, math.inf),
}

CostOf = Callable[[int], float]


@dataclass(frozen=True, slots=True)
class SearchedSets:
    """What a search trained, and which of it may serve.

    Attributes
    ----------
    accuracies
        Of every set trained, by mask.
    sets
        Those that may be indexed, ascending; the empty one among them.
    sequences
        Orders in which Greedy adds features; empty for Poly-Dom.
    facts
        Plain data for `polydom inspect`.
    """

    accuracies: Mapping[int, float]
    sets: tuple[int, ...]
    sequences: tuple[tuple[int, ...], ...]
    facts: dict[str, Any]

    def keep(
        self,
        coefficients: NDArray[np.float64],
        sizes: tuple[Size, Size],
        budgets: tuple[float, float] | None = None,
    ) -> NDArray[np.int64]:
        """Choose what to index: rows of `sets`, ascending.

        Those that no other dominates, the empty set, and of Greedy every beginning of
        a sequence that is better than the shorter ones: it answers when time is out.
        `coefficients` (C, T) are the cost polynomials of `sets`; see `prune`.
        """
        accuracies = np.array([self.accuracies[mask] for mask in self.sets])
        kept = {0, *prune(coefficients, accuracies, sizes, budgets).tolist()}
        row = {mask: at for at, mask in enumerate(self.sets)}
        for sequence in self.sequences:
            passed = np.array([row[mask] for mask in prefixes(sequence)])
            reached = np.maximum.accumulate(accuracies[passed])
            kept.update(passed[np.diff(reached, prepend=-1.0) > 0].tolist())
        return np.array(sorted(kept))

    def order(self, masks: list[int], cost_of: CostOf) -> tuple[Orders, Orders]:
        """Order each set's features, and say what answers after each of them.

        Greedy's are in the order of the first sequence that passes the set; see
        `order_features` for Poly-Dom's.
        """
        accuracies = np.array([self.accuracies[mask] for mask in masks])
        if not self.sequences:
            return order_features(masks, accuracies, cost_of)
        orders: dict[int, tuple[int, ...]] = {}
        for sequence in self.sequences:
            for length, mask in enumerate(prefixes(sequence)):
                orders.setdefault(mask, sequence[:length])
        chosen = tuple(orders[mask] for mask in masks)
        return chosen, answers_along(chosen, masks, accuracies)


def search_sets(
    search: Search, m: int, trainer: SetTrainer, cost_of: CostOf, progress: Progress
) -> SearchedSets:
    """Train the feature sets that the search named in the project needs.

    Parameters
    ----------
    cost_of
        What a set's features cost at the size to optimise for; Poly-Dom needs none.
    """
    if search.method == "progressive":
        found = search_progressively(search, m, trainer, cost_of, progress)
        facts = {"method": "progressive", "sample": found.sample, "tried": found.tried}
        return _of_poly_dom(found.search, facts)
    with progress.stage("training sets", None) as on_progress:
        if search.method == "poly-dom":
            return _of_poly_dom(_search_all(search, m, trainer, on_progress))
        greedy = search_greedy(
            m,
            trainer.accuracies,
            cost_of,
            lambdas=LAMBDAS[search.method],
            batch=True,
            progress=on_progress,
        )
    return _of_greedy(search.method, m, greedy)


def _search_all(
    search: Search, m: int, trainer: SetTrainer, on_progress: OnProgress
) -> poly_dom.PolyDomSearch:
    return poly_dom.search(
        m,
        trainer.accuracies,
        batch=True,
        alpha=search.alpha,
        tolerance=search.tolerance,
        covering=search.covering,
        budget=search.trainings,
        budget_s=search.budget_s,
        progress=on_progress,
        now=lambda: trainer.spent.seconds,
    )


def _of_poly_dom(
    search: poly_dom.PolyDomSearch, more: Mapping[str, Any] = MappingProxyType({})
) -> SearchedSets:
    violations = search.violations
    facts = {
        "method": "poly-dom",
        **more,
        "sets": 2**search.m,
        "expanded": len(search.expanded),
        "alpha": search.alpha,
        "tolerance": search.tolerance,
        "complete": search.complete,
        "violations": {
            "pairs": int(violations.pairs.sum()),
            "count": violations.count,
            "p95": violations.quantile(0.95),
            "largest": violations.tolerance,
        },
    }
    sets = tuple(sorted(search.expanded))
    return SearchedSets(search.expanded, sets, (), facts)


def _of_greedy(method: str, m: int, search: GreedySearch) -> SearchedSets:
    sequences = tuple(sequence.features for sequence in search.sequences)
    passed = {mask for features in sequences for mask in prefixes(features)}
    facts = {
        "method": method,
        "sets": 2**m,
        "expanded": len(search.expanded),
        "sequences": len(sequences),
        "lambdas": [
            sequence.low if sequence.low < math.inf else None
            for sequence in search.sequences
        ],
    }
    return SearchedSets(search.expanded, tuple(sorted(passed)), sequences, facts)
