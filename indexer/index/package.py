"""The features, models and costs that a server needs in addition to the look-up."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polydom.features.costs.curve import CostTable
from polydom.features.errors import BadIndexFile
from polydom.features.extract import Extractor
from polydom.features.items import Kind
from polydom.features.networks.network import Network
from polydom.models.early_exit.early_exits import EarlyExit, MarginExit
from polydom.models.early_exit.model_part import ModelPart
from polydom.models.scoring.classifier import border_of
from polydom.models.scoring.model import Model
from polydom.models.scoring.prior import Prior

from .fetches.item_gains import ItemGains
from .fetches.stored_fetches import StoredFetch, fault_of_vectors
from .quality import Task, task_of
from .stored_features import Learned, StoredFeature, load_extractor

Orders = tuple[tuple[int, ...], ...]

MOST_COLUMNS = 2**24  # columns of a full row, which each request allocates
MOST_BITS = 62  # features or steps, which kernels keep as bits of an int64


@dataclass(frozen=True, slots=True, eq=False)
class Package:
    """The features, costs and models of an index's candidates; immutable.

    A package has C candidates (one for each row of the index, including the empty set),
    m features, and s steps that the features need. Some candidates have the features of
    another one, but answer with a part of its model: the first base models.
    """

    kind: Kind  # Kind of the items: "image", "text" or "record"
    # Class names; models answer with positions in this tuple. Empty if answers are
    # numbers: then each model has the one class 0, whose score is the value.
    labels: tuple[str, ...]
    # The m features, in the order of the bits of `masks`
    features: tuple[StoredFeature, ...]
    costs: CostTable  # Cost curves of features and of the steps that they share
    masks: NDArray[np.uint64]  # (C,) uint64: Feature set of each candidate
    orders: Orders  # Positions of each candidate's features, in the order of computing
    # `fallbacks[r][k]` is the best row whose set lies within the first k features of
    # `orders[r]`, for k = 0 .. len(orders[r]).
    fallbacks: Orders
    # Model of each candidate; models read the full row of all features
    models: tuple[Model, ...]
    # (C,) float64: Seconds of each model's answer, with early exits if it has some
    model_s: NDArray[np.float64]
    overhead_s: float  # Seconds of every plan, whatever features it computes
    # Plain data about the build, and samples for warming up (docs/reference/file.md).
    meta: dict[str, Any]
    # `margins[r][k]` is the margin between the two best classes beyond which the model
    # of `fallbacks[r][k]` answers after k features; infinite if work always goes on.
    # Empty in an index without exits.
    margins: tuple[tuple[float, ...], ...] = ()
    # (m + s,) float64: Median time of each feature, then of each step, as a share of
    # its cost curve, in (0, 1]; empty if it is not known
    typical: NDArray[np.float64] = field(default_factory=lambda: np.empty(0))
    # Evaluator of each model, None without a schedule; empty if no model has a
    # schedule. The part of a model has the evaluator of the whole model.
    early_exits: tuple[EarlyExit | MarginExit | None, ...] = ()
    # `whole_s` and `mean_s`: (C,) float64: Seconds of each model evaluated whole (of a
    # part: of the whole model), and mean seconds with early exits; empty in an index
    # without schedules
    whole_s: NDArray[np.float64] = field(default_factory=lambda: np.empty(0))
    mean_s: NDArray[np.float64] = field(default_factory=lambda: np.empty(0))
    # `ends[r][k]` is the share of the items that plan r answers after k features. Empty
    # in an index without exits and schedules, and if the share is not known.
    ends: tuple[tuple[float, ...], ...] = ()
    # What the build learned of features, by feature name
    learned: Learned = field(default_factory=dict)
    # Networks of which features are pieces
    networks: tuple[Network, ...] = ()
    # Name of the quality, from `quality.OF_CLASSES` or `quality.OF_NUMBERS`.
    measure: str = "accuracy"
    # (C,) float64: Expected accuracy of each candidate if quality is another measure
    # of classes; else empty
    accuracies: NDArray[np.float64] = field(default_factory=lambda: np.empty(0))
    # (C, 2) float64: Lowest and highest residual, label less value, that is expected of
    # an answer; empty if answers are classes. `meta["coverage"]` is the share of
    # residuals between the two.
    intervals: NDArray[np.float64] = field(default_factory=lambda: np.empty((0, 2)))
    # The U calls that bring columns of a record; () if requests bring all columns
    fetches: tuple[StoredFetch, ...] = ()
    # (M, U) float64: Joint draws of the fetches' arrival times, in seconds from
    # sending; infinite if a fetch never came
    arrivals: NDArray[np.float64] = field(default_factory=lambda: np.empty((0, 0)))
    # What items gain by the columns of fetches that have a price
    gains: ItemGains = field(default_factory=ItemGains.none)

    @property
    def numeric(self) -> bool:
        """True if answers are numbers, not classes."""
        return self.task == "regression"

    @property
    def task(self) -> Task:
        """Kind of the answers: "classes", or "regression" for numbers."""
        return task_of(self.measure)

    @property
    def positive(self) -> str | None:
        """The class of two that thresholds are about; None for other indexes.

        Older indexes do not name it; then it is the second.
        """
        if self.numeric or len(self.labels) != 2:
            return None
        return self.labels[1 if self.meta.get("positive", 1) else 0]

    def borders(self) -> tuple[float | None, ...]:
        """Return for each row the score of its second class from which it is chosen.

        It is None for a row that chooses the larger score.
        """
        return tuple(
            border_of(
                model.evaluator.classifier if isinstance(model, ModelPart) else model
            )
            for model in self.models
        )

    def thresholds(self) -> tuple[dict[str, float] | None, ...]:
        """Return each row's positive class and the score from which it is chosen.

        All rows have one as soon as one model does not choose the larger score: then
        the answers of an index have the same fields, whichever row answers.
        """
        borders, positive = self.borders(), self.positive
        if positive is None or set(borders) == {None}:
            return (None,) * len(borders)
        return tuple(
            {positive: self._threshold_of(model, border, positive)}
            for model, border in zip(self.models, borders, strict=True)
        )

    def _threshold_of(self, model: Model, border: float | None, positive: str) -> float:
        labels = [self.labels[code] for code in model.classes]
        if border is not None:
            return border if labels[1] == positive else 1.0 - border
        if not isinstance(model, Prior) or positive not in labels:
            return 0.5
        share = float(model.shares[labels.index(positive)])
        chosen = labels[model.choose(model.shares)] == positive
        if chosen == (share >= 0.5):
            return 0.5
        return share if chosen else 1.0

    @property
    def coverage(self) -> float | None:
        """Share of labels that intervals are expected to contain; None for classes."""
        return float(self.meta["coverage"]) if self.numeric else None

    @property
    def confusion_costs(self) -> NDArray[np.float64] | None:
        """Costs (K, K) by right class and answer; None unless the measure is "cost"."""
        costs = self.meta.get("confusion_costs")
        if self.measure != "cost" or not costs:
            return None
        return np.array(costs, np.float64)

    @property
    def checked_s(self) -> NDArray[np.float64]:
        """Seconds (C,) of evaluating each model to its end, as at checkpoints."""
        return self.whole_s if len(self.whole_s) else self.model_s

    @property
    def scores_early(self) -> bool:
        """True if answers by models that stop early have class scores.

        False in files of older versions with such models.
        """
        exits = (one for one in self.early_exits if one is not None)
        return all(one.lines is not None for one in exits)

    @property
    def waits(self) -> NDArray[np.float64]:
        """Share of its time that each feature, then each step, waits: (m + s,).

        A network or a disk makes it wait, not the processor. 0 if it is not known.
        """
        count = len(self.features) + len(self.costs.step_coefficients)
        curves = self.meta.get("curves") or [{}] * count
        return np.array([curve.get("waits", 0.0) for curve in curves], np.float64)

    @property
    def used(self) -> tuple[int, ...]:
        """Ascending positions of the features that some candidate computes."""
        mask = int(np.bitwise_or.reduce(self.masks))
        return tuple(k for k in range(len(self.features)) if mask >> k & 1)

    @property
    def owners(self) -> NDArray[np.int64]:
        """For each candidate (C,) the one with the same features and the whole model.

        A candidate whose model is no part of another is its own owner.
        """
        counts, masks = self.base_models, self.masks.tolist()
        whole = {mask: row for row, mask in enumerate(masks) if not counts[row]}
        return np.array([whole[mask] for mask in masks], np.int64)

    @property
    def whole_models(self) -> list[Model]:
        """The models that are no parts of others, in the order of the candidates."""
        return [model for model in self.models if not isinstance(model, ModelPart)]

    @property
    def base_models(self) -> list[int]:
        """Number of base models of each candidate's model; 0 for a whole model."""
        return [
            model.count if isinstance(model, ModelPart) else 0 for model in self.models
        ]

    def names(self, row: int) -> tuple[str, ...]:
        """Names of the features of candidate `row`, in the order of computing."""
        return tuple(self.features[f].name for f in self.orders[row])

    def extractor(self, files: Sequence[Path] = ()) -> Extractor:
        """Find the code of all features, and return an extractor of them.

        `files` are the user's files with features. Raises BadIndexFile if the steps
        that the features need differ from those in `costs`.
        """
        extractor = load_extractor(self.features, files, self.learned, self.networks)
        steps = len(extractor.steps), len(self.costs.step_coefficients)
        if extractor.needs != self.costs.needs or steps[0] != steps[1]:
            raise BadIndexFile("damaged: its features need other steps than it says")
        if fault := fault_of_vectors(extractor, self.features, self.fetches):
            raise BadIndexFile(f"damaged: {fault}")
        return extractor


