"""What choosing a learner costs, and what it loses, against training them all.

python -m benchmarks.learners.bench_selection run higgs --seed 0 --strategy record
python -m benchmarks.learners.bench_selection run              every piece not yet measured
python -m benchmarks.learners.bench_selection table [--json]   what has been measured so far
python -m benchmarks.learners.bench_selection replay [--json]  strategies over the recordings
python -m benchmarks.learners.bench_selection judge [--json]    the same, constants found elsewhere
python -m benchmarks.learners.bench_selection plot higgs --seed 0 curves and allocations (PNG)

Each measured piece (set, seed, portfolio, strategy) is a line of `--results`; pieces
found there are skipped, and an interrupted one continues from its log beside it.
Seconds are CPU seconds, one thread, training and validating. Losses are in points of
validation accuracy against the best of all learners trained on all rows, so `record`
has to be run first: it trains every learner on N, N / 3 ... N / 243 rows. Every
strategy sees the same training and validation rows.

`replay` runs strategies over what `record` left instead of training anything: learning
curves straight between the recorded sizes, seconds as recorded, five draws of the noise
of fewer validation rows (ours has at least 2,000, halving a share of them, the others
all, with five orders of Optuna's trials). Strategies repeat themselves exactly there.
DAUB's training scores cost nothing there. `--only servable` replays with the servable
learners of scikit-learn alone, `--only auto` with those that `learner = "auto"` has.
`judge` replays `gain-per-second` on each set with the constants that are best on all
other sets: the fastest of a grid that loses at most 0.4 points on average, the worst
set apart. The last line has the means.

FLAML gets about as many CPU seconds as `gain-per-second` took on the same piece.
"""

import argparse
import json
import math
import statistics
import warnings
from collections.abc import Callable, Iterable
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from polydom.features.threads import one_thread
from polydom.models.selection.daub import daub, train_all
from polydom.models.selection.gain_per_second import gain_per_second
from polydom.models.selection.portfolio import SERVABLE, installed, make_portfolio
from polydom.models.selection.race import Race
from polydom.models.selection.select import Running, Selection, select

from .. import report
from ..figures import figure_at
from . import learning_sets
from .recorded import Recording, ladder
from .rivals import Found, flaml_automl, halving_grid, halving_rule, optuna_rule

SEEDS = (0, 1, 2)
LEAST_VALID = 2000  # what `learner = "auto"` has
SCORED = 4000  # rows trained on, at most, that give a recording its training scores


def wide(seed: int) -> dict[str, Any]:
    """Make the servable learners and the costly families DAUB's portfolio had."""
    from sklearn.discriminant_analysis import QuadraticDiscriminantAnalysis
    from sklearn.neighbors import KNeighborsClassifier, NearestCentroid
    from sklearn.neural_network import MLPClassifier
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler
    from sklearn.svm import SVC

    costly = {
        "svm": SVC(),
        "svm, C 10": SVC(C=10.0),
        "svm, narrow": SVC(C=10.0, gamma=0.01),
        "svm, cubic": SVC(kernel="poly"),
        "mlp, 50": MLPClassifier((50,)),
        "mlp, 100": MLPClassifier((100,)),
        "mlp, 100 + 100": MLPClassifier((100, 100)),
        "1 neighbour": KNeighborsClassifier(1),
        "5 neighbours": KNeighborsClassifier(5),
        "25 neighbours": KNeighborsClassifier(25),
        "centroid": NearestCentroid(),
        "qda": QuadraticDiscriminantAnalysis(reg_param=0.01),
    }
    scaled = {k: make_pipeline(StandardScaler(), v) for k, v in costly.items()}
    return {**auto(seed), **scaled}


def auto(seed: int) -> dict[str, Any]:
    """Make what `learner = "auto"` races here."""
    return make_portfolio(installed(), seed)


PORTFOLIOS: dict[str, Callable[[int], dict[str, Any]]] = {
    "wide": wide,
    "servable": lambda seed: make_portfolio(SERVABLE, seed),
    "auto": auto,
}


