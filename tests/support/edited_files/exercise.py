"""Whatever can be asked of a loaded index, asked; and what it says that cannot be."""

import math
from collections.abc import Iterator
from typing import Any

import msgspec
import numpy as np
from msgspec import UNSET
from numpy.typing import NDArray

from polydom.features.errors import BadFeature, BadRow, NothingFits, PolydomError
from polydom.features.extract import Extractor
from polydom.features.items import Item, image_item, record_item, text_item
from polydom.features.sizes import Size
from polydom.indexer.index.facts import facts_of
from polydom.indexer.index.index import Index
from polydom.indexer.index.machine_speed import MachineFactors
from polydom.models.lattices.lattices import Lattices
from polydom.models.lattices.one_row import pack_lattices
from polydom.models.scoring.classifier import Classifier
from polydom.models.scoring.kernels.cached_njit import COMPILED
from polydom.models.scoring.model import Model
from polydom.models.scoring.prior import Mean
from polydom.models.scoring.regressor import Regressor
from polydom.models.scoring.stopping_rule import Limits, Margins
from polydom.models.trees.choose_layout import pack
from polydom.models.trees.trees import Trees
from polydom.server.cli.asking.plan import explain
from polydom.server.engine.budget import Budget, Deadline, MoneyBudget
from polydom.server.engine.executions.execution import execute
from polydom.server.engine.planning.planner import Planner
from polydom.server.engine.request import Request
from polydom.server.runtime.translator import Translator
from polydom.server.settings import Settings
from tests.support.indexes import served, zoo

Draw = np.random.Generator
MOST_ODD = 64  # columns; wider rows are asked of fewer models


def lies(index: Index, draw: Draw, extractor: Extractor | None) -> Iterator[str]:
    """Ask an index everything; yield what breaks a promise.

    Answers are asked for where `extractor` has the code of the index's features.
    """
    yield from _of_costs(index, draw)
    if msgspec.json.encode(_plain(msgspec.structs.asdict(facts_of(index)))) == b"":
        yield "no facts"
    package = index.package
    if package is None:
        return
    width = sum(feature.width for feature in package.features)
    for row in dict.fromkeys(
        [0, len(package.models) - 1, *_some(package.models, draw)]
    ):
        yield from _of_model(package.models[row], width, draw)
    shape = (
        package.costs.feature_coefficients.shape[0],
        len(package.costs.step_coefficients),
    )
    factors = MachineFactors(2.0, np.full(shape[1], 0.5), np.full(shape[0], 3.0), 1.5)
    index.rescaled(factors, np.zeros(shape[0]))
    if extractor is not None:
        yield from _of_answers(index, extractor)


def _some(models: tuple[Model, ...], draw: Draw) -> list[int]:
    picked: list[int] = draw.integers(len(models), size=2).tolist()
    return picked


def _plain(facts: Any) -> Any:
    """Leave out what JSON cannot say; a report is no answer."""
    if isinstance(facts, dict):
        return {str(key): _plain(value) for key, value in facts.items()}
    if isinstance(facts, list | tuple):
        return [_plain(value) for value in facts]
    return facts if isinstance(facts, int | float | str | None) else repr(facts)


def sizes_of(index: Index, draw: Draw) -> list[Size]:
    """Sizes in the range, at its ends, at borders and next to them, and outside."""
    low, high = index.sizes
    if isinstance(low, tuple) and isinstance(high, tuple):
        cuts = getattr(index.lookup, "thresholds", np.empty(0))[:4].tolist()
        numbers = [*low, *high, *cuts, 1e-9, 1e12]
        return [
            (float(draw.choice(numbers)), float(draw.choice(numbers))) for _ in range(9)
        ]
    assert isinstance(low, float)
    assert isinstance(high, float)
    cuts = getattr(index.lookup, "breakpoints", np.empty(0))
    near = draw.choice(cuts, min(3, len(cuts))).tolist() if len(cuts) else []
    beside = [math.nextafter(n, s) for n in near for s in (0.0, math.inf)]
    inside = (low + (high - low) * draw.random(3)).tolist()
    return [low, high, *near, *beside, *inside, low / 7, min(high * 9, 1e300)]


def _of_costs(index: Index, draw: Draw) -> Iterator[str]:
    for size in sizes_of(index, draw):
        if not min(size if isinstance(size, tuple) else (size,)) > 0:
            continue
        rows = index.skyline(size).tolist()
        if not rows:
            yield "an empty skyline"
        inside = index.covers(size)
        costs = [index.cost_s(row, size) for row in rows]
        if inside and not all(0 <= cost < math.inf for cost in costs):
            yield f"a cost of {costs}"
        for budget_s in (0.0, *costs[:3], math.inf):
            if not budget_s >= 0:
                continue
            try:
                found = index.best(size, budget_s)
            except NothingFits:
                continue
            if not (found.cost_s <= budget_s and 0 <= found.quality <= 1):
                yield f"{found} for a budget of {budget_s}"
            if inside and not 0 <= found.cost_s < math.inf:
                yield f"a cost of {found.cost_s}"
        if index.package is not None:
            timed = str(index.package.meta.get("unit", "s")) == "s"
            explain(index, size, *((1.0, None) if timed else (None, 1.0)))


