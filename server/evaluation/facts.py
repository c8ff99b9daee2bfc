"""What `polydom evaluate` finds, as plain data; what `--json` prints."""

import msgspec
from msgspec import UNSET, UnsetType

from ..schema.facts import Task


class Judged(msgspec.Struct, kw_only=True):
    """How one contender did on all items; fields of the other task are not there.

    Attributes
    ----------
    quality
        By the index's own measure; None where that is not known of these answers.
    quality_error
        Standard error of the quality, from so many items; None of a single one, or
        where there is no quality without some of them.
    standard_error
        How exactly the accuracy, or of numbers the mean absolute error, is known from
        so many items; None of a single one.
    accuracy
        Share of right answers, no answer being wrong.
    balanced_accuracy, macro_f1, auc, log_loss
        As in `models.measures`. The last two are None where an answer came without
        scores, or there is no such number; log loss also where scores are no
        probabilities.
    r2, mae, rmse
        Of numbers, as in `models.measures`, no answer being the prior's; the root of
        the mean squared error.
    covered
        Share of labels in their answers' intervals; None where there are none.
    p50_ms, p99_ms
        Median and 99th percentile of the time from asking to the answer, by the
        caller's clock.
    unanswered, error
        How often there was no answer, and what was said the first time.
    """

    name: str
    quality: float | None
    quality_error: float | None
    standard_error: float | None
    accuracy: float | UnsetType = UNSET
    balanced_accuracy: float | UnsetType = UNSET
    macro_f1: float | UnsetType = UNSET
    auc: float | UnsetType | None = UNSET
    log_loss: float | UnsetType | None = UNSET
    r2: float | UnsetType = UNSET
    mae: float | UnsetType = UNSET
    rmse: float | UnsetType = UNSET
    covered: float | UnsetType | None = UNSET
    p50_ms: float
    p99_ms: float
    unanswered: int
    error: str | None


class Bought(msgspec.Struct):
    """A feature set, and the share of answers that came from it."""

    features: tuple[str, ...]
    share: float


class AtBudget(Judged, kw_only=True):
    """How the index did within one budget.

    Attributes
    ----------
    budget_ms, budget
        Milliseconds, or an amount in the unit of an index that counts no time.
    given_ms
        What the answers say that they had, where that is less.
    expected_quality, expected_accuracy
        Means of what the answers said; None without one.
    inside
        Share of answers inside the budget: by the caller's clock, or by the plan's cost
        where no time is counted.
    right_inside
        Share of answers that are right and inside it.
    quality_inside
        Of numbers, the quality where the prior answers for all that are not inside it.
    early
        Share of answers that came before all was computed, as they were sure.
    plans
        The commonest feature sets.
    mean_cost
        Of the plans, in the unit of an index that counts no time.
    """

    budget_ms: float | UnsetType = UNSET
    budget: float | UnsetType = UNSET
    given_ms: float | UnsetType = UNSET
    expected_quality: float | None
    expected_accuracy: float | None
    inside: float
    right_inside: float | UnsetType = UNSET
    quality_inside: float | UnsetType = UNSET
    early: float
    plans: list[Bought]
    mean_cost: float | UnsetType = UNSET

    @property
    def amount(self) -> float:
        """The budget, in milliseconds or the index's unit."""
        amount = self.budget if self.budget_ms is UNSET else self.budget_ms
        assert not isinstance(amount, UnsetType)
        return amount


class Beside(Judged, kw_only=True):
    """How one did who knows no budget, and whose late answers are none.

    Attributes
    ----------
    features
        Those that it computes; None where nobody knows.
    inside, right_inside, quality_inside
        As of `AtBudget`, for each budget; None where the cost is not known.
    mean_cost
        As of `AtBudget`; None where it is not known.
    """

    features: tuple[str, ...] | None
    inside: list[float | None]
    right_inside: list[float | None] | UnsetType = UNSET
    quality_inside: list[float | None] | UnsetType = UNSET
    mean_cost: float | UnsetType | None = UNSET


class Pair(msgspec.Struct):
    """Items of one class that were answered with another, or with none.

    `share` is that of the class.
    """

    label: str
    answer: str | None
    count: int
    share: float


class Confusion(msgspec.Struct):
    """What was answered for the items of each class.

    Attributes
    ----------
    amount
        The budget.
    labels
        Classes of the items; the matrix's rows.
    answers
        What was answered; its columns. None is no answer.
    matrix
        Numbers of answers.
    pairs
        The most frequent mistakes first.
    """

    amount: float
    labels: list[str]
    answers: list[str | None]
    matrix: list[list[int]]
    pairs: list[Pair]


class Evaluation(msgspec.Struct, kw_only=True):
    """One run of `polydom evaluate`.

    Attributes
    ----------
    index, version
        File and version of the index.
    url
        Of the server that answered; None where this process did.
    test
        Where the items are.
    items
        How many were asked for.
    asked
        How often everybody was asked: each item once, or as often as was wanted.
    complete
        Whether that is all that was to be asked; not where the run was interrupted.
    unreadable, unlabelled
        Items left out.
    foreign
        Labels that the index does not know, and how many items have them: all wrong.
    unit
        What the index counts.
    task, measure
        What its answers are, and what quality is.
    coverage
        Of numbers, the share of labels that their intervals are to hold.
    budgets
        How the index did within each.
    beside
        How others did.
    confusion
        Of the index, within one of the budgets; None of numbers.
    """

    index: str
    version: str
    url: str | None
    test: str
    items: int
    asked: int
    complete: bool
    unreadable: int
    unlabelled: int
    foreign: dict[str, int]
    unit: str
    task: Task
    measure: str
    coverage: float | None
    budgets: list[AtBudget]
    beside: list[Beside]
    confusion: Confusion | None
