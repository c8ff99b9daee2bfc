"""What are early exits in an index worth to who asks a server: time, and what changes?

python -m benchmarks served_exits                           all parts
python -m benchmarks served_exits --parts ensembles         one of them
python -m benchmarks served_exits --cases "adult lattices"  one case

Every index is built of the same items twice, with early exits and with `exits = "off"`,
and asked about items that no build has seen.

    ensembles  each item once through the engine, by whole plans and with exits of all
               kinds: accuracy, mean and 99 % microseconds, base models, changed
               answers; what exits add to a build and its file
    budgets    through the engine and over HTTP, by the caller's clock, at several
               budgets: accuracy, mean and 99 % microseconds, share in time
    path       what following a schedule costs where none of its exits is taken

Engine and server run on one core each; contenders are asked in turn.
"""

import gc
import http.client
import json
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polydom.features.items import Item, make_item
from polydom.features.threads import one_thread
from polydom.indexer import Index, build
from polydom.indexer.building.project import Project
from polydom.models.early_exit.ensemble import as_ensemble
from polydom.server.engine.budget import Allowance, Deadline
from polydom.server.engine.execution import execute
from polydom.server.engine.outcome import Outcome
from polydom.server.engine.planner import Planner
from polydom.server.engine.request import Request
from polydom.server.settings import Settings

from .. import report
from ..data.kept_items import FOLDERS, KEPT, TEXT_FEATURES, thyroid_columns
from ..data.recording import FEATURES
from ..places import ROOT
from ..serving.served import serving

PARTS = ("ensembles", "budgets", "path")
OWN = ROOT / "benchmarks" / "data" / "wide_words.py"
ALL_OF_ADULT = {
    "columns": [{"name": "person", "columns": [f"x{j}" for j in range(14)]}]
}


@dataclass(frozen=True)
class Effort:
    """Items asked about, budgets from the cheapest plan's on, who is asked over HTTP.

    And rounds of the last part.
    """

    asked: int
    budgets: int
    served: tuple[str, ...]
    rounds: int


FULL, QUICK = Effort(3_000, 6, ("whole", "early"), 15), Effort(40, 2, ("early",), 1)


@dataclass(frozen=True)
class Case:
    """A set of items, and what is learned from it.

    Attributes
    ----------
    items
        Key of `KEPT`.
    about
        Gives what the project says; the data are added.
    alpha
        What exits may change: the default needs 598 items to calibrate on, which small
        sets do not have.
    confidence
        In that; 0 needs few items.
    """

    items: str
    about: Callable[[], dict[str, Any]]
    alpha: float = 0.005
    confidence: float = 0.95

    def project(self, exits: bool) -> Project:
        """Make the project, with exits or without."""
        terms = {"alpha": self.alpha, "confidence": self.confidence} if exits else "off"
        return Project.from_mapping(
            {
                "data": {"items": f"benchmarks.data.kept_items:build_{self.items}"},
                **self.about(),
                "exits": terms,
            },
            folder=ROOT,
        )


def adult(learner: dict[str, Any]) -> Case:
    """All 14 columns at once: what is to be saved is the ensemble."""
    return Case("adult", lambda: {"features": ALL_OF_ADULT, "learner": learner})


