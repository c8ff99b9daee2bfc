"""Results of `polydom evaluate`, as `--json` prints them."""

import msgspec
from msgspec import UNSET, UnsetType

from ..schema.facts import Task


class Result(msgspec.Struct, kw_only=True):
    """One predictor's metrics on all items; fields of the other task are unset.

    Attributes
    ----------
    quality
        By the index's own measure; None where these answers lack the scores for it.
    quality_error
        Standard error of the quality; None for a single item, or where leaving some
        items out leaves no quality.
    standard_error
        Standard error of the accuracy or, for numbers, of the mean absolute error;
        None for a single item.
    accuracy
        Share of right answers; a missing answer counts as wrong.
    balanced_accuracy, macro_f1, auc, log_loss
        As in `models.measures`. AUC and log loss are None where an answer came without
        scores, or the number does not exist; log loss also where scores are no
        probabilities.
    r2, mae, rmse
        For numbers, as in `models.measures`; the prior's number stands for a missing
        answer. `rmse` is the root of the mean squared error.
    covered
        Share of labels in their answers' intervals; None without intervals.
    p50_ms, p99_ms
        Median and 99th percentile of milliseconds from asking to the answer, by the
        caller's clock.
    unanswered, error
        Number of missing answers, and the text of the first error.
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


class BudgetResult(Result, kw_only=True):
    """The index's result within one budget.

    Attributes
    ----------
    budget_ms, budget
        The budget in milliseconds, or in the unit of an index that counts no time.
    given_ms
        Milliseconds that the answers report as their budget, where they are fewer.
    expected_quality, expected_accuracy
        Means of the answers' own expectations; None without an answer.
    inside
        Share of answers inside the budget: by the caller's clock, or by the plan's cost
        where no time is counted.
    right_inside
        Share of answers that are right and inside the budget.
    quality_inside
        For numbers, the quality where the prior's number replaces every answer outside
        the budget.
    early
        Share of answers that came before everything was computed.
    plans
        The commonest feature sets.
    mean_cost
        Mean cost of the plans, in the unit of an index that counts no time.
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


class BaselineResult(Result, kw_only=True):
    """The result of a predictor that knows no budget; late answers do not count.

    Attributes
    ----------
    features
        Features computed for every item; None where unknown.
    inside, right_inside, quality_inside
        One entry per budget, as in `BudgetResult`; None where the cost is unknown.
    mean_cost
        As in `BudgetResult`; None where the cost is unknown.
    """

    features: tuple[str, ...] | None
    inside: list[float | None]
    right_inside: list[float | None] | UnsetType = UNSET
    quality_inside: list[float | None] | UnsetType = UNSET
    mean_cost: float | UnsetType | None = UNSET


class Pair(msgspec.Struct):
    """Items of one class whose answer was another class, or missing.

    `share` is the share of the class's items.
    """

    label: str
    answer: str | None
    count: int
    share: float


class Confusion(msgspec.Struct):
    """Numbers of answers for the items of each class.

    Attributes
    ----------
    amount
        The budget.
    labels
        Classes of the items, one per row of the matrix.
    answers
        Classes answered, one per column of the matrix; None for a missing answer.
    matrix
        Numbers of answers, (labels, answers).
    pairs
        Mistakes, the most frequent first.
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
        Address of the server that answered; None where this process did.
    test
        Path of the items.
    items
        Number of different items asked for.
    asked
        Number of trials: the items, times the repetitions.
    complete
        False where the run was interrupted.
    unreadable, unlabelled
        Numbers of items left out.
    foreign
        Number of items by label, for labels that the index does not know.
    unit
        The index's unit of cost, "s" for seconds.
    task, measure
        The kind of the index's answers, and the measure of quality.
    coverage
        For numbers, the share of labels that intervals are built to hold.
    budgets
        Results of the index, one per budget.
    beside
        Results of the other predictors.
    confusion
        Confusion of the index within one of the budgets; None for numbers.
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
    budgets: list[BudgetResult]
    beside: list[BaselineResult]
    confusion: Confusion | None
