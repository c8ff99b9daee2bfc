"""PROJECT.toml: its tables and keys, read and checked."""

import math
import os
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Final, Literal, Self

import msgspec
from msgspec import UNSET, Meta, UnsetType

from polydom.features.errors import BadInput, BadProject
from polydom.features.items import SIZE_NAMES, Kind
from polydom.features.networks.terms import NetworkTerms
from polydom.features.readers.csv_file import check_form
from polydom.features.sizes import Size, read_size
from polydom.features.tables.dates import DateOrder
from polydom.features.tables.records import ColumnKind, Decimal
from polydom.features.wording import describe_decode_error, listed, nearest
from polydom.models.qwyc.promise import ALPHA, Sides

from ..index.quality import OF_NUMBERS, AlphaOf, Task
from .exits.exit_goal import ExitGoal

AtLeastOne = Annotated[float, Meta(ge=1)]
Share = Annotated[float, Meta(gt=0, lt=1)]
Positive = Annotated[int, Meta(ge=1)]
Above = Annotated[float, Meta(gt=0)]
# A tuple of tuples or floats would be exact, but msgspec 0.22 crashes on its type.
Bound = Above | list[Above]
Measure = Literal[
    "accuracy",
    "balanced_accuracy",
    "macro_f1",
    "auc",
    "average_precision",
    "log_loss",
    "cost",
    "precision_at",
    "recall_at",
    "f_beta",
    "r2",
    "mae",
]
# Measures of scores, not of the chosen class alone; and those for which exits, which
# keep classes but change scores, have to be asked for.
OF_SCORES = ("auc", "log_loss", "average_precision")
WITHOUT_EXITS = ("auc", "log_loss")
# Measures by which a threshold between two classes is chosen, and what `at` needs.
OF_THRESHOLDS: Final = {
    "precision_at": "recall",
    "recall_at": "precision",
    "f_beta": "",
}
# Measures of one class of two.
OF_POSITIVE = (*OF_THRESHOLDS, "average_precision", "cost")
CONFIDENCE = 0.95  # default confidence in the shares of answers that exits change
HELD_OUT = 0.25  # default share of the items
FOLDS = 5  # default number of folds if items are few
AUTO = "auto"  # name of a learner that stands for a race
# Progressive search: seconds at most, seconds at least, trainings on all features.
SEARCH_S, LEAST_SEARCH_S, SEARCH_TRAININGS = 120.0, 30.0, 3.0


