"""The predictors to compare: an index within budgets, baselines, and users' models."""

import runpy
import sys
from collections.abc import Callable, Iterator
from functools import reduce
from math import isfinite
from operator import and_
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from polydom.features.errors import BadInput, BadItem, BadModel
from polydom.features.loading import line_in
from polydom.features.wording import hint
from polydom.indexer.index.index import Index
from polydom.indexer.index.package import Package
from polydom.indexer.index.partial_lookup import PartialLookup

from ..client.sync import Client
from ..runtime.translator import Translator
from ..schema.wire import Answer, Terms
from .labelled_items import LabelledItem, class_name


class PlainAnswer(NamedTuple):
    """The answer of a baseline or a user's model: a class with scores, or a number.

    A number can have an interval. `cost` is in the index's unit; None if that unit is
    seconds.
    """

    label: str | None
    scores: dict[str, float] | None = None
    cost: float | None = None
    value: float | None = None
    interval: tuple[float, float] | None = None


class Predictor(Protocol):
    """An object that predicts labelled items one by one, and has a name."""

    @property
    def name(self) -> str:
        """The predictor's name in tables and plots."""

    @property
    def features(self) -> tuple[str, ...] | None:
        """Names of the features computed for every item; None if items differ."""

    def answer(self, item: LabelledItem) -> Answer | PlainAnswer:
        """Predict one item. Raise PolydomError if that fails."""


class IndexWithin:
    """A predictor: an index, here or on a server, which answers within one budget."""

    name = "polydom"
    features = None

    def __init__(self, ask: Callable[[Terms, Any], Answer], terms: Terms) -> None:
        self._ask = ask
        self._terms = terms

    def answer(self, item: LabelledItem) -> Answer:
        """Predict one item; raise the errors of `Client.predict` or `AtOnce.answer`."""
        return self._ask(self._terms, item.payload)


def ask_server(client: Client, terms: Terms, payload: Any) -> Answer:
    """Return a server's answer for an item."""
    return client.predict(
        payload,
        budget_ms=terms.budget_ms,
        budget=terms.budget,
        model=terms.model,
        exact=bool(terms.exact),
    )


class FixedPlan:
    """A predictor: one feature set of an index for every item, without a deadline."""

    def __init__(self, name: str, translator: Translator, row: int) -> None:
        self.name = name
        planner = translator.planner
        self.features = planner.feature_names[row]
        self._translator = translator
        self._planner = planner
        self._row = row

    def answer(self, item: LabelledItem) -> PlainAnswer:
        """Compute all features and evaluate the complete model, without a deadline."""
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
    """A predictor that always answers the most frequent class, or the mean label."""

    name = "prior"
    features = ()

    def __init__(self, index: Index, package: Package) -> None:
        row = package.masks.tolist().index(0)
        cost = None
        if package.meta.get("unit", "s") != "s":
            cost = index.cost_s(row, index.sizes[0])
        self.said = _say(package, row, np.empty(0, np.float32), cost)

    def answer(self, item: LabelledItem) -> PlainAnswer:
        """Return the prior's answer, whatever the item is."""
        return self.said


def _say(
    package: Package, row: int, columns: NDArray[np.float32], cost: float | None
) -> PlainAnswer:
    """Return the answer of the model of row `row` to an item.

    `columns` are the values of the item's features. The model is evaluated completely.
    """
    model = package.models[row]
    code, scores = model.answer(columns)
    if package.numeric:
        (value,), (low, high) = scores, package.intervals[row].tolist()
        return PlainAnswer(None, None, cost, value, (value + low, value + high))
    labels = [package.labels[one] for one in model.classes]
    return PlainAnswer(labels[code], dict(zip(labels, scores, strict=True)), cost)


def fixed_plans(
    translator: Translator, items: list[LabelledItem]
) -> Iterator[FixedPlan]:
    """Yield a predictor with the cheapest plan, and one with the costliest plan.

    Plans without features are left out, and plans that need columns which no item has.
    The other plans are those on the skyline at the median item's size. If only one is
    left, yield one predictor; if none is left, yield nothing.
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
    """Return a mask of the features whose columns an item lacks; -1 for a bad item."""
    package = translator.planner.package
    if package.kind != "record" and not package.fetches:  # spares decoding
        return 0
    try:
        return translator.read(item.payload).withheld
    except BadItem:
        return -1


class OwnModel:
    """A predictor: a fitted estimator from a Python file of the user.

    `target` is `FILE.py:FUNCTION`. The function takes no argument, and returns an
    estimator with a method `predict`. This method gets a list of one item, and returns
    a list of one answer: a number if `numeric`, otherwise a class. An item is an
    image's bytes, a text, or a dict of a record's columns.
    """

    features = None

    def __init__(self, target: str, *, numeric: bool = False) -> None:
        self.name = target
        model = _call(target)
        predict = getattr(model, "predict", None)
        if not callable(predict):
            raise BadInput(
                f"--against {target} returned a {type(model).__name__}; something with "
                "a method `predict` is needed, that takes a list of items"
            )
        self._predict = predict
        self._numeric = numeric

    def answer(self, item: LabelledItem) -> PlainAnswer:
        """Predict one item; raise BadModel if the estimator fails."""
        try:
            said = self._predict([item.whole])
            if len(said) != 1:
                raise ValueError(f"{len(said)} answers came for a list of one item")
            if not self._numeric:
                return PlainAnswer(class_name(said[0]))
            value = float(said[0])
            if not isfinite(value):
                raise ValueError(f"{value} came; a finite number is needed")
            return PlainAnswer(None, value=value)
        except (Exception, SystemExit) as error:  # the user's code may raise anything
            raise BadModel(
                f"--against {self.name}: {type(error).__name__}: {error}"
            ) from error


def split_target(target: str) -> tuple[Path, str]:
    """Return the path and the function's name in a target `FILE.py:FUNCTION`.

    Raises BadInput if the target has another form, or the file is missing.
    """
    place, _, name = target.rpartition(":")
    file = Path(place)
    if not place or not name.isidentifier():
        raise BadInput(
            f"--against {target}: FILE.py:FUNCTION is needed, such as baseline.py:make"
        )
    if not file.is_file():
        what = "this is a folder" if file.exists() else "there is no such file"
        raise BadInput(f"--against {target}: {what}; a Python file is needed")
    return file, name


def _call(target: str) -> Any:
    """Run a Python file, and return the result of the function that `target` names.

    The file can import modules from its own folder, as a script can.
    """
    file, name = split_target(target)
    folder = str(file.parent.resolve())
    sys.path.insert(0, folder)
    try:
        defined = runpy.run_path(str(file), run_name=f"against_{file.stem}")
        function = defined.get(name)
        if callable(function):
            return function()
    except (Exception, SystemExit) as error:  # the user's code may raise anything
        line = line_in(file, error) if isinstance(error, Exception) else None
        where = f", line {line}" if line else ""
        raise BadInput(
            f"--against {target}{where}: {type(error).__name__}: {error}"
        ) from error
    finally:
        sys.path.remove(folder)
    known = [own for own, value in defined.items() if callable(value)]
    known = [own for own in known if not own.startswith("_")]
    raise BadInput(f"{file} has no function {name!r}; {hint(name, known)}")