def exit_costs(
    margins: Sequence[Sequence[float]],
    fallbacks: Sequence[Sequence[int]],
    model_costs: NDArray[np.float64],
) -> NDArray[np.float64]:
    """Return, for each plan, the total cost of the models at its checkpoints: (C,)."""
    checks = np.zeros(len(model_costs))
    for row, own in enumerate(margins):
        stops = np.flatnonzero(np.isfinite(own)).tolist()
        checks[row] = model_costs[[fallbacks[row][k] for k in stops]].sum()
    return checks


def mean_costs(
    package: Package, coefficients: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return the mean cost polynomials (C, T) of candidates, which early exits reduce.

    `coefficients` (C, T) are the costs of items that end at no checkpoint. An item that
    ends at a checkpoint costs the features before the checkpoint, and the models of all
    checkpoints so far. The mean weights these costs by the share of items that end at
    each checkpoint, or at the end of the plan.
    """
    means: NDArray[np.float64] = coefficients.copy()
    saved_s = package.model_s - package.mean_s if len(package.mean_s) else None
    for row, ends in enumerate(package.ends):
        mask, checks_s = 0, 0.0
        total = np.zeros(coefficients.shape[1])
        for k, share in enumerate(ends[:-1]):
            mask |= 1 << package.orders[row][k - 1] if k else 0
            if np.isfinite(package.margins[row][k] if package.margins else np.inf):
                checks_s += float(package.checked_s[package.fallbacks[row][k]])
            if share:
                total += share * package.costs.of(mask)
                total[0] += share * checks_s
        means[row] = total + ends[-1] * coefficients[row]
        if saved_s is not None:
            means[row, 0] -= ends[-1] * saved_s[row]
    return means