class Part(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A table of PROJECT.toml; its fields are the table's keys."""


class Data(Part, frozen=True):
    """The source of the labelled items: exactly one of the first four keys.

    Attributes
    ----------
    images
        A folder with one sub-folder of image files for each class.
    table
        A CSV, Parquet or JSON Lines file, or a folder of Parquet files; each row is a
        record.
    texts
        A JSON Lines file, each line an object with the text and its label; or a folder
        with one sub-folder of text files for each class.
    items
        `module:function`: a function in a Python file beside the project file. It
        yields (item, label) or (item, label, group). An item is an image as bytes, a
        text as str, or a record as a mapping.
    labels
        A CSV or Parquet file with the labels of a folder's images or texts. Each item's
        file is named in the first column that has the name of a file in its first row;
        the columns of label, group, time and weight are passed over.
    test
        A second source of items, to measure accuracy on: anything that `images`,
        `table`, `texts` or `items` may name, or another file of labels if `labels` is
        given. All other items are trained on, except items set aside for exits.
    unlabelled
        A source of items without labels: a folder of images, a table with the same
        columns, a folder or JSON Lines file of texts, or `module:function` that yields
        items. Early exits need no labels: they are fitted and calibrated on these items
        in addition to those set aside, so that exits may be promised where labelled
        items are too few. Nothing else uses these items. Their groups, in the column or
        key of `group`, are taken to be other groups than those of labelled items.
    split
        "random" draws the test items at random, in whole groups and with about equal
        shares of classes. "time" tests on the newest items, of which the very newest
        are set aside for exits.
    weight
        Column (or key) with the weight of each item, above 0. Learners are fitted with
        these weights, and accuracy is measured with them. Exits do not use weights:
        `exits.alpha` is a share of the number of items. With weights, `learner =
        "auto"` races only learners that accept them.
    label
        Column (or key) of the label.
    text
        Key of the text.
    group
        Column (or key) of the group. Items of one group, such as images of one patient,
        are never divided between training and testing.
    time
        Column (or key) of the time, for `split = "time"`: a number, or a date in ISO
        8601. A group is as new as its newest item.
    ignore
        Columns of a table that are not features.
    separator
        Character between the cells of a CSV file, such as ";", if the build finds the
        wrong one.
    encoding
        Character encoding of a CSV file or of texts, such as "latin-1", if the build
        finds the wrong one.
    missing
        Words for an empty cell of a table, such as `["unknown", "-1"]`. In columns of
        numbers and dates, common words such as `NA` always mean an empty cell.
    decimal
        Decimal mark, "." or ",", if numbers such as `1,234` are ambiguous.
    date_order
        Order of month and day, "MDY" or "DMY", if all dates of a column are ambiguous,
        such as `01/02/2024`.
    on_bad_item
        "skip" leaves unusable items out, and reports their number and the reasons;
        "stop" stops the build.
    on_rare_class
        What to do with rare classes, which have too few independent items: "stop" names
        them and stops the build, "skip" leaves their items out, "merge" makes them one
        class named "other", and "train" trains on their items but never tests on them.
    rare_below
        Minimum number of independent items of a class that is not rare. The default is
        the number needed to divide the class for training and testing.
    """

    images: str | None = None
    table: str | None = None
    texts: str | None = None
    items: str | None = None
    labels: str | None = None
    test: str | None = None
    unlabelled: str | None = None
    split: Literal["random", "time"] = "random"
    label: str = "label"
    text: str = "text"
    group: str | None = None
    time: str | None = None
    weight: str | None = None
    ignore: list[str] = []
    separator: str | None = None
    encoding: str | None = None
    missing: list[str] = []
    decimal: Decimal | None = None
    date_order: DateOrder | None = None
    on_bad_item: Literal["skip", "stop"] = "skip"
    on_rare_class: Literal["stop", "skip", "merge", "train"] = "stop"
    rare_below: Positive | None = None

    @property
    def divided(self) -> bool:
        """True if the build draws the test items at random."""
        return self.test is None and self.split == "random"

    @property
    def sources(self) -> list[str]:
        """Names of the source of all items, and of `test` if it is given."""
        (first,) = self.given
        return [self.labels or first, *([self.test] if self.test else [])]

    @property
    def given(self) -> list[str]:
        """Names of the sources of all items; a project needs exactly one."""
        named = self.images, self.table, self.texts, self.items
        return [name for name in named if name is not None]

    @property
    def treats_rare(self) -> bool:
        """True if a key says what to do with rare classes."""
        return self.on_rare_class != "stop" or self.rare_below is not None


class Columns(Part, frozen=True):
    """A group of a record's columns as one feature, with the cost of the columns.

    Attributes
    ----------
    name
        Name of the feature.
    columns
        Names of the columns in the group.
    cost
        Cost of obtaining all columns of the group, by unit, such as `{ usd = 25.92 }`
        or `{ s = 0.004 }`. By default the group costs the measured seconds of reading
        it. A unit other than seconds needs a weight in `[costs]`.
    kind
        Kind of the columns, if the guess that `polydom check` shows is wrong: "number",
        "word", "date" or "text". For "text", features are computed from the columns'
        texts, and the group itself is no feature.
    missing
        Words for an empty cell of these columns, in addition to those of `[data]`.
    date_order
        Order of month and day in dates of these columns: "MDY" or "DMY".
    """

    name: str
    columns: Annotated[list[str], Meta(min_length=1)]
    cost: dict[str, Annotated[float, Meta(ge=0)]] = {}
    kind: ColumnKind | None = None
    missing: list[str] = []
    date_order: DateOrder | None = None


class Features(Part, frozen=True):
    """The features to choose from; by default all columns of a table.

    Attributes
    ----------
    use
        Names of ready-made and learned features. If no feature of `files` is named, all
        of them are used. A feature of texts on a table's column of free text is named
        `COLUMN: FEATURE`, such as `note: learned_words`.
    files
        Python files with the user's own features, beside the project file.
    columns
        Groups of a table's columns.
    others
        If true, each column outside all groups is a feature of its own.
    networks
        Neural networks whose pieces are features.
    """

    use: list[str] = []
    files: list[str] = []
    columns: list[Columns] = []
    others: bool = False
    networks: list[NetworkTerms] = []


class Quality(Part, frozen=True):
    """The metric of a model's answers, and weights of classes for fitting.

    Attributes
    ----------
    measure
        Metric. For classes: "accuracy", the default unless one of two classes has less
        than a tenth of the items; "average_precision", then the default: the mean
        precision over the items of the class `positive` (with more than two classes,
        the mean over the classes); "balanced_accuracy", the mean of the classes' shares
        of right answers; "macro_f1", the mean F1 of the classes; "auc", the area under
        the ROC curve (with more than two classes, the mean area of each class against
        the rest); "log_loss", whose quality exp(-loss) is the geometric mean of the
        probabilities given to the right classes; "cost", by the costs of wrong answers;
        or, for two classes, "precision_at", "recall_at" or "f_beta" of the class
        `positive`. The last three, and "cost" for two classes, choose a threshold: for
        each candidate, the score from which the answer is that class, by the items that
        quality is measured on. For numbers: "r2" (the default), 1 minus the ratio of
        the model's squared error to the error of always answering the mean label; or
        "mae", the same with absolute errors and the median label.
    costs
        For "cost": costs of answers, by the right class and then by the answer, such as
        `{ spam = { ham = 1 }, ham = { spam = 10 } }`. A wrong answer without an entry
        costs 1, a right answer 0.
    at
        For "precision_at": `{ recall = 0.8 }`, the recall that answers must have. For
        "recall_at": `{ precision = 0.9 }`. Fresh items reach it in the mean, or with
        the `confidence` that the same table may name, such as `{ recall = 0.8,
        confidence = 0.95 }`.
    beta
        For "f_beta": weight of recall against precision; 1 makes F1.
    positive
        Class that the measures of two classes are about; by default the rarer one.
    class_weights
        Weights of the classes for fitting a learner, not for testing: "equal",
        "balanced" (equal total weight for each class), or a table of weights by class.
        The default is "balanced" for "balanced_accuracy". For "cost" with more than two
        classes, the default weight of a class is the mean cost of answering it wrong.
        Otherwise, and for learners that accept no weights, it is "equal". Scores are of
        the classes' shares in the data, whatever the weights.
    coverage
        For numbers: share of fresh items whose label lies in the answer's interval.
    """

    measure: Measure | None = None
    costs: dict[str, dict[str, Annotated[float, Meta(ge=0)]]] = {}
    at: dict[str, Annotated[float, Meta(ge=0, le=1)]] = {}
    beta: Above = 1.0
    positive: str | None = None
    class_weights: Literal["equal", "balanced"] | dict[str, Above] | None = None
    coverage: Share = 0.9

    @property
    def cuts(self) -> bool:
        """True if a threshold decides where there are two classes."""
        return self.measure == "cost" or self.measure in OF_THRESHOLDS

    @property
    def least(self) -> float:
        """Recall or precision that answers must have; 0 if `at` names none."""
        return self.at.get(OF_THRESHOLDS.get(self.measure or "", ""), 0.0)

    @property
    def sure(self) -> float:
        """Confidence that fresh items reach `least`; 0 if they do in the mean."""
        return self.at.get("confidence", 0.0)

    def check(self) -> None:
        """Raise BadProject for keys that do not fit the measure."""
        measure = self.measure or ""
        if (self.measure == "cost") != bool(self.costs):
            given, needed = ("costs", "measure = 'cost'")
            if not self.costs:
                given, needed = needed, "costs, by class and answer"
            raise BadProject(f"[quality] {given} needs {needed}")
        needed = OF_THRESHOLDS.get(measure, "")
        if not needed and self.at:
            raise BadProject(
                "[quality] at is for measure = 'precision_at' or 'recall_at', not "
                f"{self.measure!r}"
            )
        if needed and not self.at.keys() >= {needed}:
            raise BadProject(
                f"[quality] measure = {measure!r} needs at = {{ {needed} = ... }}"
            )
        for key in self.at.keys() - {needed, "confidence"}:
            raise BadProject(
                f"[quality] at: unknown key {key!r}; {needed!r} and 'confidence' are "
                f"for {measure!r}"
            )
        if needed and not 0 < self.least < 1:
            raise BadProject(
                f"[quality] at: {needed} is {self.least:g}; it must be between 0 and 1"
            )
        if needed and not self.sure < 1:
            raise BadProject("[quality] at: confidence is 1; it must be below 1")
        if self.positive is not None and measure not in OF_POSITIVE:
            raise BadProject(
                f"[quality] positive is for a measure of {listed([*OF_POSITIVE])}"
            )
        if self.beta != 1.0 and measure != "f_beta":
            raise BadProject("[quality] beta is for measure = 'f_beta'")

    def measure_of(self, task: Task) -> str:
        """Return the name of the metric; by default it depends on the task."""
        if self.measure is None:
            return "accuracy" if task == "classes" else "r2"
        if (self.measure in OF_NUMBERS) != (task == "regression"):
            labels, known = "classes", "'accuracy' and others"
            if task == "regression":
                labels, known = "numbers", "'r2' and 'mae'"
            raise BadProject(
                f"[quality] measure is {self.measure!r}, and the labels are {labels}, "
                f"for which there are {known}"
            )
        return self.measure


class Search(Part, frozen=True):
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
    alpha: AtLeastOne | None = None
    alpha_of: AlphaOf = "gain"
    tolerance: Annotated[float, Meta(ge=0, le=1)] | None = None
    sizes: list[Bound] | None = None
    budgets: list[Above] | UnsetType = UNSET  # unlike None not written into an index
    held_out: Share | None = None
    folds: Annotated[int, Meta(ge=2)] | None = None
    covering: bool = False
    refit: bool = True
    trainings: Annotated[int, Meta(ge=2)] | None = None
    negligible_us: Annotated[float, Meta(ge=0)] = 50.0
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


class Costs(Part, frozen=True):
    """The parts of a plan's cost, and how they are measured.

    Attributes
    ----------
    quantile
        Share of the measured times that the cost curve has to cover.
    items
        Number of items to time.
    repeats
        Minimum number of measurements of each item.
    weights
        Number of budget units that one unit of each cost is worth. By default only
        measured seconds count; `{ usd = 1.0 }` counts the dollars that columns declare,
        and no time.
    size
        Size of an item, on which costs depend: "pixels" or ["width", "height"] of an
        image, "characters" or ["words", "sentences"] of a text. The default is the size
        of one number.
    measured
        "here" measures times in the build's process. "later" leaves this to `polydom
        measure` on a machine like the server; the build stops when it needs times that
        are missing.
    """

    quantile: Share = 0.99
    items: Positive = 48
    repeats: Positive = 5
    weights: dict[str, Annotated[float, Meta(ge=0)]] = msgspec.field(
        default_factory=lambda: {"s": 1.0}
    )
    size: str | list[str] | None = None
    measured: Literal["here", "later"] = "here"

    @property
    def pair(self) -> bool:
        """True if an item's size has two numbers, such as width and height."""
        return isinstance(self.size, list)

    def check_size(self, kind: Kind | None = None) -> None:
        """Raise BadProject if items of this kind cannot have this `size`.

        If `kind` is None, items of some kind must have it.
        """
        kinds = SIZE_NAMES if kind is None else [kind]
        known = [names for one in kinds for names in SIZE_NAMES[one]]
        own = [self.size] if isinstance(self.size, str) else self.size
        if own is None or tuple(own) in known:
            return
        names = [repr(one[0] if len(one) == 1 else list(one)) for one in known]
        needed = f"one of {', '.join(names)} is needed"
        if kind is not None:
            needed = f"{' or '.join(names)} is what there is of a {kind}"
        raise BadProject(f"costs.size is {self.size!r}; {needed}")


class Cluster(Part, frozen=True):
    """Processes that carry out the calls of a build, here or on other machines.

    Attributes
    ----------
    on
        `dask://HOST:PORT`, `ray://auto`, `ray://HOST:PORT`, or `local:8` for 8
        processes on this machine. The default is this machine, with the project's
        `workers`.
    shared
        A folder that every worker sees under this path. The build keeps finished work
        and the workers' input there. Without a shared folder, each call carries its
        input, at most 16 MB.
    """

    on: str | None = None
    shared: str | None = None


class ExitTerms(Part, frozen=True):
    """Early answers of plans: after fewer features, or after fewer base models (QWYC).

    `exits = "off"` in place of the table turns early answers off.

    Attributes
    ----------
    alpha
        Share of each class's answers that may differ from the whole plan's answers;
        0.005 by default. It is a share of the items that the whole plan answers with
        this class, so that a rare class is as safe as others. Either one number, or a
        table by class, such as `{ fraud = 0.0, "*" = 0.01 }`, where `"*"` stands for
        all classes that are not named (0.005 by default). Exits are fitted on the
        held-out items. With `search.folds`, there are exits only if `alpha` is given.
        They are then fitted on all items, each answered by a model that was trained on
        the other folds.
    confidence
        Confidence that alpha holds for fresh items, for all classes together; 0.95 by
        default. Exits are calibrated on half of the held-out items, drawn in whole
        groups, which no other part of the build sees. A class with too few of these
        items, or of alpha 0, is never left early: no exit answers another class where
        the whole plan could answer this one. If the items of every class are too few,
        there are no exits, and the build reports how many items it needs. If
        `confidence` is 0, or with `search.folds`, alpha holds only for the items that
        exits are fitted on.
    sides
        For two classes, which of them may be answered early: "both", or "negative",
        the class that comes first in alphabetical order, so that all items of the other
        class are computed to the end (QWYC's filter-and-score), or "positive", the
        class that comes second.
    """

    alpha: (
        Annotated[float, Meta(ge=0, lt=1)]
        | dict[str, Annotated[float, Meta(ge=0, lt=1)]]
        | UnsetType
        | None
    ) = UNSET
    confidence: Annotated[float, Meta(ge=0, lt=1)] | UnsetType = UNSET
    sides: Sides = "both"


class Project(Part, frozen=True):
    """A whole PROJECT.toml, checked.

    Attributes
    ----------
    task
        Kind of the answers: "classes" for one of a few classes, or "regression" for
        numbers. By default the labels decide: it is "regression" if they are numbers
        with more than 20 distinct values, and a value is a fraction or rare.
    seed
        Seed of all random draws: the same seed, data and times give the same file.
    workers
        Number of processes for computing features and training; by default one for each
        core.
    data
        The source of the labelled items.
    features
        The features to choose from.
    learner
        The learner of all models: its name and the estimator's parameters. The default
        "auto" compares all learners. `tune_s` is the number of seconds to tune the
        parameters that are not given; it counts as `[search] budget_s` does.
    quality
        The metric of a model's answers.
    search
        The feature sets to train, and the items to measure their quality on.
    costs
        The parts of a plan's cost, and how they are measured.
    exits
        Early answers of plans.
    cluster
        Processes that carry out the calls of a build.
    folder
        Folder that relative paths start from: that of the project file, if any.
    """

    task: Task | None = None
    data: Data = Data()
    features: Features = Features()
    learner: dict[str, Any] = msgspec.field(default_factory=lambda: {"name": AUTO})
    quality: Quality = Quality()
    search: Search = Search()
    costs: Costs = Costs()
    exits: ExitTerms = ExitTerms()
    seed: Annotated[int, Meta(ge=0, lt=2**32)] = 0
    workers: Positive | None = None
    cluster: Cluster = Cluster()
    folder: str = "."

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Read and check the project file at `path`.

        Raises
        ------
        BadProject
            If the file cannot be read, a key is unknown (the message has the nearest
            known key), or a value is outside its range.
        """
        place = os.fspath(path)
        try:
            with open(path, "rb") as file:
                content = tomllib.load(file)
            project = cls.from_mapping(content, folder=Path(path).resolve().parent)
            project.check_source()
            return project
        except OSError as error:
            cure = "; a project file is needed: `polydom init` writes one"
            raise BadProject(f"{place}: {error.strerror}{cure}") from error
        except UnicodeDecodeError as error:
            said = describe_decode_error(error)
            raise BadProject(f"{place}: {said}; a project file is needed") from error
        except tomllib.TOMLDecodeError as error:
            raise BadProject(f"{place}: no valid TOML: {error}") from error
        except BadProject as error:
            raise BadProject(f"{place}: {error}") from error

    @classmethod
    def from_mapping(
        cls, content: Mapping[str, Any], *, folder: str | os.PathLike[str] = "."
    ) -> Self:
        """Make a project from the content of a PROJECT.toml, given as a mapping.

        Raises BadProject as `load` does.
        """
        _refuse_unknown(content, cls, "")
        if isinstance(content.get("learner"), str):
            content = {**content, "learner": {"name": content["learner"]}}
        if content.get("exits") == "off":
            content = {**content, "exits": {"alpha": None}}
        try:
            project = msgspec.convert(
                {**content, "folder": os.fspath(folder)}, cls, strict=True
            )
        except msgspec.ValidationError as error:
            said = describe_decode_error(error, cls).replace("object", "table")
            raise BadProject(said) from error
        project._check()
        _refuse_unused(content.get("search", {}), project.search.method)
        return project

    def path(self, name: str) -> Path:
        """Return the path of the file or folder `name` in the project's folder."""
        return Path(self.folder, name)

    @property
    def wanted(self) -> Task | None:
        """Task that the project's keys name or imply; None if the labels decide."""
        quality, data = self.quality, self.data
        if self.task is not None:
            return self.task
        if quality.measure in OF_NUMBERS:
            return "regression"
        of_classes = quality.measure is not None or quality.class_weights is not None
        return "classes" if of_classes or data.treats_rare else None

    @property
    def feature_files(self) -> list[Path]:
        """Files that define the user's own features."""
        return [self.path(name) for name in self.features.files]

    @property
    def data_places(self) -> list[Path]:
        """Files and folders from which workers read items when they are accessed."""
        data = self.data
        tests = data.test if data.labels is None else None
        names = data.images or data.texts, tests, data.unlabelled
        if data.table is not None or data.items is not None:
            return []
        return [self.path(name) for name in names if name is not None]

    @property
    def setting(self) -> dict[str, Any]:
        """The learner's name and parameters, without `tune_s`."""
        return {key: value for key, value in self.learner.items() if key != "tune_s"}

    @property
    def tune_s(self) -> float | None:
        """Seconds to tune the learner's settings; None to leave them as they are."""
        return float(self.learner["tune_s"]) if "tune_s" in self.learner else None

    @property
    def training_limit_s(self) -> float | None:
        """Maximum seconds of one training in a race of learners; None without limit."""
        limited = self.learner["name"] == AUTO and "limit_s" in self.learner
        return float(self.learner["limit_s"]) if limited else None

    @property
    def exit_goal(self) -> ExitGoal | None:
        """The goal of early exits; None if plans get no exits.

        Exits keep the class of an answer but not its scores. So by default there are no
        exits if the metric depends on scores.
        """
        alpha, confidence = self.exits.alpha, self.exits.confidence
        folds = self._calibrates_none
        unasked = folds or self.quality.measure in WITHOUT_EXITS
        if alpha is None or (alpha is UNSET and unasked):
            return None
        if alpha is UNSET:
            alpha = ALPHA
        if confidence is UNSET:
            confidence = 0.0 if folds else CONFIDENCE
        return ExitGoal(alpha, confidence or None, self.exits.sides)

    @property
    def _calibrates_none(self) -> bool:
        """True if folds use all items, so that none are left to calibrate exits on."""
        return self.search.folds is not None and self.data.unlabelled is None

    def of_numbers(self) -> Self:
        """Return this project for regression, without early exits.

        Raises BadProject for keys that are only for classes.
        """
        alpha = self.exits.alpha
        if alpha is not UNSET and alpha is not None:
            raise BadProject(
                "exits.alpha is the share of classes that may change; the labels are "
                "numbers, for which there are no exits"
            )
        if self.data.unlabelled is not None:
            raise BadProject(
                "[data] unlabelled is for early exits; the labels are numbers, for "
                "which there are no exits"
            )
        project = msgspec.structs.replace(
            self, task="regression", exits=ExitTerms(alpha=None)
        )
        project._check()
        return project

    @property
    def trains_rare(self) -> bool:
        """True if items of rare classes are trained on and never tested on."""
        return self.data.on_rare_class == "train"

    @property
    def refits(self) -> bool:
        """True if the models of the index are trained again on all items.

        Models are not trained again if the project names test items, or if early exits
        without a confidence are fitted on the held-out items.
        """
        if self.search.folds is not None:
            return True
        goal = self.exit_goal
        unseen = goal is not None and goal.confidence is None
        own = self.data.test is not None
        return self.search.refit and not (own or unseen)

    @property
    def divides_as_fits(self) -> bool:
        """True if the build may use cross-validation when the items are few."""
        search, exits = self.search, self.exits
        named = search.held_out is not None or search.folds is not None
        exiting = exits.confidence is not UNSET or isinstance(exits.alpha, float | dict)
        exiting = exiting and self.data.unlabelled is None
        # with folds, models are always trained again on all items
        return self.data.divided and search.refit and not (named or exiting)

    def in_folds(self) -> Self:
        """Return this project with cross-validation in five folds."""
        search = msgspec.structs.replace(self.search, folds=FOLDS)
        return msgspec.structs.replace(self, search=search)

    def _check(self) -> None:
        """Raise BadProject for values of the right type that are not valid."""
        self._check_data()
        self._check_learner()
        self.costs.check_size()
        self.search.check(self.costs.pair)
        self._check_exits()
        self._check_weights()
        if self.wanted is not None:
            self.quality.measure_of(self.wanted)
        self.quality.check()
        if self.wanted == "regression" and self.quality.class_weights is not None:
            raise BadProject("[quality] class_weights is for classes, not for numbers")
        if self.wanted == "regression" and self.data.treats_rare:
            raise BadProject("[data] on_rare_class is for classes; labels are numbers")

    def _check_data(self) -> None:
        data = self.data
        if len(data.given) > 1:
            self.check_source()
        if data.labels is not None and data.images is None and data.texts is None:
            raise BadProject("[data] labels is for a folder of images or texts")
        self._check_split()
        try:
            check_form(data.separator, data.encoding)
        except BadInput as error:
            raise BadProject(f"[data] {error}") from error

    def check_source(self, *, given: bool = False) -> None:
        """Raise BadProject unless there is exactly one source of items.

        The source is either a data set passed to the build, if `given` is true, or a
        key of the section `[data]`.
        """
        if given and self.data.given:
            raise BadProject("[data] says where items are, and a data set came, too")
        if not given and len(self.data.given) != 1:
            raise BadProject("[data] needs exactly one of images, table, texts, items")

    def _check_split(self) -> None:
        data = self.data
        if (data.split == "time") != (data.time is not None):
            given, lacking = ("time", "split = 'time'")
            if data.time is None:
                given, lacking = ("split = 'time'", "time, the column with the time")
            raise BadProject(f"[data] {given} needs {lacking}")
        if data.items is not None and data.split == "time":
            raise BadProject("[data] items yields no times; split = 'time' needs some")
        if data.items is not None and data.weight is not None:
            raise BadProject("[data] items yields no weights; weight names some")
        fixed = "test" if data.test is not None else "split = 'time'"
        if data.split == "time" and data.test is not None:
            raise BadProject("[data] test and split = 'time' both say what to test on")
        if not data.divided and self.search.folds is not None:
            raise BadProject(
                f"search.folds tests on all items in turn; [data] {fixed} says on which"
            )

    def _check_learner(self) -> None:
        learner = self.learner
        name = learner.get("name")
        if not isinstance(name, str):
            raise BadProject("[learner] needs a name, such as name = 'logistic'")
        if name == AUTO and set(learner) - {"name", "limit_s", "tune_s"}:
            raise BadProject(
                "[learner] name = 'auto' takes no keys but limit_s and tune_s"
            )
        for key in ("tune_s", "limit_s") if name == AUTO else ("tune_s",):
            value = learner.get(key, 1)
            number = isinstance(value, int | float) and not isinstance(value, bool)
            if not (number and 0 < value < math.inf):
                raise BadProject(
                    f"[learner] {key} is {value!r}; it must be seconds above 0"
                )

    def _check_exits(self) -> None:
        confidence = self.exits.confidence
        if self._calibrates_none and confidence is not UNSET and confidence:
            raise BadProject(
                "exits.confidence is for held-out items, and search.folds holds out "
                "none; [data] unlabelled names items without labels for that"
            )
        goal = self.exit_goal
        if self.data.unlabelled is not None and goal is None:
            raise BadProject(
                "[data] unlabelled is for early exits, and there are none: exits are "
                "off, or quality.measure depends on scores, which exits do not keep "
                "unless exits.alpha is set"
            )
        if goal is not None and goal.confidence is not None and not goal.changes_any:
            raise BadProject(
                "exits.alpha is 0: that early answers change none of all is what no "
                "number of items can show; it must be above 0, or exits.confidence 0, "
                "and then nothing is promised"
            )

    def _check_weights(self) -> None:
        if not any(self.costs.weights.values()):
            raise BadProject("costs.weights counts nothing: one must be above 0")
        for group in self.features.columns:
            for unit in group.cost:
                if unit != "s" and unit not in self.costs.weights:
                    raise BadProject(
                        f"features.columns {group.name!r} costs {unit!r}, for which "
                        "costs.weights has no weight"
                    )


def parts_of(held_out: float) -> int:
    """Return the number of equal parts to divide items into, if one part is held out.

    A part has about the share `held_out` of the items. There are at least two parts.
    """
    return max(2, round(1 / held_out))


# Keys of older projects, and what to write now.
REMOVED = {
    "cluster.retries": "a call whose worker is lost is tried again twice",
    "cluster.in_flight": "each core has one call under way and one that waits",
    "cluster.call_s": "calls that do many things in one take about a second",
    "cluster.wait_s": "a build waits 10 s for workers",
    "cluster.memory_gb": "`RayExecutor(memory=...)`, given to `build`, asks for it",
}
POLY_DOM_ONLY = (
    *("alpha", "alpha_of", "budgets", "tolerance", "covering", "trainings"),
    "budget_s",
)


def _refuse_unused(search: Mapping[str, Any], method: str) -> None:
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


def _refuse_unknown(content: Any, part: type[Part], where: str) -> None:
    """Raise BadProject for the first unknown key, and name the nearest known key."""
    if not isinstance(content, Mapping):
        return
    fields = {field.name: field.type for field in msgspec.structs.fields(part)}
    fields.pop("folder", None)
    for key, value in content.items():
        place = where + str(key)
        if why := REMOVED.get(place):
            raise BadProject(f"key {place!r} was removed: {why}; take it out")
        if key not in fields:
            near = nearest(str(key), fields, 0.4)
            known = f"did you mean {near!r}?" if near else f"known: {', '.join(fields)}"
            for name, own in fields.items():
                if isinstance(own, type) and key in getattr(
                    own, "__struct_fields__", ()
                ):
                    known = f"it belongs in [{name}]"
            raise BadProject(f"unknown key {place!r}; {known}")
        inner = fields[key]
        if isinstance(inner, type) and issubclass(inner, Part):
            _refuse_unknown(value, inner, f"{where}{key}.")
        elif inner == list[Columns] and isinstance(value, list):
            for one in value:
                _refuse_unknown(one, Columns, f"{where}{key}.")
