"""`[search]`: the feature sets to train, and the items to measure quality on."""

import math
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

from polydom.features.errors import BadProject
from polydom.features.sizes import Size, read_size

from ...index.quality import AlphaOf
from .numbers import Above, NotNegative, Share

# A tuple of tuples or floats would be exact, but msgspec 0.22 crashes on its type.
Bound = Above | list[Above]
HELD_OUT = 0.25  # default share of the items
FOLDS = 5  # default number of folds if items are few
# Progressive search: seconds at most, seconds at least, trainings on all features.
SEARCH_S, LEAST_SEARCH_S, SEARCH_TRAININGS = 120.0, 30.0, 3.0
POLY_DOM_ONLY = (
    *("alpha", "alpha_of", "budgets", "tolerance", "covering", "trainings"),
    "budget_s",
)


class Search(Struct, frozen=True, forbid_unknown_fields=True):
    """The feature sets to train, and the items to measure their quality on.

    Attributes
    ----------
    method
        "progressive" finds good sets after a few trainings; it continues until `alpha`
        is proven or `budget_s` is spent, and reports the alpha that it proved.
        "poly-dom" proves `alpha`, however long that takes (ICSP, Problem 1). The
        greedy methods train few sets and guarantee nothing (ICSP, section 4): they add
        one feature after the other. "greedy" does this for all trade-offs between cost
        and quality, "greedy-acc" adds the feature with the best accuracy, and
        "greedy-cost" the cheapest feature.
    alpha
        Factor, at least 1, at which the search stops: no set of features within the
        budget gains more than alpha times as much quality over the prior as the chosen
        set. The proof counts the costs of features, not the models' own times. Seconds
        of the search that are then left go to sets that only slow models hide. The
        default for "progressive" is 1, so the search uses all of `budget_s` unless it
        has proven that no other set is better. The default for "poly-dom" is 1.05.
    alpha_of
        "gain": alpha is a factor of the quality gained over the prior. "accuracy":
        alpha is a factor of the quality itself, as in the paper (ICSP, Problem 1).
        Where one class has most items, such an alpha closes nearly all sets.
    tolerance
        Maximum loss of quality that adding features may cause (relaxed Axiom 2.1). The
        default is 0 for accuracy. For other metrics it is measured, so that it covers
        95 % of the losses among the trained sets.
    sizes
        Smallest and largest item size of the index; by default those of the data. Two
        equal sizes make an index for items of one size (ICSP, Problem 2).
    budgets
        Smallest and largest budget of the index, in the units of costs, if you know
        them. Only sets that are the best for some budget in between are kept (for two
        equal budgets, ICSP's Problem 3). Other budgets can still be requested, but a
        better set may have been dropped, and plans have fewer sets to fall back on. If
        the server is slower than this machine, lower the smallest budget accordingly.
        Sets are chosen before the costs of exits are known. Only for sizes of one
        number.
    held_out
        Share of the items, in whole groups, on which accuracy is measured. The default
        is a quarter, unless `folds` is given.
    folds
        Number of folds of cross-validation, instead of `held_out`. The default is five
        folds if the items are divided at random and are too few to promise early exits
        (below 4,780 independent items; where a threshold decides, of the rarer class),
        but there are at least five of each class. There is no such default if `[exits]`
        asks for exits or `refit` is false.
    covering
        If true, the search also uses the covering rule, which is sound only for
        diminishing returns (ICSP, 3.4).
    refit
        If true, the kept models are trained again on all items, except items set aside
        for exits. The index states the accuracy that was measured before. With `folds`,
        models are always trained again. After a progressive search, no model is trained
        again once this has taken half of `budget_s`, unless features are learned.
    negligible_us
        Difference in cost that no caller feels, in microseconds. Of two sets of which
        one has all features of the other, and costs at most so much more, the smaller
        counts as better only if its lead on the tested items is larger than luck
        explains: about 1.4 standard errors if one such set is ahead, 2.7 if 20 are.
        Smaller sets still answer budgets that do not buy the larger one. 0 compares
        measured qualities as they are. A model that is slower by so little hides no
        set.
    budget_s
        Maximum seconds of training in a search: wall seconds of all trainings, divided
        by those that run at a time. A training from the cache counts with the seconds
        that it took, so that a repeated build ends at the same set. The default for
        "progressive" is the time of three trainings on all features, but at least 30 s
        and at most two minutes. Other methods have no limit by default.
    trainings
        Maximum number of sets that "poly-dom" trains. With `trainings` or `budget_s`,
        the search begins with a large alpha and reports the alpha that it reached.

    Greedy methods use only the keys `method`, `sizes`, `held_out`, `folds`, `refit`.
    """

    method: Literal[
        "progressive", "poly-dom", "greedy", "greedy-acc", "greedy-cost"
    ] = "progressive"
    alpha: Annotated[float, Meta(ge=1)] | None = None
    alpha_of: AlphaOf = "gain"
    tolerance: Annotated[float, Meta(ge=0, le=1)] | None = None
    sizes: list[Bound] | None = None
    budgets: list[Above] | UnsetType = UNSET  # unlike None not written into an index
    held_out: Share | None = None
    folds: Annotated[int, Meta(ge=2)] | None = None
    covering: bool = False
    refit: bool = True
    trainings: Annotated[int, Meta(ge=2)] | None = None
    negligible_us: NotNegative = 50.0
    budget_s: Above | None = None

    @property
    def target(self) -> float:
        """Alpha at which the search stops."""
        if self.alpha is not None:
            return self.alpha
        return 1.0 if self.method == "progressive" else 1.05

    @property
    def parts(self) -> int:
        """Number of equal parts of the items; one part at a time is tested on."""
        return self.folds or parts_of(self.held_out or HELD_OUT)

    def limit_s(self, whole_s: float) -> float:
        """Return the maximum seconds that a progressive search spends on training.

        `whole_s` is the time of one training on all features, in seconds.
        """
        if self.budget_s is not None:
            return self.budget_s
        return min(SEARCH_S, max(LEAST_SEARCH_S, SEARCH_TRAININGS * whole_s))

    @property
    def bounds(self) -> tuple[Size, Size] | None:
        """Smallest and largest item size; None if the project names none."""
        if self.sizes is None:
            return None
        low, high = map(read_size, self.sizes)
        return low, high

    def check(self, pair: bool) -> None:
        """Raise BadProject for sizes or budgets that are no ranges.

        `pair` is True if an item's size has two numbers.
        """
        if self.sizes is not None:
            self._check_sizes(self.sizes, 1 + pair)
        budgets = self.budgets
        if budgets is UNSET:
            return
        if len(budgets) != 2 or not budgets[0] <= budgets[1] < math.inf:
            raise BadProject(
                f"search.budgets is {budgets}; a smallest and a largest are needed"
            )
        if pair:
            raise BadProject(
                "search.budgets is for sizes of one number; costs.size has two"
            )

    def _check_sizes(self, sizes: list[Bound], needed: int) -> None:
        numbers = [bound if isinstance(bound, list) else [bound] for bound in sizes]
        if [len(bound) for bound in numbers] != [needed, needed]:
            raise BadProject(
                f"search.sizes is {sizes}; a smallest and a largest size are needed, "
                f"each of as many numbers as costs.size has: {needed}"
            )
        if any(low > high for low, high in zip(*numbers, strict=True)):
            raise BadProject(f"search.sizes is {sizes}: empty range")

    @property
    def budget_range(self) -> tuple[float, float] | None:
        """Smallest and largest budget; None if the project names none."""
        if self.budgets is UNSET:
            return None
        low, high = self.budgets
        return low, high


def parts_of(held_out: float) -> int:
    """Return the number of equal parts to divide items into, if one part is held out.

    A part has about the share `held_out` of the items. There are at least two parts.
    """
    return max(2, round(1 / held_out))


def refuse_unused(search: Mapping[str, Any], method: str) -> None:
    """Raise BadProject for a key of `[search]` that its `method` does not use."""
    if method == "progressive" and "trainings" in search:
        raise BadProject(
            "search.trainings is for method = 'poly-dom'; 'progressive' has a budget_s"
        )
    for key in POLY_DOM_ONLY:
        if method.startswith("greedy") and key in search:
            raise BadProject(
                f"search.{key} is for 'progressive' and 'poly-dom', which try sets of "
                f"features until no other can be much better; {method!r} only adds "
                "feature by feature"
            )
