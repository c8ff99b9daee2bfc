"""Do builds keep the promise for each class, and is a rare class as safe as others?

python -m benchmarks rare                  all sets
python -m benchmarks rare --sets drawn     one of them

Each of many builds draws its own items, and has exits as a project has by default.
Items that no build has seen then pass every plan twice: with its exits, and whole. A
promise of a class is broken if exits change more than the promised share of the items
that the whole plan answers with this class. Of drawn items there are so many that this
share is known nearly exactly; of a public set there are fewer, so that some promises
that are just kept are counted as broken. Recall is the share of the items with the rare
label that get it as their answer.
"""

import argparse
import csv
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from polydom.indexer import Index, build
from polydom.indexer.building.exits.checkpoints import answers_of
from polydom.indexer.building.project import Project

from .. import report
from ..data.tables import load_adult

Rows = NDArray[np.float32]
Codes = NDArray[np.int64]

SETS = ("drawn", "drawn, unlabelled", "drawn, alpha by class", "adult")
BUILDS = 20
WIDTH, GROUPS = 12, 2  # columns of the drawn items; features that hold them
BUILT, UNLABELLED, FRESH = 24_000, 80_000, 200_000
PRIOR = 0.025  # share of the rare class among drawn items
COST_S = 2e-4  # of obtaining the columns of one feature
TREES = 60


class Items(NamedTuple):
    """Items of one build, and those that judge it."""

    rows: Rows
    codes: Codes
    fresh: Rows
    fresh_codes: Codes
    unlabelled: Rows | None = None


def draw(count: int, random: np.random.Generator) -> tuple[Rows, Codes]:
    """Items of two classes, of which the second is rare."""
    codes = (random.random(count) < PRIOR).astype(np.int64)
    rows = random.normal(size=(count, WIDTH)) + 0.9 * codes[:, None]
    rows[:, 0] += 0.5 * rows[:, 1] * rows[:, 2]
    return rows.astype(np.float32), codes