CASES = {
    "adult lattices": adult(
        {
            "name": "lattices",
            "n_lattices": 500,
            "inputs_per_lattice": 8,
            "epochs": 4,
        }
    ),
    "adult forest": adult({"name": "forest", "n_estimators": 500, "n_jobs": 2}),
    "adult lightgbm": adult(
        {"name": "lightgbm", "n_estimators": 500, "max_depth": 5, "n_jobs": 2}
    ),
    "adult xgboost": adult({"name": "xgboost", "n_estimators": 500, "max_depth": 5}),
    "adult hist_boosting": adult({"name": "hist_boosting", "max_iter": 500}),
    "films linear": Case(
        "films",
        lambda: {
            "features": {"use": ["wide_vocabulary"], "files": [str(OWN)]},
            "learner": {"name": "logistic", "C": 10.0},
            "search": {"held_out": 0.4},
        },
        alpha=0.02,
    ),
    "scenes": Case(
        "scenes",
        lambda: {
            "features": {"use": list(FEATURES)},
            "learner": {"name": "lda"},
            "search": {"method": "greedy-acc", "held_out": 0.33},
        },
        alpha=0.01,
    ),
    "films": Case(
        "films",
        lambda: {
            "features": {"use": TEXT_FEATURES},
            "learner": {"name": "logistic", "C": 0.01},
            "search": {"alpha": 1.05, "held_out": 0.4},
        },
        alpha=0.02,
    ),
    "thyroid": Case(
        "thyroid",
        lambda: {
            "features": {"columns": thyroid_columns()},
            "learner": {"name": "lightgbm", "n_estimators": 50, "n_jobs": 1},
            "search": {"method": "greedy-acc", "held_out": 0.33},
            "costs": {"weights": {"usd": 1.0}},
        },
        alpha=0.01,
    ),
}
QUICK_CASE = Case(
    "tumours",
    lambda: {
        "features": {
            "columns": [{"name": "all", "columns": [f"x{j}" for j in range(30)]}]
        },
        "learner": {"name": "forest", "n_estimators": 20, "n_jobs": 1},
        "search": {"method": "greedy-acc", "held_out": 0.33},
        "costs": {"items": 20, "repeats": 1},
        "workers": 1,
    },
    alpha=0.05,
    confidence=0.0,
)


@dataclass(frozen=True)
class Built:
    """One case, built whole and with exits, and the items to ask about."""

    case: Case
    whole: Index
    early: Index
    facts: dict[str, Any]
    items: list[Item]
    labels: list[str]
    paths: tuple[Path, Path]

    @property
    def money(self) -> bool:
        """Whether costs are no times."""
        return "weights" in self.case.about().get("costs", {})


def make(name: str, case: Case, folder: Path, asked: int) -> Built:
    """Build a case twice, with the same measured times."""
    seconds = []
    paths = folder / "whole.pdx", folder / "early.pdx"
    indexes = []
    for path in paths:
        start_s = time.perf_counter()
        plan = case.project(exits=path.stem == "early")
        indexes.append(build(plan, output=path, cache=folder / path.stem))
        seconds.append(time.perf_counter() - start_s)
    whole, early = indexes
    given = list(KEPT[case.items]())
    order = np.random.default_rng(0).permutation(len(given))[:asked]
    sizes = [path.stat().st_size for path in paths]
    package = early.package
    assert package is not None
    facts = {
        "case": name,
        "build_s": seconds[0],
        "with exits_s": seconds[1],
        "bytes": sizes[0],
        "with exits": sizes[1],
        "models that stop": sum(one is not None for one in package.early_exits),
        "plans with checkpoints": sum(
            bool(np.isfinite(own).any()) for own in package.margins
        ),
        "lacking": package.meta["exits"].get("lacking", ""),
    }
    return Built(
        case,
        whole,
        early,
        facts,
        [make_item(given[i][0]) for i in order],
        [given[i][1] for i in order],
        paths,
    )


def planner_of(index: Index) -> Planner:
    """A planner for this process."""
    assert index.package is not None
    return Planner(index, index.package.extractor([OWN]))


def answer_all(
    planner: Planner, items: list[Item], budget_s: float | None, *, exact: bool = False
) -> tuple[list[Outcome], NDArray[np.float64]]:
    """Outcomes of all items, one after the other, and the seconds each took."""
    outcomes, seconds = [], []
    gc.disable()  # what is kept here is no server's
    for item in items:
        start_s = time.perf_counter()
        budget = Allowance(1e9) if budget_s is None else Deadline(start_s, budget_s)
        outcomes.append(execute(planner, Request(item, budget, exact=exact)))
        seconds.append(time.perf_counter() - start_s)
    gc.enable()
    return outcomes, np.array(seconds)


