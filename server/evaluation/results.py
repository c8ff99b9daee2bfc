"""Results of `polydom evaluate`, as `--json` prints them."""

import msgspec
from msgspec import UNSET, UnsetType

from ..schema.facts import Task


class Result(msgspec.Struct, kw_only=True):
    """One predictor's metrics on all items; fields of the other task are unset."""

    name: str
    # By the index's own measure; None where these answers lack the scores for it
    quality: float | None
    # Standard error of the quality; None for a single item, or where leaving some items
    # out leaves no quality
    quality_error: float | None
    # Standard error of the accuracy or, for numbers, of the mean absolute error; None
    # for a single item
    standard_error: float | None
    # Share of right answers; a missing answer counts as wrong
    accuracy: float | UnsetType = UNSET
    # `balanced_accuracy`, `macro_f1`, `auc`, `log_loss`: as in `models.measures`. AUC
    # and log loss are None where an answer came without scores, or the number does not
    # exist; log loss also where scores are no probabilities.
    balanced_accuracy: float | UnsetType = UNSET
    macro_f1: float | UnsetType = UNSET
    auc: float | UnsetType | None = UNSET
    log_loss: float | UnsetType | None = UNSET
    # `r2`, `mae`, `rmse`: for numbers, as in `models.measures`; the prior's number
    # stands for a missing answer. `rmse` is the root of the mean squared error.
    r2: float | UnsetType = UNSET
    mae: float | UnsetType = UNSET
    rmse: float | UnsetType = UNSET
    # Share of labels in their answers' intervals; None without intervals
    covered: float | UnsetType | None = UNSET
    # `p50_ms` and `p99_ms`: median and 99th percentile of milliseconds from asking to
    # the answer, by the caller's clock
    p50_ms: float
    p99_ms: float
    # `unanswered` and `error`: number of missing answers, and the text of the first
    # error
    unanswered: int
    error: str | None


class Bought(msgspec.Struct):
    """A feature set, and the share of answers that came from it."""

    features: tuple[str, ...]
    share: float


class BudgetResult(Result, kw_only=True):
    """The index's result within one budget."""

    # `budget_ms` and `budget`: the budget in milliseconds, or in the unit of an index
    # that counts no time
    budget_ms: float | UnsetType = UNSET
    budget: float | UnsetType = UNSET
    # Milliseconds that the answers report as their budget, where they are fewer
    given_ms: float | UnsetType = UNSET
    # `expected_quality` and `expected_accuracy`: means of the answers' own
    # expectations; None without an answer
    expected_quality: float | None
    expected_accuracy: float | None
    # Share of answers inside the budget: by the caller's clock, or by the plan's cost
    # where no time is counted
    inside: float
    # Share of answers that are right and inside the budget
    right_inside: float | UnsetType = UNSET
    # For numbers, the quality where the prior's number replaces every answer outside
    # the budget
    quality_inside: float | UnsetType = UNSET
    early: float  # Share of answers that came before everything was computed
    plans: list[Bought]  # The commonest feature sets
    # Mean cost of the plans, in the unit of an index that counts no time
    mean_cost: float | UnsetType = UNSET

    @property
    def amount(self) -> float:
        """The budget, in milliseconds or the index's unit."""
        amount = self.budget if self.budget_ms is UNSET else self.budget_ms
        assert not isinstance(amount, UnsetType)
        return amount


class BaselineResult(Result, kw_only=True):
    """The result of a predictor that knows no budget; late answers do not count."""

    # Features computed for every item; None where unknown
    features: tuple[str, ...] | None
    # `inside`, `right_inside`, `quality_inside`: one entry per budget, as in
    # `BudgetResult`; None where the cost is unknown
    inside: list[float | None]
    right_inside: list[float | None] | UnsetType = UNSET
    quality_inside: list[float | None] | UnsetType = UNSET
    # As in `BudgetResult`; None where the cost is unknown
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
    """Numbers of answers for the items of each class."""

    amount: float
    labels: list[str]  # Classes of the items, one per row of the matrix
    # Classes answered, one per column of the matrix; None for a missing answer
    answers: list[str | None]
    matrix: list[list[int]]  # Numbers of answers, (labels, answers)
    pairs: list[Pair]  # Mistakes, the most frequent first


class Evaluation(msgspec.Struct, kw_only=True):
    """One run of `polydom evaluate`."""

    # `index` and `version`: file and version of the index
    index: str
    version: str
    url: str | None  # Address of the server that answered; None where this process did
    test: str
    items: int  # Number of different items asked for
    asked: int  # Number of trials: the items, times the repetitions
    complete: bool  # False where the run was interrupted
    # `unreadable` and `unlabelled`: numbers of items left out
    unreadable: int
    unlabelled: int
    # Number of items by label, for labels that the index does not know
    foreign: dict[str, int]
    unit: str  # The index's unit of cost, "s" for seconds
    # `task` and `measure`: the kind of the index's answers, and the measure of quality
    task: Task
    measure: str
    # For numbers, the share of labels that intervals are built to hold
    coverage: float | None
    budgets: list[BudgetResult]  # Results of the index, one per budget
    beside: list[BaselineResult]  # Results of the other predictors
    # Confusion of the index within one of the budgets; None for numbers
    confusion: Confusion | None