def items_of(name: str, seed: int, folder: Path, quick: bool) -> Items:
    """The items of one build."""
    random = np.random.default_rng(seed)
    if name == "adult":
        X, y, Xt, yt = load_adult(folder)
        rows, codes = np.vstack([X, Xt]), np.concatenate([y, yt])
        mixed, first = random.permutation(len(rows)), 2 * len(rows) // 3
        built, rest = mixed[:first], mixed[first:]
        return Items(rows[built], codes[built], rows[rest], codes[rest])
    of_all = 5 if quick else 1
    unlabelled = None
    if name == "drawn, unlabelled":
        unlabelled = draw(UNLABELLED // of_all, random)[0]
    rows, codes = draw(BUILT // of_all, random)
    return Items(rows, codes, *draw(FRESH // of_all, random), unlabelled)


def write(path: Path, rows: Rows, codes: Sequence[int] | None = None) -> None:
    """Write a table with the columns x0, x1 and so on, and the labels, if any."""
    with path.open("w", newline="") as file:
        table = csv.writer(file)
        names = [f"x{k}" for k in range(rows.shape[1])]
        table.writerow(names if codes is None else [*names, "label"])
        for k, row in enumerate(rows.tolist()):
            table.writerow(row if codes is None else [*row, codes[k]])


def project(name: str, items: Items, folder: Path, seed: int, quick: bool) -> Project:
    """A project whose columns are bought in groups, written to a folder."""
    write(folder / "rows.csv", items.rows, items.codes.tolist())
    data = {"table": "rows.csv"}
    if items.unlabelled is not None:
        write(folder / "more.csv", items.unlabelled)
        data["unlabelled"] = "more.csv"
    parts = np.array_split(np.arange(items.rows.shape[1]), GROUPS)
    groups = [
        {"name": f"f{k}", "columns": [f"x{j}" for j in own], "cost": {"s": COST_S}}
        for k, own in enumerate(parts)
    ]
    content: dict[str, Any] = {
        "seed": seed,
        "workers": 1,
        "data": data,
        "features": {"columns": groups},
        "learner": {
            "name": "lightgbm",
            "n_estimators": 20 if quick else TREES,
            "n_jobs": 1,
            "verbose": -1,
        },
        "quality": {"measure": "accuracy"},
        "search": {"method": "greedy-acc"},
        "costs": {"items": 8, "repeats": 2},
    }
    if name == "drawn, alpha by class":
        content["exits"] = {"alpha": {"1": 0.05}}
    return Project.from_mapping(content, folder=folder)


class Walked(NamedTuple):
    """What one plan does with fresh items."""

    whole: Codes  # (N,): Answers of the whole plan
    answers: Codes  # (N,): Answers with exits
    saved: float  # Share of the cost of features and model that exits save


def walk(index: Index, row: int, rows: Rows) -> Walked:
    """Let all items pass a plan: its checkpoints, and its model's schedule."""
    package = index.package
    assert package is not None
    order = [int(one) for part in _columns(index) for one in part]
    values = rows[:, order]
    models = package.models
    whole = models[row].predict(values)
    answers, open_ = whole.copy(), np.ones(len(rows), np.bool_)
    fallbacks = package.fallbacks[row]
    margins = package.margins[row] if package.margins else ()
    early = np.zeros(len(fallbacks))
    for k, margin in enumerate(margins[:-1]):
        if np.isfinite(margin):
            sure, chosen = answers_of(models[fallbacks[k]], values)
            stops = open_ & (sure > margin)
            answers[stops], early[k] = chosen[stops], stops.mean()
            open_ &= ~stops
    model_s, features_s = package.checked_s[row], (len(fallbacks) - 1) * COST_S
    saved_s = sum(s * (features_s - k * COST_S) for k, s in enumerate(early))
    schedule = package.early_exits[row] if package.early_exits else None
    if schedule is not None:
        at = schedule.choices(values)[0]
        answers[open_] = schedule.classifier.classes[at][open_]
        saved_s += (model_s - package.mean_s[row]) * open_.mean()
    return Walked(whole, answers, saved_s / (features_s + model_s))


def _columns(index: Index) -> list[NDArray[np.int64]]:
    """The columns of the table that each feature of an index holds, in its order."""
    assert index.package is not None
    found = []
    for feature in index.package.features:
        assert feature.reads is not None
        found.append(np.array([int(name[1:]) for name in feature.reads]))
    return found


def built(name: str, seed: int, given: Path, quick: bool) -> list[dict[str, Any]]:
    """What the plans of one build do with fresh items."""
    items = items_of(name, seed, given, quick)
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        index = build(project(name, items, place, seed, quick), cache=place / "cache")
    assert index.package is not None
    told = index.package.meta["exits"]
    plans = []
    for row, mask in enumerate(index.package.masks.tolist()):
        walked = walk(index, row, items.fresh) if mask else None
        if walked is None or len({*walked.whole.tolist()}) < 2:
            continue  # it answers the same class always
        shares = told.get("alphas") or [told.get("alpha", 0.0)] * 2
        changed = walked.whole != walked.answers
        own = [changed[walked.whole == k].mean() for k in (0, 1)]
        rare = items.fresh_codes == 1
        plans.append(
            {
                "broken": any(own[k] > shares[k] for k in (0, 1)),
                "exits": bool(changed.any() or walked.saved),
                "changed": own,
                "lost": np.mean(walked.whole[rare] == 1)
                - np.mean(walked.answers[rare] == 1),
                "recall": np.mean(walked.whole[rare] == 1),
                "saved": walked.saved,
                "last": row == len(index.package.masks) - 1,
            }
        )
    return plans


def row_of(plans: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """What all builds of one set show together."""
    best = [plan for plan in plans if plan["last"]] or [{"recall": 0, "saved": 0}]
    return {
        "plans": len(plans),
        "with exits": sum(plan["exits"] for plan in plans),
        "broken": sum(plan["broken"] for plan in plans),
        "changed, rare": max(plan["changed"][1] for plan in plans),
        "changed, other": max(plan["changed"][0] for plan in plans),
        "recall, whole": float(np.mean([plan["recall"] for plan in best])),
        "recall lost, mean": float(np.mean([plan["lost"] for plan in plans])),
        "recall lost, most": max(plan["lost"] for plan in plans),
        "saved": float(np.mean([plan["saved"] for plan in plans])),
    }


def main(arguments: list[str] | None = None) -> None:
    """Run the benchmark."""
    parser = report.options(__name__, data=True)
    parser.add_argument("--sets", nargs="+", choices=SETS, default=list(SETS))
    parser.add_argument("--builds", type=int, default=BUILDS)
    args: argparse.Namespace = parser.parse_args(arguments)
    sets, count = list(args.sets), args.builds
    if args.quick:
        sets, count = ["drawn, alpha by class"], 1
    elif "adult" in sets:
        report.need(args, "adult")
    found = {}
    for name in sets:
        plans = [
            plan
            for seed in range(count)
            for plan in built(name, seed, args.data_folder, args.quick)
        ]
        found[name] = row_of(plans)
    report.tell({f"{count} builds of each set": found}, args)


if __name__ == "__main__":
    main()
