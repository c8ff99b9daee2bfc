"""Whether what `polydom init` writes does as well as a few lines of scikit-learn.

python -m benchmarks defaults                                   about 20 minutes
python -m benchmarks defaults --only texts
python -m benchmarks defaults --sets covertype --items 4000

For each data set the project that `polydom init` writes is built as it is, of items
under the names that it gives them, and baselines are fitted on the same items, with one
process and one thread each. Of the items that are kept, which nobody has seen, all are
asked one at a time by one clock, in turn, as by `polydom evaluate`: first the
baselines, then the best of them, by these very answers, and the index within "a fifth":
a fifth of what the best baseline takes in the median, the whole of that, and a second.

`+-` is the standard error of the accuracy, `behind` the points behind the best
baseline, with the standard error of the paired difference. The goal: behind by at most
0.2 points, or one standard error of the accuracy, within a second, and by less than 1
point within a fifth. `--seeds` builds and fits so often, and gives the means; `--items`
cuts the items built of to so many, and those kept to a third of that.
"""

import csv
import json
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import msgspec
import numpy as np
from numpy.typing import NDArray

from polydom.features.threads import one_thread
from polydom.indexer import build
from polydom.indexer.building.project import Project
from polydom.server.cli.building.init import Start, init
from polydom.server.cli.process import prints_to_stderr
from polydom.server.engine.loading import load_index
from polydom.server.evaluation import comparison
from polydom.server.evaluation.labelled_items import LabelledItem, read_labelled
from polydom.server.evaluation.predictors import IndexWithin, PlainAnswer, Predictor
from polydom.server.runtime.translator import AtOnce
from polydom.server.runtime.warm_up import open_translator
from polydom.server.schema.wire import Terms

from .. import report
from .baselines import BASELINES, Answer
from .default_sets import QUICK, SETS, DefaultSet, Items, cut

LARGE_MS = 1000.0
SHARE = 0.2  # of the best baseline's time
GOAL = 0.002  # points behind it, within a large budget
GOAL_AT_SHARE = 0.01
QUICK_ITEMS = 90
QUICK_SEARCH_S = 0.2

A_FIFTH, A_SECOND = "polydom, a fifth", "polydom, a second"
BUDGETS = (A_FIFTH, "polydom, as long", A_SECOND)

Kind = Literal["texts", "tables", "images"]
Asked = tuple[NDArray[np.bool_], NDArray[np.float64]]  # whether right, milliseconds

START = {"texts": "texts", "tables": "table", "images": "images"}  # for `init --kind`
ENDINGS = {"texts": ".jsonl", "tables": ".csv", "images": ""}


@dataclass
class Account:
    """What came of asking one contender for all kept items, once for each seed."""

    right: list[NDArray[np.bool_]] = field(default_factory=list)
    took_ms: list[NDArray[np.float64]] = field(default_factory=list)
    prepared_s: list[float] = field(default_factory=list)
    budget_ms: list[float] = field(default_factory=list)

    @property
    def share(self) -> NDArray[np.float64]:
        """How often each item was answered rightly."""
        found: NDArray[np.float64] = np.mean(self.right, axis=0)
        return found

    @property
    def accuracy(self) -> float:
        """The mean of that."""
        return float(self.share.mean())

    @property
    def error(self) -> float:
        """Standard error of the accuracy."""
        return _error(self.share)

    def facts(self, best: "Account") -> dict[str, Any]:
        """A line of the table, beside the best baseline."""
        lost = best.share - self.share
        times = np.concatenate(self.took_ms)
        facts: dict[str, Any] = {
            "accuracy": self.accuracy,
            "+-": self.error,
            "behind": 100 * lost.mean(),
            "+- ": 100 * _error(lost),
            "p50 ms": float(np.median(times)),
            "p99 ms": float(np.quantile(times, 0.99)),
            "minutes": float(np.mean(self.prepared_s)) / 60,
        }
        if self.budget_ms:
            pairs = zip(self.took_ms, self.budget_ms, strict=True)
            inside = [np.mean(took <= budget) for took, budget in pairs]
            facts["budget ms"] = float(np.mean(self.budget_ms))
            facts["in time"] = float(np.mean(inside))
        return facts


class Baseline:
    """A baseline that is asked beside an index."""

    features = None

    def __init__(self, name: str, ask: Answer) -> None:
        self.name = name
        self._ask = ask

    def answer(self, item: LabelledItem) -> PlainAnswer:
        """Answer the item as it is."""
        return PlainAnswer(self._ask(item.whole))