def drawn_rows(width: int, count: int, draw: Draw) -> NDArray[np.float32]:
    """Rows of ordinary numbers, then of odd ones too."""
    X = draw.normal(size=(count, width)).astype(np.float32)
    odd = np.array([0, -0.0, 1e-45, 3e38, -3e38, 1e38], np.float32)
    X[count // 4 :] = np.where(
        draw.random((count - count // 4, width)) < 0.3,
        draw.choice(odd, (count - count // 4, width)),
        X[count // 4 :],
    )
    where = draw.random((count - count // 2, width)) < 0.2
    strange = np.array([np.nan, np.inf, -np.inf], np.float32)
    X[count // 2 :][where] = draw.choice(strange, int(where.sum()))
    return X


def _of_model(model: Model, width: int, draw: Draw) -> Iterator[str]:
    count = 40 if width <= MOST_ODD else 4
    X = drawn_rows(width, count, draw)
    finite = np.isfinite(X).all(axis=1)
    with np.errstate(all="ignore"):
        try:
            scores = model.predict_scores(X)
        except BadRow:  # it takes no gaps
            X = X[finite]
            finite = np.ones(len(X), bool)
            scores = model.predict_scores(X)
        chosen = model.predict(X)
        if scores.shape != (len(X), len(model.classes)):
            yield f"scores of shape {scores.shape}"
        if not np.isfinite(scores[finite]).all():
            yield f"{model.kind}: a score that is no number"
        if isinstance(model, Regressor | Mean):
            if not np.array_equal(chosen, scores[:, 0], equal_nan=True):
                yield f"{model.kind}: answers other numbers than its scores"
        elif not np.isin(chosen, model.classes).all():
            yield f"{model.kind}: a class that there is not"
        for row in (X[0], X[len(X) // 2], X[-1]):
            place, given = model.answer(row)
            if not 0 <= place < len(model.classes) == len(given):
                yield f"{model.kind}: answers {place} of {len(model.classes)} classes"
            if model.choose(row) != place:
                yield f"{model.kind}: chooses one class and answers another"
        if isinstance(model, Classifier) and COMPILED:
            _stop_early(model, X, draw)


def _stop_early(model: Classifier, X: NDArray[np.float32], draw: Draw) -> None:
    """Run the kernels of early exits, by limits drawn here."""
    scorer = model.scorer
    if not isinstance(scorer, Trees | Lattices):
        return
    T, R = scorer.size, scorer.outputs
    order, spread = draw.permutation(T), np.abs(draw.normal(size=T))
    stops = Limits(-spread, spread) if R == 1 else Margins(spread)
    if isinstance(scorer, Lattices):
        lattices = pack_lattices(scorer, order, stops)
        if lattices is not None:
            lattices.follow(X)
    else:
        if scorer.prepared:
            packed = scorer.pack(order, stops)
        else:
            packed = pack(scorer, order, stops)
        if packed is not None:
            packed.follow(X)


def item_of(index: Index) -> Item:
    """An item that the indexes of the zoo, and of others of the tests, can answer."""
    package = index.package
    assert package is not None
    if package.kind == "text":
        return text_item(served.SPAM, pair=index.pairs)
    if package.kind == "image":
        from tests.support.indexes.three_kinds import picture

        return image_item(picture(20), pair=index.pairs)
    return record_item({"age": 31.0} if "yes" in package.labels else zoo.RECORD)


def _of_answers(index: Index, extractor: Extractor) -> Iterator[str]:
    package = index.package
    assert package is not None
    planner = Planner(index, extractor)
    translator = Translator(planner, Settings())
    item = extractor.filled(item_of(index))
    now_s = planner.now()
    for amount, on_infeasible in ((0.02, "prior"), (1e-7, "cheapest"), (2.0, "prior")):
        if str(package.meta.get("unit", "s")) == "s":
            budget: Budget = Deadline(now_s, amount)
        else:
            budget = MoneyBudget(amount)
        request = Request(item, budget, on_infeasible)  # type: ignore[arg-type]
        try:
            outcome = execute(planner, request)
        except BadFeature:
            continue
        said = translator.answer(request, outcome)
        scores = list((said.scores or {}).values())
        if not all(math.isfinite(s) for s in scores) and package.kind != "record":
            yield f"scores {scores} were served"
        if not 0 <= said.expected_quality <= 1:
            yield f"a quality of {said.expected_quality} was served"
        if (said.expected_accuracy is None) != package.numeric:
            yield f"an accuracy of {said.expected_accuracy} was served"
        if package.numeric:
            value, interval = said.value, said.interval
            if value is UNSET or interval is UNSET:
                yield "no number was served"
            elif not -math.inf < interval[0] <= interval[1] < math.inf:
                yield f"{value} in {interval} was served"


def extractor_of(index: Index) -> Extractor | None:
    """The code of an index's features, where they are what it says."""
    if index.package is None:
        return None
    try:
        return index.package.extractor([served.FEATURES_FILE])
    except PolydomError:
        return None
