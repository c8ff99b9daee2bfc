"""The search that a project asks for, and what it leaves to be indexed."""

import math
from collections.abc import Callable, Mapping, Sequence
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
from ...skyline.missing_features import best_without
from ...skyline.prune import prune
from ..project import Search
from .progressive_search import COVERED, SetTrainer, search_progressively

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
    qualities
        Of every set trained, by mask.
    sets
        Those that may be indexed, ascending; the empty one among them.
    sequences
        Orders in which Greedy adds features; empty for Poly-Dom.
    facts
        Plain data for `polydom inspect`.
    """

    qualities: Mapping[int, float]
    sets: tuple[int, ...]
    sequences: tuple[tuple[int, ...], ...]
    facts: dict[str, Any]

    def keep(
        self,
        coefficients: NDArray[np.float64],
        sizes: tuple[Size, Size],
        budgets: tuple[float, float] | None = None,
        may_lack: Sequence[int] = (),
    ) -> NDArray[np.int64]:
        """Choose what to index: rows of `sets`, ascending.

        Those that no other dominates, the empty set, and of Greedy every beginning of
        a sequence that is better than the shorter ones: it answers when time is out.
        Some more where items `may_lack` features, each a mask of those that they lack
        together, which `best_without` finds.
        `coefficients` (C, T) are the cost polynomials of `sets`; see `prune`.
        """
        qualities = np.array([self.qualities[mask] for mask in self.sets])
        kept = {0, *prune(coefficients, qualities, sizes, budgets).tolist()}
        row = {mask: at for at, mask in enumerate(self.sets)}
        for sequence in self.sequences:
            passed = np.array([row[mask] for mask in prefixes(sequence)])
            reached = np.maximum.accumulate(qualities[passed])
            kept.update(passed[np.diff(reached, prepend=-1.0) > 0].tolist())
        known = self.sets, coefficients, qualities, sizes, budgets
        kept.update(best_without(may_lack, *known, [*kept]).tolist())
        return np.array(sorted(kept))

    def likely_kept(self) -> list[int]:
        """Tell what `keep` will choose from, before it is known what models cost.

        Of Greedy all. Else those of which no part is better: it costs less, unless its
        model takes much longer.
        """
        if self.sequences:
            return [*self.sets]
        masks = np.array(self.sets, np.uint64)
        qualities = np.array([self.qualities[mask] for mask in self.sets])
        return [
            mask
            for mask, quality in zip(self.sets, qualities, strict=True)
            if qualities[masks & np.uint64(mask) == masks].max() <= quality
        ]

    def order(self, masks: list[int], cost_of: CostOf) -> tuple[Orders, Orders]:
        """Order each set's features, and say what answers after each of them.

        Greedy's are in the order of the first sequence that passes the set; see
        `order_features` for Poly-Dom's.
        """
        qualities = np.array([self.qualities[mask] for mask in masks])
        if not self.sequences:
            return order_features(masks, qualities, cost_of)
        orders: dict[int, tuple[int, ...]] = {}
        for sequence in self.sequences:
            for length, mask in enumerate(prefixes(sequence)):
                orders.setdefault(mask, sequence[:length])
        chosen = tuple(orders[mask] for mask in masks)
        return chosen, answers_along(chosen, masks, qualities)


def no_costs(_: int) -> float:
    """Stand for costs where they are not known yet: only Poly-Dom needs none."""
    raise NotImplementedError


def search_sets(
    search: Search,
    m: int,
    trainer: SetTrainer,
    progress: Progress,
    cost_of: CostOf,
    *,
    grows: bool = True,
) -> SearchedSets:
    """Train the feature sets that the search named in the project needs.

    Parameters
    ----------
    grows
        Whether quality grows with the feature set, as accuracy does but for noise.
        Where it need not, and the project names no tolerance, the search takes the
        loss that 95 of 100 violations among the sets it has trained do not exceed.
    cost_of
        What a set's features cost at the size to optimise for; Poly-Dom needs none.
    """
    tolerance = 0.0 if grows and search.tolerance is None else search.tolerance
    if search.method == "progressive":
        found = search_progressively(search, m, trainer, cost_of, progress, tolerance)
        facts = {"method": "progressive", "sample": found.sample, "tried": found.tried}
        return _of_poly_dom(found.search, facts)
    with progress.stage("training sets", None) as on_progress:
        if search.method == "poly-dom":
            return _of_poly_dom(_search_all(search, m, trainer, tolerance, on_progress))
        greedy = search_greedy(
            m,
            trainer.qualities,
            cost_of,
            lambdas=LAMBDAS[search.method],
            batch=True,
            progress=on_progress,
        )
    return _of_greedy(search.method, m, greedy)


def _search_all(
    search: Search,
    m: int,
    trainer: SetTrainer,
    tolerance: float | None,
    on_progress: OnProgress,
) -> poly_dom.PolyDomSearch:
    """Search, and search on with what was measured as long as that needs more sets."""
    begun_s, known, tried = trainer.spent.seconds, dict[int, float](), tolerance or 0.0
    while True:
        left, left_s = search.trainings, search.budget_s
        if left_s is not None:
            left_s = max(left_s - (trainer.spent.seconds - begun_s), 1e-9)
        if left is not None:
            left -= len(known)
        found = poly_dom.search(
            m,
            trainer.qualities,
            batch=True,
            alpha=search.alpha,
            tolerance=tried,
            covering=search.covering,
            budget=left,
            budget_s=left_s,
            known=known,
            progress=on_progress,
            now=lambda: trainer.spent.seconds,
        )
        known, measured = dict(found.expanded), found.violations.quantile(COVERED)
        over = search.trainings is not None and len(known) >= search.trainings
        if tolerance is not None or measured <= tried or not found.complete or over:
            return found
        tried = measured


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
