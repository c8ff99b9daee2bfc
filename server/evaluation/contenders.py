"""Who answers: an index within a budget, and what there is without one."""

from collections.abc import Iterator, Mapping
from functools import reduce
from operator import and_
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from polydom.features.errors import BadItem
from polydom.indexer.index.index import Index
from polydom.indexer.index.package import Package
from polydom.indexer.index.partial_lookup import PartialLookup

from ..client.sync import Client
from ..runtime.translator import AtOnce, Translator
from ..schema.wire import Answer, Terms
from .labelled_items import LabelledItem


class Said(NamedTuple):
    """An answer that tells no more than its class, or number, and how sure that is.

    `cost` is in the unit of an index that counts no time; None elsewhere.
    """

    label: str | None
    scores: dict[str, float] | None = None
    cost: float | None = None
    value: float | None = None
    interval: tuple[float, float] | None = None


class Contender(Protocol):
    """Who is asked one item after the other."""

    @property
    def name(self) -> str:
        """What it is called."""

    @property
    def features(self) -> tuple[str, ...] | None:
        """Those that it always computes; None where that differs or is not known."""

    def answer(self, item: LabelledItem) -> Answer | Said:
        """Answer now; PolydomError where it cannot."""


class WithinBudget:
    """An index in this process, asked within one budget."""

    name = "polydom"
    features = None

    def __init__(self, at_once: AtOnce, terms: Terms) -> None:
        self._at_once = at_once
        self._terms = terms

    def answer(self, item: LabelledItem) -> Answer:
        """Answer as `polydom predict` does."""
        return self._at_once.answer(self._terms, item.payload)


class ServedWithinBudget:
    """An index that a server has, asked within one budget."""

    name = "polydom"
    features = None

    def __init__(self, client: Client, terms: Terms) -> None:
        self._client = client
        self._terms = terms

    def answer(self, item: LabelledItem) -> Answer:
        """Answer over HTTP; errors as `Client.predict`."""
        terms = self._terms
        return self._client.predict(
            item.payload,
            budget_ms=terms.budget_ms,
            budget=terms.budget,
            model=terms.model,
            exact=bool(terms.exact),
        )


class FixedPlan:
    """One of an index's feature sets, whatever the item and the time it takes."""

    def __init__(self, name: str, translator: Translator, row: int) -> None:
        self.name = name
        planner = translator.planner
        self.features = planner.feature_names[row]
        self._translator = translator
        self._planner = planner
        self._row = row

    def answer(self, item: LabelledItem) -> Said:
        """Compute all features and evaluate the whole model; no exit, no deadline."""
        planner = self._planner
        read = self._translator.read(item.payload)
        columns = np.empty(planner.extractor.width, np.float32)
        extraction = planner.extractor.begin(read, columns)
        for feature in planner.plans[self._row].features:
            extraction.compute(feature)
        cost = None
        if planner.unit != "s":
            cost = planner.index.cost_s(self._row, read.size)
        return _say(planner.package, self._row, columns, cost)


class Prior:
    """The most frequent class, or the mean, whatever the item.

    Attributes
    ----------
    said
        That.
    """

    name = "prior"
    features = ()

    def __init__(self, index: Index, package: Package) -> None:
        row = package.masks.tolist().index(0)
        cost = None
        if package.meta.get("unit", "s") != "s":
            cost = index.cost_s(row, index.sizes[0])
        self.said = _say(package, row, np.empty(0, np.float32), cost)

    def answer(self, item: LabelledItem) -> Said:
        """Say so."""
        return self.said


def _say(
    package: Package, row: int, columns: NDArray[np.float32], cost: float | None
) -> Said:
    """Have a row's whole model answer."""
    model = package.models[row]
    code, scores = model.answer(columns)
    if package.numeric:
        (value,), (low, high) = scores, package.intervals[row].tolist()
        return Said(None, None, cost, value, (value + low, value + high))
    labels = [package.labels[one] for one in model.classes]
    return Said(labels[code], dict(zip(labels, scores, strict=True)), cost)


def fixed_plans(
    translator: Translator, items: list[LabelledItem]
) -> Iterator[FixedPlan]:
    """Give the cheapest plan with features and the largest one, at the usual size.

    They are the ends of the skyline at the median item's size; one, where it has no
    more, and none, where nothing is better than the prior. What is withheld of every
    item is in neither.
    """
    planner = translator.planner
    sizes = sorted((item.size for item in items), key=np.prod)
    withheld = reduce(and_, (_withheld(translator, item) for item in items))
    lookup = PartialLookup(planner.index, withheld)
    skyline = lookup.skyline(sizes[len(sizes) // 2]).tolist()
    rows = [row for row in skyline if planner.plans[row].features]
    if len(rows) > 1:
        yield FixedPlan("cheapest plan", translator, rows[0])
    if rows:
        yield FixedPlan("largest plan", translator, rows[-1])


def _withheld(translator: Translator, item: LabelledItem) -> int:
    """Features that cannot be computed of an item; all of one that is none."""
    if not isinstance(item.payload, Mapping):
        return 0
    try:
        return translator.read(item.payload).withheld
    except BadItem:
        return -1