def write_items(kind: Kind, items: Items, place: Path) -> None:
    """Write labelled items as `polydom build` and `evaluate` read them."""
    if kind == "texts":
        rows = [json.dumps({"text": text, "label": label}) for text, label in items]
        place.write_text("\n".join(rows), "utf-8")
    elif kind == "tables":
        with place.open("w", newline="", encoding="utf-8") as file:
            table = csv.writer(file)
            table.writerow([*items[0][0], "label"])
            table.writerows([*record.values(), label] for record, label in items)
    else:
        for number, (data, label) in enumerate(items):
            ending = "png" if data.startswith(b"\x89PNG") else "jpg"
            path = place / label / f"{number:05d}.{ending}"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)


def build_default(
    kind: Kind,
    items: Items,
    seed: int,
    folder: Path,
    quick: bool,
    learner: dict[str, Any] | None = None,
    **changes: Any,
) -> Path:
    """Build what `polydom init` writes, perhaps with another learner; its file.

    `changes` replace further parts of the project.
    """
    with prints_to_stderr():
        init(folder / "PROJECT.toml", Start(START[kind]))
    project = Project.load(folder / "PROJECT.toml")
    source = project.data.texts or project.data.table or project.data.images
    assert source is not None
    write_items(kind, items, folder / source)
    project = msgspec.structs.replace(project, seed=seed, workers=1, **changes)
    if learner is not None:
        project = msgspec.structs.replace(project, learner=learner)
    if quick:
        search = msgspec.structs.replace(project.search, budget_s=QUICK_SEARCH_S)
        costs = msgspec.structs.replace(project.costs, items=12, repeats=3)
        project = msgspec.structs.replace(project, search=search, costs=costs)
    build(project, output=folder / "own.pdx")
    return folder / "own.pdx"


def ask_all(
    contenders: Sequence[Predictor], items: list[LabelledItem], seed: int
) -> list[Asked]:
    """Ask each for every item: whether it was right, and the milliseconds it took."""
    asked = comparison.Comparison(items, contenders, seed=seed)
    asked.warm_up()
    asked.run(lambda done, left=None: None)
    rounds = sorted(asked.trials, key=lambda one: one.position)
    found = []
    for place in range(len(contenders)):
        replies = [(one.replies[place], one.item.label) for one in rounds]
        right = [r.answer is not None and r.answer.label == own for r, own in replies]
        took_ms = [1e3 * reply.took_s for reply, _ in replies]
        found.append((np.array(right), np.array(took_ms)))
    return found


class Comparison:
    """What `polydom init` writes against the baselines, on one data set.

    Attributes
    ----------
    accounts
        By name of who was asked.
    """

    def __init__(self, kind: Kind, own: Items, kept: Items, *, quick: bool) -> None:
        self.accounts: dict[str, Account] = {}
        self._kind = kind
        self._own = own
        self._kept = kept
        self._quick = quick

    def run(self, seed: int) -> None:
        """Build, fit and ask."""
        fitted = self._fit(seed)
        with tempfile.TemporaryDirectory() as folder:
            at_once, items = self._build(seed, Path(folder))
            found = self._ask(fitted, at_once, items, seed)
        for name, (right, took_ms) in found.items():
            self._account(name).right.append(right)
            self._account(name).took_ms.append(took_ms)

    def _fit(self, seed: int) -> list[Baseline]:
        fitted = []
        for name, fit in BASELINES[self._kind].items():
            began_s = time.perf_counter()
            fitted.append(Baseline(name, fit(self._own, seed, self._quick)))
            self._account(name).prepared_s.append(time.perf_counter() - began_s)
        return fitted

    def _build(self, seed: int, folder: Path) -> tuple[AtOnce, list[LabelledItem]]:
        """Build the index, and read the kept items as it needs them."""
        began_s = time.perf_counter()
        path = build_default(self._kind, self._own, seed, folder, self._quick)
        build_s = time.perf_counter() - began_s
        for name in BUDGETS:
            self._account(name).prepared_s.append(build_s)
        index, package = load_index(path)
        kept = folder / f"kept{ENDINGS[self._kind]}"
        write_items(self._kind, self._kept, kept)
        items = read_labelled(kept, index, package, whole=True).items
        assert len(items) == len(self._kept)
        return AtOnce(open_translator(index, [])), items

    def _ask(
        self,
        fitted: list[Baseline],
        at_once: AtOnce,
        items: list[LabelledItem],
        seed: int,
    ) -> dict[str, Asked]:
        """Ask the baselines, then the best of them and the index in turn."""
        asked = ask_all(fitted, items, seed)
        found = dict(zip(BASELINES[self._kind], asked, strict=True))
        best = max(fitted, key=lambda one: found[one.name][0].mean())
        median_ms = float(np.median(found[best.name][1]))
        budgets = [SHARE * median_ms, median_ms, LARGE_MS]
        within = [IndexWithin(at_once.answer, Terms(budget_ms=one)) for one in budgets]
        again = ask_all([best, *within], items, seed)
        for name, budget in zip(BUDGETS, budgets, strict=True):
            self._account(name).budget_ms.append(budget)
        return found | dict(zip([best.name, *BUDGETS], again, strict=True))

    def _account(self, name: str) -> Account:
        return self.accounts.setdefault(name, Account())

    def table(self) -> dict[str, dict[str, Any]]:
        """Lines by contender, and for the index whether it does what it is to do."""
        rivals = [self.accounts[name] for name in BASELINES[self._kind]]
        best = max(rivals, key=lambda account: account.accuracy)
        table = {name: one.facts(best) for name, one in self.accounts.items()}
        for name, one in self.accounts.items():
            lost = best.accuracy - one.accuracy
            if one is best:
                table[name]["goal held?"] = "best"
            elif name == A_FIFTH:
                table[name]["goal held?"] = _yes(lost < GOAL_AT_SHARE)
            elif name == A_SECOND:
                table[name]["goal held?"] = _yes(lost <= max(GOAL, one.error))
        return table