def selecting(
    strategy: Callable[[Race], str],
    scored: int | None = 0,
    least_valid: int | None = None,
) -> Any:
    """Measure one of our own strategies; the log is kept so that it can continue."""

    def measure(learners: dict[str, Any], data: Found, seed: int, kept: Path) -> Found:
        past = read_lines(kept)
        kept.write_text("")

        def keep(race: Race) -> None:
            append(kept, race.log[-1].to_dict())

        chosen = select(
            learners,
            **data,
            strategy=strategy,
            scored=scored,
            least_valid=least_valid,
            seed=seed,
            running=Running(log=past, progress=keep),
        )
        validated = len(data["validation"][1])
        return describe(chosen) | {"validated": validated, "scored": scored}

    return measure


def describe(chosen: Selection) -> Found:
    final = {
        name: curve[-1].score
        for name, curve in chosen.curves.items()
        if curve and curve[-1].amount == chosen.amount
    }
    return {
        "chosen": chosen.name,
        "seconds": chosen.seconds,
        "samples": sum(line.spent for line in chosen.log),
        "trainings": len(chosen.log),
        "failed": dict(chosen.failed),
        "final": final,
        "full_s": sum(
            line.seconds for line in chosen.log if line.amount == chosen.amount
        ),
    }


STRATEGIES: dict[str, Any] = {
    "record": selecting(ladder, scored=SCORED),
    "gain-per-second": selecting(gain_per_second, least_valid=LEAST_VALID),
    "halving-grid": halving_grid,
    "flaml": flaml_automl,
    "daub": selecting(partial(daub, granularity=500, ratio=1.5), scored=None),
    "daub, no training bound": selecting(
        partial(daub, granularity=500, ratio=1.5, training_bound=False)
    ),
}


def all_rows(amount: int, validated: int, *, limit: int) -> int:
    """Validate on everything."""
    return validated


def as_auto(amount: int, validated: int, *, limit: int) -> int:
    """Validate as `learner = "auto"` does."""
    return max(LEAST_VALID, 4 * amount)


def as_much(amount: int, validated: int, *, limit: int) -> int:
    """Validate on as small a share of the rows as is trained on."""
    return round(validated * amount / limit)


CHECKED = {"gain-per-second": as_auto, "halving, factor 3": as_much}


REPLAYED: dict[str, Callable[..., str]] = {
    "train all": lambda race, seed: train_all(race),
    "gain-per-second": lambda race, seed: gain_per_second(race),
    "daub": lambda race, seed: daub(race, granularity=coarse(race)),
    "daub, no training bound": lambda race, seed: daub(
        race, granularity=coarse(race), training_bound=False
    ),
    "halving, factor 3": lambda race, seed: halving_rule(race),
}
if find_spec("optuna"):
    for pruner in ("halving", "hyperband"):
        REPLAYED[f"optuna, {pruner}"] = partial(optuna_rule, pruner=pruner)

GRID = [
    {"worth": worth, "spread": spread}
    for worth in (0.00025, 0.0005, 0.00075, 0.001)
    for spread in (0.05, 0.07, 0.1)
]
ALLOWED = 0.4  # points that may be lost on average


def coarse(race: Race) -> int:
    """Give DAUB's 500 examples, or the most that three trainings leave room for."""
    assert race.limit is not None
    return min(500, math.floor(race.limit / 1.5**2))


def run(args: argparse.Namespace) -> None:
    """Measure the asked pieces that are not in the results yet."""
    done = {key(line) for line in read_lines(args.results)}
    for name in args.sets or learning_sets.SETS:
        for seed in SEEDS if args.seed is None else [args.seed]:
            data = None
            for strategy in args.strategy or STRATEGIES:
                piece = {
                    "set": name,
                    "seed": seed,
                    "rows": args.rows,
                    "portfolio": args.portfolio,
                    "strategy": strategy,
                }
                if key(piece) in done:
                    continue
                data = data or learning_sets.load(name, seed, args.rows)
                kept = args.results.with_suffix(".logs") / f"{key(piece)}.jsonl"
                kept.parent.mkdir(exist_ok=True)
                learners = PORTFOLIOS[args.portfolio](seed)
                measure = STRATEGIES[strategy]
                if strategy == "flaml":
                    measure = partial(measure, budget_s=seconds_of(args.results, piece))
                with one_thread(), warnings.catch_warnings():
                    warnings.simplefilter("ignore")  # rivals have no log for them
                    found = measure(learners, data, seed, kept)
                append(args.results, piece | found | {"machine": report.describe()})
                print(key(piece), found["chosen"], f"{found['seconds']:.1f} s")


