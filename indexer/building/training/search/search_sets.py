"""Search among feature sets, by the method that the project names."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from polydom.features.costs.polynomials import costs_at
from polydom.features.sizes import Size
from polydom.models.selection.arms import takes_weights
from polydom.models.selection.learners import make_learner
from polydom.models.selection.portfolio import Setting

from ....progress import OnProgress, Progress
from ....set_search import poly_dom
from ....set_search.feature_order import Orders, answers_along, order_features, prefixes
from ....set_search.greedy import GreedySearch, search_greedy
from ....set_search.monotonicity import measure_violations
from ....skyline.missing_features import best_without
from ....skyline.prune import prune
from ...prepare import Prepared
from ...project_tables.search import Search
from ...resources import Resources
from ..train_sets import Trainer
from ..training_task import TrainingTask, division_of
from .progressive_search import COVERED, CostOf, run_poly_dom, search_progressively

LAMBDAS = {
    "greedy": (0.0, math.inf),
    "greedy-acc": (0.0, 0.0),
    "greedy-cost": (math.inf, math.inf),
}


@dataclass(frozen=True, slots=True)
class SearchedSets:
    """The feature sets that a search trained, and their qualities."""

    qualities: Mapping[int, float]  # Quality of every trained set, by mask
    # Sets that an index may keep, ascending; the empty set is the first
    sets: tuple[int, ...]
    # Orders in which Greedy adds features; empty for Poly-Dom
    sequences: tuple[tuple[int, ...], ...]
    facts: dict[str, Any]  # Plain data for `polydom inspect`

    def keep(
        self,
        coefficients: NDArray[np.float64],
        sizes: tuple[Size, Size],
        budgets: tuple[float, float] | None = None,
        may_lack: Sequence[int] = (),
        outcomes: Sequence[int] = (),
    ) -> NDArray[np.int64]:
        """Return the positions in `sets`, ascending, of the sets that an index keeps.

        These are the empty set; the sets that no other set dominates at these sizes and
        budgets; for each mask of features in `may_lack`, the best sets without these
        features, if they are much better than what else is kept; and for each mask in
        `outcomes`, the best set without these features in any case. After Greedy, they
        also include the first 1, 2, ... features of each sequence, if they are better
        than all shorter beginnings, because such a set answers when time runs out.
        `coefficients` (C, T) are the cost polynomials of `sets`.
        """
        qualities = np.array([self.qualities[mask] for mask in self.sets])
        kept = {0, *prune(coefficients, qualities, sizes, budgets).tolist()}
        row = {mask: at for at, mask in enumerate(self.sets)}
        kept.update(self._best_without(outcomes, qualities, coefficients, sizes[1]))
        for sequence in self.sequences:
            passed = np.array([row[mask] for mask in prefixes(sequence)])
            best = np.maximum.accumulate(qualities[passed])
            kept.update(passed[np.diff(best, prepend=-1.0) > 0].tolist())
        known = self.sets, coefficients, qualities, sizes, budgets
        kept.update(best_without(may_lack, *known, [*kept]).tolist())
        return np.array(sorted(kept))

    def _best_without(
        self,
        outcomes: Iterable[int],
        qualities: NDArray[np.float64],
        coefficients: NDArray[np.float64],
        size: Size,
    ) -> Iterator[int]:
        """Yield the row of the best set without each mask of features.

        Of equally good sets, this is the cheapest at `size`.
        """
        masks = np.array(self.sets, np.uint64)
        best_first = np.lexsort((costs_at(coefficients, size), -qualities))
        for withheld in outcomes:
            answers = (masks[best_first] & np.uint64(withheld)) == 0
            yield int(best_first[answers.argmax()])

    def likely_kept(self) -> list[int]:
        """Return the sets that `keep` will probably keep, before models are timed.

        After Poly-Dom, a set is left out if a subset, whose features cost less, is
        better.
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

    def joined(self, found: Mapping[int, float]) -> Self:
        """Return these sets and further ones that were trained later.

        `found` has the quality of each further set, by mask.
        """
        qualities = {**self.qualities, **found}
        sets = tuple(sorted({*self.sets, *found}))
        more: dict[str, Any] = {"expanded": len(qualities)}
        if "violations" in self.facts:  # not after Greedy
            known = np.array([qualities[mask] for mask in sets])
            violations = measure_violations(np.array(sets, np.uint64), known)
            more["violations"] = violations.facts()
        return replace(
            self, qualities=qualities, sets=sets, facts={**self.facts, **more}
        )

    def order(self, masks: list[int], cost_of: CostOf) -> tuple[Orders, Orders]:
        """Return (orders, fallbacks) of the sets `masks`, as `order_features` does.

        After Greedy, a set has the order of the first sequence that begins with its
        features, if there is one.
        """
        qualities = np.array([self.qualities[mask] for mask in masks])
        usual, fallbacks = order_features(masks, qualities, cost_of)
        if not self.sequences:
            return usual, fallbacks
        orders: dict[int, tuple[int, ...]] = {}
        for sequence in self.sequences:
            for length, mask in enumerate(prefixes(sequence)):
                orders.setdefault(mask, sequence[:length])
        pairs = zip(masks, usual, strict=True)
        chosen = tuple(orders.get(mask, order) for mask, order in pairs)
        return chosen, answers_along(chosen, masks, qualities)


