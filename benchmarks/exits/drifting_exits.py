"""Exits fitted on the early rows of a stream, and a planner whose answers to the others are audited."""

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polydom.features.costs.curve import CostTable
from polydom.features.fingerprint import fingerprint
from polydom.features.items import make_item
from polydom.features.tables.columns import columns
from polydom.indexer import Index
from polydom.indexer.building.fit_exits import (
    AnswerTimes,
    ItemAnswers,
    PlanExitFitter,
    exit_costs,
)
from polydom.indexer.building.project import ExitGoal
from polydom.indexer.exits.checkpoints import answers_of
from polydom.indexer.index.package import Package
from polydom.indexer.index.stored_features import StoredColumns, StoredFeature
from polydom.models import compile
from polydom.models.scoring.model import Model
from polydom.models.scoring.prior import Prior
from polydom.server.engine import execution
from polydom.server.engine.budget import Allowance
from polydom.server.engine.planner import Planner
from polydom.server.engine.request import Request

from ..data.tables import Codes, Rows
from .drift_streams import Stream

ALPHA, CONFIDENCE = 0.01, 0.95
ROUNDS, LEAVES = 40, 15
UNIT = 1.0  # what each group of columns costs; its model, a thousandth
KEPT, CHANGED, PASSED = 0, 1, 2  # what became of an answer that is drawn


def index_of(stream: Stream) -> Index:
    """Build an index of as many sets as there are groups, each with the ones before.

    Models are trained on the stream's first part; accuracies are measured and exits
    fitted and calibrated, with a confidence, on halves of its second.
    """
    groups = len(stream.groups)
    models = [Prior.fit(stream.codes[: stream.trained]), *train(stream)]
    part = slice(stream.trained, stream.fitted)
    pairs = [answers_of(model, stream.rows[part]) for model in models]
    margins, choices = (np.column_stack(side) for side in zip(*pairs, strict=True))
    orders = tuple(tuple(range(k)) for k in range(groups + 1))
    fallbacks = tuple(tuple(range(k + 1)) for k in range(groups + 1))
    model_costs = np.array([0.0, *[UNIT / 1000] * groups])
    costs = CostTable(
        feature_coefficients=np.full((groups, 1), UNIT),
        step_coefficients=np.empty((0, 1)),
        needs=[()] * groups,
        overhead=np.array([0.0]),
    )
    half = len(margins) // 2
    alone = np.arange(len(margins))
    fitted, fresh = (
        ItemAnswers(margins[own], choices[own], alone[own], stream.rows[part][own])
        for own in (slice(half), slice(half, None))
    )
    exits = PlanExitFitter(ExitGoal(ALPHA, CONFIDENCE), fitted, fresh).all(
        [2**k - 1 for k in range(groups + 1)],
        models,
        orders,
        fallbacks,
        model_costs,
        lambda mask: float(costs.of(mask)[0]),
        no_time,
        lambda done, left=None: None,
    )
    masks = np.array([2**k - 1 for k in range(groups + 1)], np.uint64)
    package = Package(
        kind="record",
        labels=tuple(str(code) for code in range(int(stream.codes.max()) + 1)),
        features=tuple(stored_groups(stream)),
        costs=costs,
        masks=masks,
        orders=orders,
        fallbacks=fallbacks,
        models=tuple(models),
        model_s=model_costs,
        overhead_s=0.0,
        meta={"unit": "usd", "samples": [], "exits": exits.facts},
        margins=exits.margins,
    )
    accuracies = (choices == stream.codes[part][:, None]).mean(axis=0)
    checks = exit_costs(exits.margins, fallbacks, model_costs)
    curves = costs.of_many(masks) + model_costs[:, None] + checks[:, None]
    return Index.from_candidates(curves, accuracies, (1, 1), package)


def no_time(row: int, goal: ExitGoal, evaluator: object) -> AnswerTimes:
    """Fail: models have no schedules here."""
    raise AssertionError("no schedule was to be fitted")


def train(stream: Stream) -> Iterator[Model]:
    """Train a model on each number of groups; what it does not get is 0 for it."""
    import lightgbm

    classes = int(stream.codes.max()) + 1
    options: dict[str, Any] = {"objective": "binary"}
    if classes > 2:
        options = {"objective": "multiclass", "num_class": classes}
    options |= {"num_leaves": LEAVES, "deterministic": True, "force_row_wise": True}
    options |= {"num_threads": 1, "verbose": -1}
    for end in stream.starts[1:]:
        X = stream.rows[: stream.trained].copy()
        X[:, end:] = 0
        data = lightgbm.Dataset(X, stream.codes[: stream.trained])
        booster = lightgbm.train(options, data, ROUNDS)
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "model.txt")
            booster.save_model(path)
            yield compile(path).classifier


def stored_groups(stream: Stream) -> Iterator[StoredFeature]:
    """Each group of columns, as an index file has it."""
    for number, (group, width) in enumerate(stream.groups.items()):
        start = stream.starts[number]
        names = [f"c{start + k}" for k in range(width)]
        print_of = fingerprint(columns(group, names))
        yield StoredFeature(group, width, print_of, False, StoredColumns(names, {}))


def planner_of(index: Index, share: float) -> Planner:
    """Return a planner that audits a share of the answers."""
    assert index.package is not None
    planner = Planner(index, index.package.extractor())
    planner.audit.share = share
    return planner


def answer(planner: Planner, rows: Rows) -> NDArray[np.int8]:
    """(N,) what becomes of each row's answer, all of which the planner draws."""
    found = np.empty(len(rows), np.int8)
    for i, outcome in enumerate(outcomes(planner, rows)):
        assert outcome.passed or outcome.audit is not None
        found[i] = PASSED if outcome.passed else CHANGED if outcome.audit else KEPT
    return found


def outcomes(planner: Planner, rows: Rows) -> Iterator[Any]:
    """Ask for row after row, without a limit of cost; the audit is told of each."""
    names = [f"c{k}" for k in range(rows.shape[1])]
    for row in rows.tolist():
        record = {name: v for name, v in zip(names, row, strict=True) if v == v}
        outcome = execution.execute(planner, Request(make_item(record), Allowance(1e9)))
        planner.audit.answered(outcome)
        yield outcome


def shifted(stream: Stream, seed: int) -> tuple[Rows, Codes]:
    """Return the answered rows with the columns after the first group of other rows.

    Each value has been seen before, but the first group says no longer what the others
    are like.
    """
    rows = stream.rows[stream.fitted :]
    order = np.random.default_rng(seed).permutation(len(rows))
    start = stream.starts[1]
    mixed = np.concatenate([rows[:, :start], rows[order, start:]], axis=1)
    return mixed, stream.codes[stream.fitted :]