def seconds_of(results: Path, piece: Found) -> float:
    """CPU seconds that our own strategy took on the same rows."""
    ours = [
        line["seconds"]
        for line in read_lines(results)
        if cell(line) == cell(piece) and line["strategy"] == "gain-per-second"
    ]
    if not ours:
        raise SystemExit("flaml gets gain-per-second' time: run that first")
    return float(ours[0])


def recorded(results: Path, piece: Found) -> Recording:
    """What was recorded of a piece, without the seconds of training scores."""
    log = read_lines(results.with_suffix(".logs") / f"{key(piece)}.jsonl")
    return Recording.read(log, piece["validated"], piece["scored"])


def replay(args: argparse.Namespace) -> None:
    """Run strategies over the recorded trainings, and show the same table."""
    lines: list[Found] = []
    for piece in read_lines(args.results):
        asked = not args.sets or piece["set"] in args.sets
        if piece["strategy"] != "record" or not asked:
            continue
        recording = recorded(args.results, piece)
        if args.only:
            recording = recording.only(PORTFOLIOS[args.only](piece["seed"]))
            piece = piece | {"portfolio": f"{args.only} of {piece['portfolio']}"}
        final = {name: recording.final(name) for name in recording.curves}
        lines.append(piece | {"final": final, "full_s": recording.seconds})
        for name, strategy in REPLAYED.items():
            if name == "daub" and not recording.with_training_scores:
                continue
            checked = CHECKED.get(name, all_rows)
            again = name.startswith("optuna") or name in CHECKED
            for seed in range(5 if again else 1):
                race = recording.race(partial(checked, limit=recording.limit), seed)
                chosen = strategy(race, seed=seed)
                found = {"chosen": chosen, "seconds": race.seconds, "strategy": name}
                fewer = len(final) * recording.limit / race.spent
                lines.append(piece | found | {"fewer": fewer})
    report.tell({"measured": summarise(lines)}, args.json)


def judge(args: argparse.Namespace) -> None:
    """Judge every set by the constants that are best on the others."""
    results: dict[str, list[list[Found]]] = {}
    for piece in read_lines(args.results):
        if piece["strategy"] == "record":
            recording = recorded(args.results, piece)
            group = results.setdefault(piece["set"], [[] for _ in GRID])
            for found, constants in zip(group, GRID, strict=True):
                found.append(replayed(recording, constants))
    lines = []
    for name, group in results.items():
        others = [found for other, found in results.items() if other != name]
        best = fastest(others)
        lines.append({"set": name, **GRID[best], **averaged(group[best])})
    means = {
        k: statistics.fmean(line[k] for line in lines) for k in lines[0] if k != "set"
    }
    report.tell({"left out": [*lines, {"set": "mean", **means}]}, args.json)


def replayed(recording: Recording, constants: dict[str, float]) -> Found:
    """Tell the reduction, and the points lost, of one race."""
    race = recording.race(partial(as_auto, limit=recording.limit), 0)
    chosen = gain_per_second(race, **constants)
    best = max(recording.final(name) for name in recording.curves)
    return {
        "reduction": recording.seconds / race.seconds,
        "lost": 100 * (best - recording.final(chosen)),
    }


def averaged(found: list[Found]) -> Found:
    """Average races of one set."""
    return {k: statistics.fmean(one[k] for one in found) for k in found[0]}


def fastest(sets: list[list[list[Found]]]) -> int:
    """Choose the fastest of the grid that loses no more than allowed."""
    ranked = []
    for number in range(len(GRID)):
        means = [averaged(group[number]) for group in sets]
        lost = statistics.fmean(sorted(one["lost"] for one in means)[:-1])
        speed = statistics.geometric_mean(one["reduction"] for one in means)
        ranked.append((lost <= ALLOWED, speed if lost <= ALLOWED else -lost, number))
    return max(ranked)[2]


def table(args: argparse.Namespace) -> None:
    """Show reductions and losses against training all, per set and on average."""
    lines = read_lines(args.results)
    for line in lines:
        if line["strategy"] == "record":
            line["full_s"] = recorded(args.results, line).seconds
    report.tell({"measured": summarise(lines)}, args.json)


