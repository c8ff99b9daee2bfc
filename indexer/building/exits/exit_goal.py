"""The goal of early exits: the shares of answers that they may change."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from polydom.features.errors import BadInput, BadProject
from polydom.models.qwyc.confidence_bound import Groups
from polydom.models.qwyc.fixed_sequence import ClassTests
from polydom.models.qwyc.promise import ALPHA, OTHERS, Sides, shares_by_label


class ExitGoal(NamedTuple):
    """The shares of answers that early exits may change, and the confidence in them.

    `alpha` is one share for all classes, or shares by label, as in `[exits]`.
    """

    alpha: float | dict[str, float]
    confidence: float | None = None
    sides: Sides = "both"

    @property
    def half(self) -> "ExitGoal":
        """Half of this goal, for one of two kinds of exits: alpha and doubt are halved.

        Doubt is 1 - confidence.
        """
        sure, alpha = self.confidence, self.alpha
        half: float | dict[str, float]
        if isinstance(alpha, dict):
            named = {OTHERS: ALPHA} | alpha
            half = {name: share / 2 for name, share in named.items()}
        else:
            half = alpha / 2
        return self._replace(
            alpha=half, confidence=None if sure is None else (1 + sure) / 2
        )

    def of_known(self, labels: Sequence[str]) -> "ExitGoal":
        """Return this goal without the shares of classes that are not in `labels`."""
        if not isinstance(self.alpha, dict):
            return self
        kept = {n: s for n, s in self.alpha.items() if n in labels or n == OTHERS}
        return self._replace(alpha=kept)

    @property
    def barred(self) -> list[int]:
        """Classes, as positions, that are never answered early."""
        return {"both": [], "negative": [1], "positive": [0]}[self.sides]

    @property
    def changes_any(self) -> bool:
        """True if the share of at least one class may be above 0."""
        if isinstance(self.alpha, dict):
            return any(({OTHERS: ALPHA} | self.alpha).values())
        return self.alpha > 0

    def shares(self, labels: Sequence[str]) -> NDArray[np.float64]:
        """Return the share of each class's answers that may change, shape (K,).

        Raises BadProject if `alpha` names a class that is none of `labels` (K,), or
        `sides` are asked for and there are not two classes.
        """
        if self.sides != "both" and len(labels) != 2:
            raise BadProject(
                f"exits.sides is {self.sides!r}, and there are {len(labels)} classes; "
                "sides are for two. exits.alpha may be a table by class: a class of "
                "alpha 0 is never left early"
            )
        try:
            return shares_by_label(self.alpha, labels)
        except BadInput as error:
            raise BadProject(f"exits.{error}") from error

    def lacking(
        self, groups: Groups, codes: NDArray[np.int64], labels: Sequence[str]
    ) -> str:
        """Return why items are too few to promise anything, or "" if they are enough.

        They are enough if exits can be promised to change few answers of at least one
        class. `groups` and `codes` (N,) are the numbers of the items' groups, and their
        classes as positions in `labels` (K,); a model's answers are taken to be as
        frequent as the labels.
        """
        if self.confidence is None:
            return ""
        shares = self.shares(labels)
        if self.barred:  # only answers of the barred class can change
            shares[[1 - k for k in self.barred]] = 0.0
        tests = ClassTests.of(codes, shares, self.confidence, groups)
        if not tests.lacking.all():
            return ""
        k, there, needed = tests.shortage(codes, groups)
        return (
            f"exits.alpha = {shares[k]:g} with exits.confidence = {self.confidence:g} "
            f"needs at least {needed} independent items of a class, half of held_out; "
            f"of {labels[k]!r} there are {there}"
        )