def summary(
    outcomes: list[Outcome], labels: list[str], seconds: NDArray[np.float64]
) -> dict[str, Any]:
    """What one way of answering gave."""
    shares = [
        one.base_models_used / one.base_models
        for one in outcomes
        if one.base_models_used and one.base_models
    ]
    right = [one.label == label for one, label in zip(outcomes, labels, strict=True)]
    return {
        "accuracy": float(np.mean(right)),
        "mean_us": float(seconds.mean() * 1e6),
        "p99_us": float(np.quantile(seconds, 0.99) * 1e6),
        "charged": float(np.mean([one.charged for one in outcomes])),
        "base models": float(np.mean(shares)) if shares else None,
        "p99 of them": float(np.quantile(shares, 0.99)) if shares else None,
    }


def whole_plans(index: Index) -> Index:
    """The same models and plans, none of which answers early."""
    package = index.package
    assert package is not None
    bare = replace(package, margins=(), early_exits=(), ends=(), typical=np.empty(0))
    bare = replace(bare, whole_s=np.empty(0), mean_s=np.empty(0))
    return replace(index, package=bare)


def ensembles(built: Built) -> Iterator[dict[str, Any]]:
    """The dearest plan of every item, whole and early, and of an index without exits.

    "whole" and "early" are of one index, so of the same models.
    """
    planners = {
        "built without": planner_of(built.whole),
        "whole": planner_of(whole_plans(built.early)),
        "early": planner_of(built.early),
    }
    with one_thread():
        for planner in planners.values():
            answer_all(planner, built.items[:50], None)
        answers = {
            name: answer_all(planner, built.items, None)
            for name, planner in planners.items()
        }
    own = [one.label for one in answers["whole"][0]]
    for name, (outcomes, seconds) in answers.items():
        labels = [one.label for one in outcomes]
        changed = [a != b for a, b in zip(labels, own, strict=True)]
        yield {
            "case": built.facts["case"],
            "answers": name,
            **summary(outcomes, built.labels, seconds),
            "stopped": float(np.mean([one.scores is None for one in outcomes])),
            "sure": float(np.mean([one.reason == "sure" for one in outcomes])),
            "changed": None if name == "built without" else float(np.mean(changed)),
            "promised": built.case.alpha if name == "early" else None,
        }


