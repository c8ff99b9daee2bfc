"""What a server needs beside the look-up: features, models, and what each costs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polydom.features.costs.curve import CostTable
from polydom.features.errors import BadIndexFile
from polydom.features.extract import Extractor
from polydom.features.items import Kind
from polydom.features.ready_made.learned_text import TermWeights
from polydom.models.early_exit.early_exits import EarlyExit, MarginExit
from polydom.models.scoring.model import Model

from .quality import Task, task_of
from .stored_features import StoredFeature, load_extractor

Array = NDArray[Any]
Orders = tuple[tuple[int, ...], ...]  # of features, or of candidates, by candidate

MOST_COLUMNS = 2**24  # of a full row, which a server makes for every request
ROUNDING = 1e-9  # of sums, which may be added up in another order
MOST_BITS = 62  # features or steps, which kernels keep as bits of an int64
NEVER = float(np.finfo(np.float64).max)  # a margin in a file, where all is finite


@dataclass(frozen=True, slots=True, eq=False)
class Package:
    """Everything that turns a look-up's row into an answer; immutable.

    Row r of every per-candidate field belongs to row r of the index. The empty set
    is always one of the rows.

    Attributes
    ----------
    kind
        What the items are: "image", "text" or "record".
    labels
        Class names; models answer with positions in them. Empty where answers are
        numbers: then each model has the one class 0, whose score is the value.
    features
        The m features, in the order of the bits of `masks`.
    costs
        Cost curves of features and of the steps they share.
    masks : (C,) uint64
        Feature set of each candidate.
    orders
        Feature positions of each candidate's set in the order to compute them.
    fallbacks
        `fallbacks[r][k]` is the most accurate row whose set lies within the first k
        features of `orders[r]`, for k = 0 .. len(orders[r]).
    models
        The model of each candidate; it reads the full row of all features.
    model_s : (C,) float64
        Seconds that each model takes to answer, where it stops early if it may.
    overhead_s
        Seconds that every plan costs, whatever it computes.
    meta
        Plain data for people and for warming up: see docs/reference/file.md.
    margins
        `margins[r][k]`: the margin of its best class over the second beyond which the
        model of `fallbacks[r][k]` answers after k features, infinite where work always
        goes on. Empty in an index without exits.
    early_exits
        What follows the schedule of each candidate's model; None where it has none.
        Empty in an index without schedules.
    whole_s, mean_s : (C,) float64
        Seconds that evaluating each model whole takes, and that it takes on average
        where it stops early if it may; empty without schedules.
    ends
        `ends[r][k]`: share of the items that plan r answers after k features. Empty in
        an index without exits and schedules, and where that is not known.
    typical : (m + s,) float64
        Median share of its cost curve that each feature, then each step, takes, in
        (0, 1]; empty where it is not known.
    learned
        What the features learned that were, by name.
    measure
        What quality is here: a name of `quality.OF_CLASSES` or `quality.OF_NUMBERS`.
    accuracies : (C,) float64
        Expected accuracy of each candidate where quality is another measure of
        classes; else empty.
    intervals : (C, 2) float64
        Between which residuals, label less value, the label of an answer is expected;
        empty where answers are classes. `meta` says with what chance, its "coverage".
    """

    kind: Kind
    labels: tuple[str, ...]
    features: tuple[StoredFeature, ...]
    costs: CostTable
    masks: NDArray[np.uint64]
    orders: Orders
    fallbacks: Orders
    models: tuple[Model, ...]
    model_s: NDArray[np.float64]
    overhead_s: float
    meta: dict[str, Any]
    margins: tuple[tuple[float, ...], ...] = ()
    typical: NDArray[np.float64] = field(default_factory=lambda: np.empty(0))
    early_exits: tuple[EarlyExit | MarginExit | None, ...] = ()
    whole_s: NDArray[np.float64] = field(default_factory=lambda: np.empty(0))
    mean_s: NDArray[np.float64] = field(default_factory=lambda: np.empty(0))
    ends: tuple[tuple[float, ...], ...] = ()
    learned: Mapping[str, TermWeights] = field(default_factory=dict)
    measure: str = "accuracy"
    accuracies: NDArray[np.float64] = field(default_factory=lambda: np.empty(0))
    intervals: NDArray[np.float64] = field(default_factory=lambda: np.empty((0, 2)))

    @property
    def numeric(self) -> bool:
        """Whether answers are numbers, not classes."""
        return self.task == "regression"

    @property
    def task(self) -> Task:
        """What its answers are."""
        return task_of(self.measure)

    @property
    def coverage(self) -> float | None:
        """Share of labels in their answers' intervals; None where these are classes."""
        return float(self.meta["coverage"]) if self.numeric else None

    @property
    def confusion_costs(self) -> NDArray[np.float64] | None:
        """(K, K) what each answer costs by the right class; None where nothing does."""
        costs = self.meta.get("confusion_costs")
        if self.measure != "cost" or not costs:
            return None
        return np.array(costs, np.float64)

    @property
    def checked_s(self) -> NDArray[np.float64]:
        """(C,) seconds of each model evaluated whole, as at checkpoints."""
        return self.whole_s if len(self.whole_s) else self.model_s

    def names(self, row: int) -> tuple[str, ...]:
        """Return the names of the features in `row`'s set, in computing order."""
        return tuple(self.features[f].name for f in self.orders[row])

    def extractor(self, files: Sequence[Path] = ()) -> Extractor:
        """Find the code of every feature, and check it: see `load_extractor`.

        Raises
        ------
        BadIndexFile
            If the costs are those of features that need other steps.
        """
        extractor = load_extractor(self.features, files, self.learned)
        steps = len(extractor.steps), len(self.costs.step_coefficients)
        if extractor.needs != self.costs.needs or steps[0] != steps[1]:
            raise BadIndexFile("damaged: its features need other steps than it says")
        return extractor
