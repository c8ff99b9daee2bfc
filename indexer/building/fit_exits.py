"""Exits for every plan of an index, fitted on the items that measured its accuracy.

Where a confidence is asked for, they are calibrated on items that nothing else saw.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polydom.features.errors import BadProject
from polydom.models.qwyc.confidence_bound import Groups, fewest_rows, lacking_rows

from ..exits.checkpoints import Answers, CheckpointExits
from ..exits.fit import fit_exits
from ..progress import OnProgress
from ..set_search.feature_order import prefixes
from .project import ExitTerms
from .search_sets import CostOf

Rows = NDArray[np.int64]
Margins = tuple[tuple[float, ...], ...]


@dataclass(frozen=True, slots=True)
class PlanExits:
    """The exits of C plans.

    Attributes
    ----------
    margins
        `margins[r][k]`: the margin beyond which plan r answers after its first k
        features; infinite where it goes on. Empty if exits were not asked for.
    facts
        Plain data for `polydom inspect`.
    """

    margins: Margins
    facts: dict[str, Any]


@dataclass(frozen=True, slots=True, eq=False)
class FreshAnswers:
    """Answers of C candidates for M items that nothing of a build has seen.

    `margins` and `choices` (M, C) are as those of `PlanExitFitter`, `groups` (M,) the
    number of each item's group.
    """

    margins: NDArray[np.float64]
    choices: Rows
    groups: Groups

    def of(self, candidates: Rows) -> Answers:
        """Return the answers of some candidates."""
        return _answers(self.margins, self.choices, candidates)


class PlanExitFitter:
    """Fits the exits of one index's plans.

    A plan's checkpoint k is where its first k features are there, k = 0 ... K; one of
    the index's C candidates answers at each.

    Parameters
    ----------
    terms
        What the project asks for.
    margins : (N, C) float64
        Each candidate's, of the best class over the second, for items that its model
        was not trained on.
    choices : (N, C) int64
        Class that each candidate chooses.
    fresh
        The same for the items to calibrate on; None without a confidence.
    """

    def __init__(
        self,
        terms: ExitTerms,
        margins: NDArray[np.float64],
        choices: Rows,
        fresh: FreshAnswers | None = None,
    ) -> None:
        self.terms, self.fresh = terms, fresh
        self.fit = margins, choices
        self.margins = margins if fresh is None else np.vstack([margins, fresh.margins])
        self.choices = choices if fresh is None else np.vstack([choices, fresh.choices])

    def all(
        self,
        orders: Sequence[Sequence[int]],
        fallbacks: Sequence[Sequence[int]],
        model_costs: NDArray[np.float64],
        cost_of: CostOf,
        on_progress: OnProgress,
    ) -> PlanExits:
        """Fit every plan's exits; the arguments are a package's, by candidate."""
        margins, facts = [], []
        for row, order in enumerate(orders):
            candidates = np.array([*fallbacks[row][:-1], row])
            steps = np.diff([cost_of(mask) for mask in prefixes(order)], prepend=0.0)
            exits = self._fit(candidates, steps + model_costs[candidates])
            facts.append({"row": row, **self._facts(candidates, exits, steps)})
            margins.append(tuple(exits.thresholds.tolist()))
            on_progress(row + 1, None)
        return PlanExits(tuple(margins), self._report(facts))

    def _fit(self, candidates: Rows, costs: NDArray[np.float64]) -> CheckpointExits:
        """Fit the exits of one plan, by checkpoint.

        `candidates` (K + 1,) answer at the checkpoints; `costs` (K + 1,) is what it
        takes to come to each from the one before, and to answer.

        Only a checkpoint where another candidate answers than before can be an exit;
        what the others cost is paid on the way to the next of these. The first is none:
        the prior knows nothing of the item, so it is never sure.
        """
        margins = np.full(len(candidates), np.inf)
        changes = np.flatnonzero(np.diff(candidates)) + 1  # checkpoints
        if len(changes) < 2:
            return CheckpointExits(margins)
        paid_from = np.append(0, changes[:-1] + 1)  # the first paid for each of them
        answering, fresh = candidates[changes], self.fresh
        margins[changes] = fit_exits(
            _answers(*self.fit, answering),
            np.add.reduceat(costs[: changes[-1] + 1], paid_from),
            self.terms.alpha or 0.0,
            confidence=self.terms.confidence,
            calibration=None if fresh is None else fresh.of(answering),
            groups=None if fresh is None else fresh.groups,
        ).thresholds
        return CheckpointExits(margins)

    def _facts(
        self, candidates: Rows, exits: CheckpointExits, steps: NDArray[np.float64]
    ) -> dict[str, Any]:
        """Count how often a plan exits, and what that saves of its features' cost."""
        answers = _answers(self.margins, self.choices, candidates)
        _, at = exits.evaluate(answers)
        costs = np.cumsum(steps)
        whole = float(costs[-1])
        return {
            "early": float(np.mean(at < len(candidates) - 1)),
            "saved": 1 - float(costs[at].mean()) / whole if whole else 0.0,
            "changed": exits.changed(answers) / len(answers),
        }

    def _report(self, plans: list[dict[str, Any]]) -> dict[str, Any]:
        return {
            "alpha": self.terms.alpha,
            "confidence": self.terms.confidence,
            "fitted": len(self.fit[0]),
            "calibrated": len(self.margins) - len(self.fit[0]),
            "plans": plans,
        }


def _answers(margins: NDArray[np.float64], choices: Rows, candidates: Rows) -> Answers:
    return Answers(margins[:, candidates], choices[:, candidates])


def exit_costs(
    margins: Margins,
    fallbacks: Sequence[Sequence[int]],
    model_costs: NDArray[np.float64],
) -> NDArray[np.float64]:
    """Cost (C,) of evaluating the models at all of a plan's exits."""
    checks = np.zeros(len(model_costs))
    for row, own in enumerate(margins):
        stops = np.flatnonzero(np.isfinite(own)).tolist()
        checks[row] = model_costs[[fallbacks[row][k] for k in stops]].sum()
    return checks


def check_exits(terms: ExitTerms, groups: Groups) -> None:
    """Refuse a confidence that items of these groups, set aside for it, cannot give."""
    if terms.alpha is None or terms.confidence is None:
        return
    if terms.alpha == 0:
        raise BadProject(
            "exits.alpha is 0, which no number of items can show; with a confidence "
            "it must be above 0"
        )
    if there := lacking_rows(len(groups), terms.alpha, terms.confidence, groups):
        raise BadProject(
            f"exits.alpha = {terms.alpha:g} with exits.confidence = "
            f"{terms.confidence:g} needs at least "
            f"{fewest_rows(terms.alpha, terms.confidence)} independent items, half of "
            f"held_out; there are {there}"
        )
