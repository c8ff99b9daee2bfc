"""The results of `polydom evaluate`, with the fields that `--json` prints."""

import msgspec
from msgspec import UNSET, UnsetType

from ..schema.facts import Task


class ClassRates(msgspec.Struct):
    """How one class is found; each number is None if it is undefined.

    They are as in `models.measures`: `precision` is the share of the answers of this
    class that are right, `recall` the share of the class's items that get it.
    """

    label: str
    precision: float | None
    recall: float | None
    f1: float | None


class ReliabilityBin(msgspec.Struct):
    """Answers of similar probability: how many, what it says, and what is found.

    With two classes, the probability is the second class's, otherwise the largest one.
    """

    count: int
    said: float
    found: float


class CurvePoint(msgspec.Struct):
    """Precision and recall of a class that is chosen from a score on."""

    threshold: float
    precision: float
    recall: float


class Result(msgspec.Struct, kw_only=True):
    """One predictor's metrics on all items.

    Metrics of numbers are unset if answers are classes, and metrics of classes are
    unset if answers are numbers.
    """

    name: str
    # Quality by the index's own measure; None if the answers lack the scores that it
    # needs
    quality: float | None
    # Standard error of the quality; None for a single item, or if the quality is
    # undefined without some of the items
    quality_error: float | None
    # Standard error of the accuracy or, for numbers, of the mean absolute error; None
    # for a single item
    standard_error: float | None
    # Share of right answers; a missing answer counts as wrong
    accuracy: float | UnsetType = UNSET
    # `balanced_accuracy`, `macro_f1`, `auc`, `average_precision`, `log_loss`: as in
    # `models.measures`. The last three are None if an answer came without scores, or if
    # they are undefined; log loss also if scores are not probabilities.
    # Average precision of two classes is that of the positive one.
    balanced_accuracy: float | UnsetType = UNSET
    macro_f1: float | UnsetType = UNSET
    auc: float | UnsetType | None = UNSET
    average_precision: float | UnsetType | None = UNSET
    log_loss: float | UnsetType | None = UNSET
    # `brier`, `calibration_error`: as in `models.measures`; None like the log loss
    brier: float | UnsetType | None = UNSET
    calibration_error: float | UnsetType | None = UNSET
    classes: list[ClassRates] | UnsetType = UNSET  # Of the index's classes
    # Empty if scores are no probabilities
    reliability: list[ReliabilityBin] | UnsetType = UNSET
    # Curve of the positive one of two classes, the highest threshold first, at most
    # `CURVE` points; empty without scores
    precision_recall: list[CurvePoint] | UnsetType = UNSET
    # `r2`, `mae`, `rmse`: only for numbers, as in `models.measures`; for a missing
    # answer, the prior's number counts. `rmse` is the root of the mean squared error.
    r2: float | UnsetType = UNSET
    mae: float | UnsetType = UNSET
    rmse: float | UnsetType = UNSET
    # Share of labels inside their answers' intervals; None without intervals
    covered: float | UnsetType | None = UNSET
    # Median and 99th percentile of the milliseconds from the question to the answer, by
    # the caller's clock
    p50_ms: float
    p99_ms: float
    # Number of missing answers, and the first error's message
    unanswered: int
    error: str | None


class Bought(msgspec.Struct):
    """A feature set, and the share of answers that used it."""

    features: tuple[str, ...]
    share: float


class FetchResult(msgspec.Struct):
    """How often one fetch was sent, and how often it came, as shares of answers."""

    name: str
    sent: float
    came: float  # In time; or an earlier call had brought the values


class BudgetResult(Result, kw_only=True):
    """The metrics of the index within one budget."""

    # The budget in milliseconds, or in the index's unit if that is not time
    budget_ms: float | UnsetType = UNSET
    budget: float | UnsetType = UNSET
    # Milliseconds that the answers report as their budget, if that is less than
    # `budget_ms`
    given_ms: float | UnsetType = UNSET
    # Means of the expectations that the answers state; None without an answer
    expected_quality: float | None
    expected_accuracy: float | None
    # Share of answers inside the budget: by the caller's clock or, if the index's unit
    # is not time, by the plan's cost
    inside: float
    # For classes: share of answers that are right and inside the budget
    right_inside: float | UnsetType = UNSET
    # For numbers: the quality if the prior's number replaces every answer outside the
    # budget
    quality_inside: float | UnsetType = UNSET
    early: float  # Share of answers by an early exit
    plans: list[Bought]  # The most frequent feature sets
    # Mean cost of the plans in the index's unit; unset if that is time
    mean_cost: float | UnsetType = UNSET
    # `fetches`, `mean_price` and `mean_wait_ms`: of an index with fetches, if answers
    # say what was fetched. Price of what was sent, and milliseconds of waiting for it.
    fetches: list[FetchResult] | UnsetType = UNSET
    mean_price: float | UnsetType = UNSET
    mean_wait_ms: float | UnsetType = UNSET

    @property
    def amount(self) -> float:
        """The budget in milliseconds, or in the index's unit."""
        amount = self.budget if self.budget_ms is UNSET else self.budget_ms
        assert not isinstance(amount, UnsetType)
        return amount