def make_trainer(data: Prepared, learner: Setting, resources: Resources) -> Trainer:
    """Return the trainer that trains feature sets and measures their quality."""
    project, table, weights = data.project, data.table, data.class_weights
    if project.quality.class_weights is None:  # the project wants none
        estimator = make_learner(learner, project.seed, data.task)
        weights = weights if takes_weights(estimator) else None
    weighed = None if weights is None else weights.tolist()
    key = data.keys.sets(learner, data.metric.facts(), weighed)
    arrays: dict[str, NDArray[Any] | None] = {
        "values": table.values,
        "codes": table.dataset.codes,
        "weights": table.dataset.weights,
        "class_weights": weights,
        "numbers": table.dataset.numbers,
    }
    given = {name: array for name, array in arrays.items() if array is not None}
    task = TrainingTask(
        items=resources.cache.share(f"sets/{key}/items", given),
        division=resources.cache.share(
            f"sets/{key}/division", division_of(data.splits)
        ),
        metric=data.metric,
        learner=learner,
        seed=project.seed,
        starts=table.features.starts,
        key=key,
    )
    return Trainer(task, resources.workers, resources.cache)


def no_costs(_: int) -> float:
    """Raise an error. Poly-Dom gets this as its cost function, and never calls it."""
    raise NotImplementedError


def search_sets(
    search: Search,
    m: int,
    trainer: Trainer,
    progress: Progress,
    cost_of: CostOf,
    *,
    grows: bool = True,
) -> SearchedSets:
    """Train the feature sets that the project's search method needs.

    `m` is the number of features, and `cost_of` returns the cost of a set's features.
    `grows` is True for a metric that more features improve, as accuracy. The tolerance
    is the loss of quality that the search allows when features are added. If the
    project names none, the tolerance is 0 with `grows`, and measured without it.
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
    trainer: Trainer,
    tolerance: float | None,
    on_progress: OnProgress,
) -> poly_dom.PolyDomSearch:
    """Run Poly-Dom; run it again while the measured tolerance is above the one used."""
    begun_s, known, tried = trainer.spent.seconds, dict[int, float](), tolerance or 0.0
    while True:
        left, left_s = search.trainings, search.budget_s
        if left_s is not None:
            left_s -= trainer.spent.seconds - begun_s
        if left is not None:
            left -= len(known)
        found = run_poly_dom(
            search, m, trainer, known, tried, on_progress, left=left, left_s=left_s
        )
        known, measured = dict(found.expanded), found.violations.quantile(COVERED)
        over = search.trainings is not None and len(known) >= search.trainings
        if tolerance is not None or measured <= tried or not found.complete or over:
            return found
        tried = measured


def _of_poly_dom(
    search: poly_dom.PolyDomSearch, more: Mapping[str, Any] = MappingProxyType({})
) -> SearchedSets:
    facts = {
        "method": "poly-dom",
        **more,
        "sets": 2**search.m,
        "expanded": len(search.expanded),
        "alpha": search.alpha,
        "alpha_of": search.alpha_of,
        "tolerance": search.tolerance,
        "complete": search.complete,
        "violations": search.violations.facts(),
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
