"""What choosing a learner costs, and what it loses, against training them all.

A piece is a set, a seed, the rows that it is cut to, and a portfolio. Its recording
holds what every learner scored and took on N, N / 3 ... N / 243 rows; strategies are
replayed over that, or run for real on the same rows. What was measured is kept in a
folder, and is not measured again; a recording that was interrupted goes on.

Seconds are CPU seconds, one thread, training and validating. Reductions are how many
times less that is than of training all on all rows; losses are in points of validation
accuracy, against the best of all trained on all rows.
"""

import json
import math
import statistics
import sys
import warnings
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from polydom.features.threads import one_thread
from polydom.models.selection.daub import daub, train_all
from polydom.models.selection.gain_per_second import gain_per_second
from polydom.models.selection.portfolio import SERVABLE, installed, make_portfolio
from polydom.models.selection.race import Race
from polydom.models.selection.select import Running, Selection, select

from . import learning_sets
from .recorded import Recording, ladder

LEAST_VALID = 2000  # what `learner = "auto"` has
SCORED = 4000  # rows trained on, at most, that give a recording its training scores
DRAWS = 5  # of the noise that fewer validation rows have
ALLOWED = 0.4  # points that may be lost on average
QUICK = ("naive bayes", "lda", "logistic", "tree", "tree, depth 5")
GRID = [
    {"worth": worth, "spread": spread}
    for worth in (0.00025, 0.0005, 0.00075, 0.001)
    for spread in (0.05, 0.07, 0.1)
]

Line = dict[str, Any]
Found = dict[str, Any]


class Piece(NamedTuple):
    """Rows, and the learners that are trained on them."""

    set: str
    seed: int
    rows: int | None
    portfolio: str

    @property
    def name(self) -> str:
        """That of its files."""
        return "-".join(map(str, self)).replace(" ", "_")

    def load(self) -> Found:
        """Training and validation rows."""
        return learning_sets.load(self.set, self.seed, self.rows)

    def learners(self) -> dict[str, Any]:
        """Unfitted estimators by name."""
        return PORTFOLIOS[self.portfolio](self.seed)


def auto(seed: int) -> dict[str, Any]:
    """Make what `learner = "auto"` races here."""
    return make_portfolio(installed(), seed)


def wide(seed: int) -> dict[str, Any]:
    """Make those and the costly families DAUB's portfolio had."""
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


PORTFOLIOS: dict[str, Callable[[int], dict[str, Any]]] = {
    "auto": auto,
    "wide": wide,
    "quick": lambda seed: make_portfolio(
        {name: SERVABLE[name] for name in QUICK}, seed
    ),
}


def record(piece: Piece, folder: Path) -> Recording:
    """Train every learner on a ladder of rows, or recall that."""
    log, done = folder / f"{piece.name}.jsonl", folder / f"{piece.name}.json"
    if not done.exists():
        data = piece.load()
        chosen = run_ours(piece, data, ladder, log, scored=SCORED)
        _tell(f"{piece.name}: recorded in {chosen.seconds:.0f} s")
        done.write_text(json.dumps({"validated": len(data["validation"][1])}))
    validated = json.loads(done.read_text())["validated"]
    return Recording.read(_lines(log), validated, SCORED)


