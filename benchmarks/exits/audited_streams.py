"""Whether exits keep their promise along a stream of rows, and when audits notice.

Models are trained on the first rows of a stream, exits fitted on the next ones for a
promise: at most 1 % of answers changed, with confidence 95 %. The server's planner
answers all that follow, with every answer audited, so that it is known of each whether
an exit changed it. Audits of 1 %, 5 % and all are drawn from these many times, each
with a new `ExitAudit`; the planner's own must count the same on the first answers.

Without a drift: the same rows shuffled before everything else. An alarm there is false
if the share of changed answers is at most the one promised. Shifted rows have all but
their first columns from another row; streams with some of them are drawn from the
answers, with replacement, until the alarm.
"""

import random
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polydom.features.costs.curve import CostTable
from polydom.features.fingerprint import fingerprint
from polydom.features.items import make_item
from polydom.features.tables.column_features import columns
from polydom.indexer import Index
from polydom.indexer.building.exits.checkpoints import answers_of
from polydom.indexer.building.exits.plan_exits import (
    AnswerTimes,
    ItemAnswers,
    PlanExitFitter,
    exit_costs,
)
from polydom.indexer.building.project import ExitGoal
from polydom.indexer.index.package import Package
from polydom.indexer.index.stored_features import StoredColumns, StoredFeature
from polydom.models import compile
from polydom.models.scoring.model import Model
from polydom.models.scoring.prior import Prior
from polydom.server.engine import execution
from polydom.server.engine.budget import Allowance
from polydom.server.engine.exit_audit import ExitAudit
from polydom.server.engine.planner import Planner
from polydom.server.engine.request import Request

from ..data.tables import Rows
from .drift_streams import Stream

ALPHA, CONFIDENCE = 0.01, 0.95
ROUNDS, LEAVES = 40, 15
UNIT = 1.0  # what each group of columns costs; its model, a thousandth
KEPT, CHANGED, PASSED = 0, 1, 2  # what became of an answer that is drawn

SHARES = (0.01, 0.05)
AUDITED = (*SHARES, 1.0)
BLOCKS = 24
SHUFFLED = 20_000  # answers without a drift, at most
MIXED = (0.0, 0.1, 0.25, 0.5, 1.0)  # shares of shifted rows
TRIED = 3_000  # answers on which the planner's own audit is compared
RATES = (0.8, 1.0, 1.33, 1.5, 2.0, 3.0, 5.0, 10.0)  # of changes, in promised ones

Found = NDArray[np.int8]


@dataclass(frozen=True)
class Effort:
    """Draws of audited answers, and the longest streams that are drawn.

    Attributes
    ----------
    longest
        Answers of a stream of which some are shifted, at most.
    drawn
        Audited answers of a stream of one chance, at most.
    """

    draws: int
    longest: int
    drawn: int


FULL, QUICK = Effort(100, 400_000, 40_000), Effort(2, 4_000, 400)


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


def shifted(stream: Stream, seed: int) -> Rows:
    """Return the answered rows with the columns after the first group of other rows.

    Each value has been seen before, but the first group says no longer what the others
    are like.
    """
    rows = stream.rows[stream.fitted :]
    order = np.random.default_rng(seed).permutation(len(rows))
    start = stream.starts[1]
    return np.concatenate([rows[:, :start], rows[order, start:]], axis=1)


def first_alarm(drawn: Found) -> int | None:
    """Position of the drawn answer with which the alarm sounds; None without one."""
    audit = ExitAudit(ALPHA)
    for place, kind in enumerate(drawn.tolist()):
        if kind == PASSED:
            audit.add_passed()
        else:
            audit.add(kind == CHANGED)
        if audit.alarm:
            return place
    return None


def alarms(
    found: Found, share: float, draws: int, *, shuffle: bool = False
) -> list[int | None]:
    """Answers to the alarm, for each of many draws of the audited ones."""
    random_ = np.random.default_rng(0)
    places: list[int | None] = []
    for _ in range(draws if shuffle or share < 1 else 1):
        given = random_.permutation(found) if shuffle else found
        at = np.flatnonzero(random_.random(len(given)) < share)
        place = first_alarm(given[at])
        places.append(None if place is None else int(at[place]) + 1)
    return places


def mixed_alarms(
    kept: Found, moved: Found, part: float, share: float, effort: Effort
) -> list[int | None]:
    """Answers to the alarm on endless streams of which a part is shifted."""
    random_ = np.random.default_rng(0)
    places: list[int | None] = []
    for _ in range(effort.draws):
        size = int(effort.longest * share)
        drawn = random_.choice(kept, size)
        over = random_.random(size) < part
        drawn[over] = random_.choice(moved, int(over.sum()))
        place = first_alarm(drawn)
        gaps = random_.geometric(share, size).cumsum()
        places.append(None if place is None else int(gaps[place]))
    return places