class BaselineResult(Result, kw_only=True):
    """The metrics of a predictor that has no budget.

    The lists `inside`, `right_inside` and `quality_inside` have one entry for each
    budget of the run. The entry is computed as if the predictor had this budget.
    """

    # Features computed for every item; None if they differ or are unknown
    features: tuple[str, ...] | None
    # `inside`, `right_inside`, `quality_inside`: as in `BudgetResult`, one entry per
    # budget; None if the cost is unknown
    inside: list[float | None]
    right_inside: list[float | None] | UnsetType = UNSET
    quality_inside: list[float | None] | UnsetType = UNSET
    # As in `BudgetResult`; None if the cost is unknown
    mean_cost: float | UnsetType | None = UNSET


class Pair(msgspec.Struct):
    """How many items of the class `label` got the same wrong answer, or no answer.

    `share` is `count` divided by the number of items of this class. `answer` is None
    for items without an answer.
    """

    label: str
    answer: str | None
    count: int
    share: float


class Confusion(msgspec.Struct):
    """A confusion matrix: counts of the answered classes for items of each class."""

    amount: float
    labels: list[str]  # Classes of the items, one per row of the matrix
    # Classes answered, one per column of the matrix; None stands for a missing answer
    answers: list[str | None]
    matrix: list[list[int]]  # Counts of answers, shape (labels, answers)
    pairs: list[Pair]  # Mistakes, the most frequent first


class Forecasts(msgspec.Struct):
    """How good the class scores of some answers are; measures as in `models.measures`.

    AUC is None if it is undefined. The others are None if scores are no probabilities.
    """

    auc: float | None
    log_loss: float | None
    brier: float | None
    calibration_error: float | None


class EarlyResult(msgspec.Struct):
    """The class scores of the answers that came early within the largest budget.

    `whole` is of answers to the same items with `exact=true`.
    """

    amount: float  # The budget
    items: int  # Number of early answers, each repetition counted
    early: Forecasts
    whole: Forecasts


class AnsweredGroup(msgspec.Struct, kw_only=True):
    """Recorded answers that have something in common, and how good they are."""

    name: str  # What they have in common: a version, a reason, or features
    answers: int
    share: float  # Share of all labelled answers
    # `quality`, `quality_error`, `accuracy` and `standard_error`: as in `Result`
    quality: float | None
    quality_error: float | None
    accuracy: float | UnsetType = UNSET
    standard_error: float | None
    # Mean of the expected qualities that the answers state
    expected_quality: float
    in_time: float  # Share of answers inside their budgets
    right_in_time: float | UnsetType = UNSET  # For classes: share right and in time
    # Quantiles of the milliseconds from a request's first byte to its answer
    p50_ms: float
    p99_ms: float


class AnsweredEvaluation(msgspec.Struct, kw_only=True):
    """How good the answers were that a server recorded, once labels are known."""

    record: str  # The folder of recorded answers
    labels: str  # The file of labels
    measure: str  # The measure of quality, as of the index
    task: Task
    recorded: int  # Number of recorded answers, with and without labels
    unmatched: int  # Number of labels without a recorded answer
    errors: dict[str, int]  # Number of recorded errors by code
    unreadable: int  # Number of lines that were cut off
    all: AnsweredGroup
    by_version: list[AnsweredGroup]
    # By the reason of answers, "" for none, and by their features
    by_reason: list[AnsweredGroup]
    by_plan: list[AnsweredGroup]


class Evaluation(msgspec.Struct, kw_only=True):
    """The results of one run of `polydom evaluate`."""

    # `index` and `version`: path and version of the index
    index: str
    version: str
    url: str | None  # Address of the server that answered; None if this process did
    test: str
    items: int  # Number of different items in the finished trials
    asked: int  # Number of trials: each item counts once per repetition
    complete: bool  # False if the run was interrupted
    # `unreadable` and `unlabelled`: numbers of items that were left out
    unreadable: int
    unlabelled: int
    # Number of items by label, for labels that the index does not know
    foreign: dict[str, int]
    unit: str  # The index's unit of cost, "s" for seconds
    # The kind of the index's answers, and the measure of quality
    task: Task
    measure: str
    # For numbers: share of labels that the intervals should contain
    coverage: float | None
    budgets: list[BudgetResult]  # Results of the index, one per budget
    beside: list[BaselineResult]  # Results of the other predictors
    # Confusion of the index within one of the budgets; None if answers are numbers
    confusion: Confusion | None
    # Scores of early answers; None if no answer came early, or all came without scores
    early: EarlyResult | None = None
    # True if the arrival times of fetches were drawn, and their columns came as late
    simulated_fetches: bool = False