def summarise(lines: Iterable[Found]) -> list[Found]:
    """Means over the seeds of seconds, reduction and accuracy lost (per cent)."""
    every = list(lines)
    alls = {cell(line): line for line in every if line["strategy"] == "record"}
    groups: dict[tuple[str, str], list[Found]] = {}
    for line in every:
        full = alls.get(cell(line))
        if full is None or line is full:
            continue
        best = max(full["final"].values())
        got = line.get("score", full["final"].get(line["chosen"], 0.0))
        compared = {
            "seconds": line["seconds"],
            "reduction": full["full_s"] / line["seconds"],
            "fewer": line.get("fewer", math.nan),
            "lost": 100 * (best - got),
        }
        size = "" if line["rows"] is None else f" ({line['rows']} rows)"
        place = f"{line['set']}{size}, {line['portfolio']}"
        groups.setdefault((place, line["strategy"]), []).append(compared)
    return [
        {
            "set": place,
            "strategy": strategy,
            "seeds": len(group),
            **{k: statistics.fmean(one[k] for one in group) for k in group[0]},
        }
        for (place, strategy), group in sorted(groups.items())
    ]


def plot(args: argparse.Namespace) -> None:
    """Draw DAUB's figures 1 and 2: learning curves, and examples given to each."""
    for path in sorted(
        args.results.with_suffix(".logs").glob(f"{args.sets[0]}*.jsonl")
    ):
        curves: dict[str, list[Found]] = {}
        for line in read_lines(path):
            if not line["error"]:
                curves.setdefault(line["learner"], []).append(line)
        ranked = sorted(curves, key=lambda name: -curves[name][-1]["score"])
        drawn = path.with_suffix(".png")
        with figure_at(drawn, 1, 2, figsize=(14, 7)) as (figure, (left, right)):
            for name in ranked[:10]:
                points = sorted((p["amount"], p["score"]) for p in curves[name])
                left.plot(*zip(*points, strict=True), marker=".", label=name)
            left.set(xscale="log", xlabel="examples", ylabel="validation accuracy")
            left.legend()
            given = [sum(p["spent"] for p in curves[name]) for name in ranked]
            right.barh(ranked[::-1], given[::-1])
            right.set(xlabel="examples given", ylim=(-1, len(ranked)))
            right.tick_params(axis="y", labelsize=7)
            figure.suptitle(path.stem)
        print(drawn)


def key(piece: Found) -> str:
    """Name a piece, also as a file."""
    parts = (piece["set"], piece["seed"], piece["rows"], piece["portfolio"])
    return "-".join(map(str, (*parts, piece["strategy"].replace(", ", "-")))).replace(
        " ", "-"
    )


def cell(piece: Found) -> tuple[Any, ...]:
    """Give what a piece shares with the other strategies on the same rows."""
    return piece["set"], piece["seed"], piece["rows"], piece["portfolio"]


def read_lines(path: Path) -> list[Found]:
    """Read a file of JSON lines; none if there is no file."""
    if not path.exists():
        return []
    return [json.loads(line) for line in path.read_text().splitlines()]


def append(path: Path, line: Found) -> None:
    """Add a JSON line to a file."""
    with path.open("a") as file:
        file.write(json.dumps(line) + "\n")


ACTIONS = {
    "run": run,
    "table": table,
    "replay": replay,
    "judge": judge,
    "plot": plot,
}


def main() -> None:
    """Run the command."""
    parser = report.options(__doc__)
    parser.add_argument("action", choices=list(ACTIONS))
    parser.add_argument("sets", nargs="*", choices=[[], *learning_sets.SETS])
    parser.add_argument("--seed", type=int, help="default: 0, 1 and 2")
    parser.add_argument("--strategy", action="append", choices=list(STRATEGIES))
    parser.add_argument("--portfolio", choices=list(PORTFOLIOS), default="wide")
    parser.add_argument("--only", choices=list(PORTFOLIOS), help="replay with these")
    parser.add_argument("--rows", type=int, help="cut the training rows to so many")
    parser.add_argument("--results", type=Path, default=Path("selection.jsonl"))
    args = parser.parse_args()
    ACTIONS[args.action](args)


if __name__ == "__main__":
    main()