def summary(places: list[int | None]) -> dict[str, Any]:
    """How many draws have an alarm, and after how many answers."""
    heard = sorted(place for place in places if place is not None)
    found: dict[str, Any] = {"alarms": len(heard) / len(places)}
    # as if those without an alarm had it later than all others
    for name, q in (("p5", 0.05), ("p50", 0.5), ("p95", 0.95)):
        at = int(q * len(places))
        found[name] = heard[at] if at < len(heard) else None
    return found


def try_planner(stream: Stream, found: Found, seed: int = 0) -> None:
    """Stop unless the planner's own audit counts what is drawn here."""
    share = SHARES[-1]
    planner = planner_of(index_of(stream), share)
    planner.audit = ExitAudit(ALPHA, share, draw=random.Random(seed).random)
    rows = stream.rows[stream.fitted :][:TRIED]
    list(outcomes(planner, rows))
    draws = random.Random(seed)
    drawn = found[: len(rows)][[draws.random() < share for _ in rows]]
    ours = (int((drawn == PASSED).sum()), int((drawn == CHANGED).sum()))
    assert (planner.audit.passed, planner.audit.changed) == ours, "audits differ"
    assert planner.audit.alarm == (first_alarm(drawn) is not None)


def blocks(found: Found) -> list[float]:
    """Share of changed answers in equal parts of a stream."""
    return [float(np.mean(part == CHANGED)) for part in np.array_split(found, BLOCKS)]


def run(stream: Stream, effort: Effort) -> dict[str, Any]:
    """Everything there is to say of one stream."""
    draws = effort.draws
    found = answer(planner_of(index_of(stream), 1.0), stream.rows[stream.fitted :])
    try_planner(stream, found)
    still = stream.shuffled(0)
    planner = planner_of(index_of(still), 1.0)
    kept = answer(planner, still.rows[still.fitted :][:SHUFFLED])
    moved = answer(planner, shifted(still, 0)[:SHUFFLED])
    in_order = {share: alarms(found, share, draws) for share in AUDITED}
    no_order = {share: alarms(kept, share, draws, shuffle=True) for share in AUDITED}
    return {
        "in order": told(found, in_order),
        "shuffled": told(kept, no_order),
        "shifted": [
            {
                "shifted": part,
                "changed": float(
                    (1 - part) * np.mean(kept == CHANGED)
                    + part * np.mean(moved == CHANGED)
                ),
                "alarms": {
                    share: summary(mixed_alarms(kept, moved, part, share, effort))
                    for share in SHARES
                },
            }
            for part in MIXED
        ],
    }


def told(found: Found, places: dict[float, list[int | None]]) -> dict[str, Any]:
    """What became of a stream's answers, and when audits of each share notice."""
    return {
        "answers": len(found),
        "early": float(np.mean(found != PASSED)),
        "changed": float(np.mean(found == CHANGED)),
        "blocks": blocks(found),
        "alarms": {share: summary(draws) for share, draws in places.items()},
    }


def steady(effort: Effort) -> list[dict[str, Any]]:
    """Drawn answers to the alarm where each has the same chance of being changed."""
    random_, rows = np.random.default_rng(0), []
    for times in RATES:
        places: list[int | None] = []
        for _ in range(effort.draws):
            drawn = (random_.random(effort.drawn) < times * ALPHA).astype(np.int8)
            place = first_alarm(drawn)
            places.append(None if place is None else place + 1)
        rows.append({"times what is promised": times, **summary(places)})
    return rows


def tables(name: str, result: dict[str, Any]) -> dict[str, list[dict[str, Any]]]:
    """One stream's tables; answers to an alarm are medians of the draws."""
    rows = []
    for order in ("in order", "shuffled"):
        one = result[order]
        rows.append(
            {
                "rows": order,
                "answers": one["answers"],
                "early": one["early"],
                "changed": one["changed"],
                "least of blocks": min(one["blocks"]),
                "most": max(one["blocks"]),
                **cells(one["alarms"]),
            }
        )
    mixed = [
        {"shifted": row["shifted"], "changed": row["changed"], **cells(row["alarms"])}
        for row in result["shifted"]
    ]
    return {
        f"{name}, the stream": rows,
        f"{name}, answers to the alarm if some rows are shifted": mixed,
    }


def cells(by_share: dict[float, dict[str, Any]]) -> dict[str, Any]:
    """Share of draws with an alarm, and answers to it, for each share audited."""
    made: dict[str, Any] = {}
    for share, alarm in by_share.items():
        made[f"alarm, {share:.0%} audited"] = alarm["alarms"]
        for key in ("p5", "p50", "p95"):
            made[f"{key}, {share:.0%}"] = alarm[key]
    return made