def budgets_of(built: Built, count: int) -> list[float]:
    """Seconds from what the cheapest plan takes to what the dearest does."""
    index = built.whole
    size = built.items[len(built.items) // 2].size
    costs = [index.cost_s(int(row), size) for row in index.skyline(size)]
    first_s, last_s = max(costs[0], 2e-5), 2 * costs[-1]
    return [float(x) for x in np.geomspace(first_s, last_s, count)]


def by_budget(built: Built, effort: Effort) -> Iterator[dict[str, Any]]:
    """Both indexes at several budgets: in this process, and by a server."""
    if built.money:
        yield from by_money(built)
        return
    budgets = budgets_of(built, effort.budgets)
    for way, index in (("whole", built.whole), ("early", built.early)):
        planner = planner_of(index)
        with one_thread():
            answer_all(planner, built.items[:50], budgets[-1])
            for budget_s in budgets:
                outcomes, seconds = answer_all(planner, built.items, budget_s)
                yield {
                    "case": built.facts["case"],
                    "through": "engine",
                    "answers": way,
                    "budget_ms": budget_s * 1e3,
                    **summary(outcomes, built.labels, seconds),
                    "in time": float(np.mean(seconds <= budget_s)),
                }
    # over HTTP what is kept for sending comes on top
    for way, path in zip(("whole", "early"), built.paths, strict=True):
        if way not in effort.served:
            continue
        with serving(path, Settings(), files=[OWN]) as port:
            ask(built, port, budgets[-1] + 1e-3, 50)
            for budget_s in budgets:
                yield {
                    "case": built.facts["case"],
                    "through": "HTTP",
                    "answers": way,
                    **ask(built, port, budget_s + 1e-3, len(built.items)),
                }


def by_money(built: Built) -> Iterator[dict[str, Any]]:
    """Both indexes at several amounts: what is spent, and how many are right."""
    index = built.whole
    costs = [index.cost_s(int(row), 1.0) for row in index.skyline(1.0)]
    for way, index in (("whole", built.whole), ("early", built.early)):
        planner = planner_of(index)
        for amount in costs:
            outcomes = [
                execute(planner, Request(item, Allowance(amount)))
                for item in built.items
            ]
            yield {
                "case": built.facts["case"],
                "through": "engine",
                "answers": way,
                "budget": amount,
                **summary(outcomes, built.labels, np.zeros(len(outcomes))),
            }


def body_of(item: Item) -> tuple[bytes, str]:
    """Body and content type of a request about an item."""
    payload = item.payload
    if isinstance(payload, bytes):
        return payload, "image/jpeg"
    if isinstance(payload, str):
        return payload.encode(), "text/plain"
    return json.dumps({"record": payload}).encode(), "application/json"


def ask(built: Built, port: int, budget_s: float, count: int) -> dict[str, Any]:
    """Send some items over one connection, one at a time."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    path = f"/v1/predict?budget_ms={budget_s * 1e3}"
    right, seconds, met = [], [], []
    for item, label in zip(built.items[:count], built.labels, strict=False):
        body, kind = body_of(item)
        start_s = time.perf_counter()
        connection.request("POST", path, body, {"Content-Type": kind})
        reply = connection.getresponse().read()
        seconds.append(time.perf_counter() - start_s)
        answer = json.loads(reply)
        right.append(answer["label"] == label)
        met.append(answer["budget_met"])
    connection.close()
    taken = np.array(seconds)
    return {
        "budget_ms": budget_s * 1e3,
        "accuracy": float(np.mean(right)),
        "mean_us": float(taken.mean() * 1e6),
        "p99_us": float(np.quantile(taken, 0.99) * 1e6),
        "in time": float(np.mean(taken <= budget_s)),
        "in time by the server": float(np.mean(met)),
    }


def path_cost(built: Built, rounds: int) -> dict[str, Any]:
    """The least seconds of many rounds: no schedule, and one that never stops."""
    package = built.early.package
    assert package is not None
    never = tuple(
        None
        if one is None
        else as_ensemble(one.classifier).early_exit(one.schedule.without_stops())
        for one in package.early_exits
    )
    bare = replace(package, early_exits=(), whole_s=np.empty(0))
    planners = {
        "without a schedule": planner_of(replace(built.early, package=bare)),
        "a schedule that never stops": planner_of(
            replace(built.early, package=replace(package, early_exits=never))
        ),
        "the schedule": planner_of(built.early),
    }
    least = dict.fromkeys(planners, np.inf)
    with one_thread():
        for _ in range(rounds):
            for name, planner in planners.items():
                _, seconds = answer_all(planner, built.items[:500], None)
                least[name] = min(least[name], float(seconds.mean()))
    facts = {name: taken * 1e6 for name, taken in least.items()}
    without, whole, _ = facts.values()
    return {"case": built.facts["case"], **facts, "more": whole / without - 1}


def main(arguments: list[str] | None = None) -> None:
    """Run the benchmark."""
    parser = report.options(__name__, data=True)
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=PARTS)
    parser.add_argument("--cases", nargs="+", choices=CASES, default=list(CASES))
    parser.add_argument("--asked", type=int, default=FULL.asked, help="items of a case")
    parser.add_argument("--cache", type=Path, help="keep the builds' caches here")
    args = parser.parse_args(arguments)
    chosen, effort = {"tumours forest": QUICK_CASE}, QUICK
    if not args.quick:
        chosen = {name: CASES[name] for name in args.cases}
        report.need(args, *{FOLDERS[case.items] for case in chosen.values()})
        effort = replace(FULL, asked=args.asked)
    found: dict[str, list[dict[str, Any]]] = {"builds": []}
    found |= {part: [] for part in args.parts}
    with tempfile.TemporaryDirectory() as kept:
        for name, case in chosen.items():
            folder = (args.cache or Path(kept)) / name.replace(" ", "-")
            folder.mkdir(parents=True, exist_ok=True)
            built = make(name, case, folder, effort.asked)
            found["builds"].append(built.facts)
            if "ensembles" in found:
                found["ensembles"] += ensembles(built)
            if "budgets" in found:
                found["budgets"] += by_budget(built, effort)
            if "path" in found and built.facts["models that stop"]:
                found["path"].append(path_cost(built, effort.rounds))
    report.tell(found, args)


if __name__ == "__main__":
    main()