def line(table: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Give the best baseline of a set's table, and the index beside it, in one line."""
    best = next(name for name in table if table[name].get("goal held?") == "best")
    large, fifth = table[A_SECOND], table[A_FIFTH]
    return {
        "best baseline": best,
        "accuracy": table[best]["accuracy"],
        "ms": table[best]["p50 ms"],
        "minutes": table[best]["minutes"],
        "own": large["accuracy"],
        "behind": large["behind"],
        "+-": large["+- "],
        "ms ": large["p50 ms"],
        "minutes ": large["minutes"],
        "a fifth ms": fifth["budget ms"],
        "own ": fifth["accuracy"],
        "behind ": fifth["behind"],
        "+- ": fifth["+- "],
        "goal held?": f"{large['goal held?']}, {fifth['goal held?']}",
    }


def _error(values: NDArray[Any]) -> float:
    return float(values.std() / len(values) ** 0.5)


def _yes(held: bool) -> str:
    return "yes" if held else "no"


def compare(kind: Kind, given: DefaultSet, args: Any) -> tuple[str, dict[str, Any]]:
    """Compare on one set: what there is to know of it, and the table."""
    own, kept = given.load()
    count = QUICK_ITEMS if args.quick else args.items
    if count is not None:
        own, kept = cut(own, count), cut(kept, count // 3)
    comparison = Comparison(kind, own, kept, quick=args.quick)
    for seed in range(args.seeds):
        comparison.run(seed)
    told = (
        f"{len(own):,} to build of, {len(kept):,} kept; of it defaults were chosen by "
    )
    return told + given.seen, comparison.table()


def named(
    sets: Mapping[str, Mapping[str, DefaultSet]], only: str | None, names: str | None
) -> list[tuple[Any, str, DefaultSet]]:
    """Give the sets that were asked for, each with its kind and its name."""
    wanted = None if names is None else names.split(",")
    found = [
        (kind, name, given)
        for kind, own in sets.items()
        for name, given in own.items()
        if only in (None, kind) and (wanted is None or name in wanted)
    ]
    if wanted is not None and len(found) < len(wanted):
        known = ", ".join(name for own in sets.values() for name in own)
        sys.exit(f"--sets {names}: not all of these are there; there are {known}")
    return found


def main(arguments: list[str] | None = None) -> None:
    """Run the benchmark."""
    parser = report.options(__name__, data=True)
    parser.add_argument(
        "--only", choices=SETS, help="items of one kind; --quick: default texts"
    )
    parser.add_argument("--sets", help="some of the data sets, by comma")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--items", type=int, help="build of so many")
    given = parser.parse_args(arguments)
    if given.quick:
        chosen = named(QUICK, given.only or "texts", given.sets)
    else:
        chosen = named(SETS, given.only, given.sets)
    facts: dict[str, Any] = {}
    lines: dict[str, dict[str, Any]] = {}
    with one_thread():
        for kind, name, one in chosen:
            if one.folder is not None:
                report.need(given, one.folder)
            began_s = time.perf_counter()
            told, table = compare(kind, one, given)
            facts |= {f"{kind}: {name}, items": told, f"{kind}: {name}": table}
            lines[name] = line(table)
            took_s = time.perf_counter() - began_s
            print(f"{kind}, {name}: {took_s / 60:.1f} minutes", file=sys.stderr)
    report.tell(facts | {"in one line each": lines}, given)