def run_ours(
    piece: Piece,
    data: Found,
    strategy: Callable[[Race], str],
    log: Path,
    scored: int | None = 0,
    least_valid: int | None = None,
) -> Selection:
    """Select for real; the log is kept so that it can go on."""
    past = _lines(log)
    log.parent.mkdir(parents=True, exist_ok=True)
    log.write_text("")

    def keep(race: Race) -> None:
        with log.open("a") as file:
            file.write(json.dumps(race.log[-1].to_dict()) + "\n")

    with one_thread(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return select(
            piece.learners(),
            **data,
            strategy=strategy,
            scored=scored,
            least_valid=least_valid,
            seed=piece.seed,
            running=Running(log=past, progress=keep),
        )


def all_rows(amount: int, validated: int, *, limit: int) -> int:
    """Validate on everything."""
    return validated


def as_auto(amount: int, validated: int, *, limit: int) -> int:
    """Validate as `learner = "auto"` does."""
    return max(LEAST_VALID, 4 * amount)


def coarse(race: Race) -> int:
    """Give DAUB's 500 examples, or the most that three trainings leave room for."""
    assert race.limit is not None
    return min(500, math.floor(race.limit / 1.5**2))


REPLAYED: dict[str, Callable[..., str]] = {
    "gain per second": lambda race, seed: gain_per_second(race),
    "DAUB": lambda race, seed: daub(race, granularity=coarse(race)),
    "DAUB, no training bound": lambda race, seed: daub(
        race, granularity=coarse(race), training_bound=False
    ),
    "all": lambda race, seed: train_all(race),
}
CHECKED = {"gain per second": as_auto}


def replay(recording: Recording, name: str) -> Line:
    """Reduction and points lost of a strategy, means over what is drawn."""
    checked = partial(CHECKED.get(name, all_rows), limit=recording.limit)
    drawn = name in CHECKED
    return mean(
        _replay(recording, checked, partial(REPLAYED[name], seed=seed), seed)
        for seed in range(DRAWS if drawn else 1)
    )


def _replay(
    recording: Recording,
    checked: Callable[[int, int], int],
    strategy: Callable[[Race], str],
    seed: int,
) -> Line:
    race = recording.race(checked, seed)
    chosen = strategy(race)
    best = max(map(recording.final, recording.curves))
    return {
        "reduction": recording.seconds / race.seconds,
        "lost": 100 * (best - recording.final(chosen)),
    }


def compare(pieces: list[Piece], folder: Path) -> list[Line]:
    """Replay all strategies: a line for each set, and their means.

    The last columns are those of gain per second with the constants that are the
    fastest of a grid on all *other* sets, and lose at most `ALLOWED` points there.
    """
    recordings: dict[str, list[Recording]] = {}
    for piece in pieces:
        recordings.setdefault(piece.set, []).append(record(piece, folder))
    elsewhere = judge(recordings)
    lines = []
    for name, own in recordings.items():
        line: Line = {"set": name, "rows": own[0].limit}
        line["all, s"] = statistics.fmean(one.seconds for one in own)
        for strategy in REPLAYED:
            if strategy == "all" or (
                strategy == "DAUB" and not all(r.with_training_scores for r in own)
            ):
                continue
            found = mean(replay(one, strategy) for one in own)
            line |= {f"{strategy}: {key}": fact for key, fact in found.items()}
        lines.append(line | elsewhere.get(name, {}))
    numbers = [{k: v for k, v in line.items() if ": " in k} for line in lines]
    return [*lines, {"set": "mean", **mean(numbers)}]


def judge(recordings: Mapping[str, list[Recording]]) -> dict[str, Line]:
    """Judge every set by the constants that are best on the others."""
    if len(recordings) < 3:
        return {}
    results = {
        name: [mean(_with(one, constants) for one in own) for constants in GRID]
        for name, own in recordings.items()
    }
    found = {}
    for name, own in results.items():
        best = _fastest([other for key, other in results.items() if key != name])
        found[name] = {f"constants of others: {k}": v for k, v in own[best].items()}
    return found


def _with(recording: Recording, constants: dict[str, float]) -> Line:
    checked = partial(as_auto, limit=recording.limit)
    return _replay(
        recording, checked, lambda race: gain_per_second(race, **constants), 0
    )


def _fastest(sets: list[list[Line]]) -> int:
    """Choose the fastest of the grid that loses no more than allowed, but the worst."""
    ranked = []
    for number in range(len(GRID)):
        own = [lines[number] for lines in sets]
        lost = statistics.fmean(sorted(one["lost"] for one in own)[:-1])
        speed = statistics.geometric_mean(one["reduction"] for one in own)
        ranked.append((lost <= ALLOWED, speed if lost <= ALLOWED else -lost, number))
    return max(ranked)[2]


def mean(lines: Iterable[Line]) -> Line:
    """Average of what all lines have."""
    every = list(lines)
    shared = [key for key in every[0] if all(key in line for line in every)]
    return {key: statistics.fmean(line[key] for line in every) for key in shared}


def _lines(path: Path) -> list[Found]:
    """Read a file of JSON lines; none if there is no file."""
    if not path.exists():
        return []
    return [json.loads(line) for line in path.read_text().splitlines()]


def _tell(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
