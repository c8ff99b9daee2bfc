"""How many base models an early exit takes, at equal changed decisions on test rows.

python -m benchmarks.exits.bench_qwyc DATA                all data sets, one table each
python -m benchmarks.exits.bench_qwyc DATA --sets adult   only some
python -m benchmarks.exits.bench_qwyc DATA --json         one JSON object, for the record
python -m benchmarks.exits.bench_qwyc --from RECORD       tables of a kept JSON object
python -m benchmarks.exits.bench_qwyc DATA --plot FOLDER  three PNGs a data set

DATA holds the folders adult, higgs, covtype20k and mnist. The model is LightGBM, 500
trees of depth 5, learning rate 0.05, trained on the training rows.

Protocol, fixed before a test row was looked at. Fit: the training rows; for `polydom`
also copies with a column or so swapped between rows (`swap_columns`, no labels).
Report: the test rows, by the whole curve of each method, in two ways alike for all of
them: for each limit the cheapest point whose *test* change is within it, and the mean
ratio of trees over all shares of test change that both curves reach. What there is to
choose in `polydom` was chosen on a fifth of Adult's training rows, held out of the
model; learning rates of smaller ensembles on a fifth of each set's training rows.

To tell what the copies are worth, "polydom, no copies" and "qwyc*, copies" are each
fitted on the other's rows.
"""

import argparse
import gzip
import json
import tempfile
from collections.abc import Callable, Iterator
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polydom.models import Ensemble, compile
from polydom.models.qwyc.algorithms import changes_allowed
from polydom.models.qwyc.augment import swap_columns
from polydom.models.qwyc.costs import ModelCosts
from polydom.models.qwyc.fit import check_decisions, fit_schedule
from polydom.models.qwyc.optimal_stopping import Stopping
from polydom.models.qwyc.ordering import OrderName, order_by_impurity
from polydom.models.qwyc.running_sums import ScoreSums
from polydom.models.qwyc.schedule import Schedule

from .equal_change import cheapest, equal_change, within
from .fan import FanSchedule, fit_fan
from .plot_qwyc import by_method, draw_all
from .smaller_ensembles import smaller

Rows = NDArray[np.float32]
Scores = NDArray[np.float64]
Flags = NDArray[np.bool_]
Split = tuple[Rows, NDArray[np.int64], Rows, NDArray[np.int64]]

ALPHAS = (0, 0.0002, 0.0005, 0.001, 0.0015, 0.002, 0.003, 0.004, 0.006, 0.01, 0.02)
FAN_ALPHAS = (0, 0.001, 0.004, 0.01)
PRICES = np.geomspace(2000, 0.25, 28)  # of a wrong stop, in whole ensembles
LIMITS = (0.01, 0.005, 0.002)
TREES, DEPTH, RATE = 500, 5, 0.05
SEEDS = 5  # of the random orders, as in the paper
PAIRS = (
    ("polydom", "qwyc*"),
    ("polydom", "fan*"),
    ("polydom", "natural"),
    ("polydom", "lightgbm early stop"),
    ("polydom", "polydom, no copies"),
    ("polydom", "qwyc*, copies"),
    ("polydom, no copies", "qwyc*"),
    ("qwyc*, copies", "qwyc*"),
    ("qwyc*", "fan*"),
)
BINS = 20  # of the histograms of base models used
FIXED: tuple[tuple[str, OrderName, int], ...] = (
    ("natural", "natural", 0),
    ("individual mse", "individual-mse", 0),
    ("greedy mse", "greedy-mse", 0),
    *((f"random {seed}", "random", seed) for seed in range(SEEDS)),
)
COPIES = 3
MARGINS = np.geomspace(0.5, 6.0, 24)  # of LightGBM's early stop, tested every 10 trees


def load_adult(folder: Path) -> Split:
    """Adult's own split; categories numbered in the order of the training part."""

    def read(name: str) -> list[list[str]]:
        lines = (folder / "adult" / name).read_text().splitlines()
        kept = [line for line in lines if line.strip() and not line.startswith("|")]
        return [[cell.strip() for cell in line.split(",")] for line in kept]

    train, test = read("adult.data"), read("adult.test")
    columns = []
    for j in range(14):
        if train[0][j].isdigit():
            columns.append([[float(r[j]) for r in part] for part in (train, test)])
            continue
        codes = {v: i for i, v in enumerate(sorted({r[j] for r in train}))}
        columns.append(
            [[float(codes.get(r[j], 0)) for r in part] for part in (train, test)]
        )
    X, Xt = (np.array([c[k] for c in columns], np.float32).T.copy() for k in (0, 1))
    y, yt = (
        np.array([r[14].startswith(">50K") for r in part]).astype(np.int64)
        for part in (train, test)
    )
    return X, y, Xt, yt


def load_higgs(folder: Path) -> Split:
    """Both files of higgs together, 70/30."""
    parts = []
    for name in ("lightgbm_binary.train.gz", "lightgbm_binary.test.gz"):
        with gzip.open(folder / "higgs" / name, "rt") as file:
            parts.append(np.loadtxt(file))
    with gzip.open(folder / "higgs" / "sas_higgs.csv.gz", "rt") as file:
        last = np.genfromtxt(file, delimiter=",")
    last = last[np.isfinite(last[:, -1])]
    first = np.concatenate(parts)
    X = np.concatenate([first[:, 1:], last[:, :-1]])
    return split(X, np.concatenate([first[:, 0], last[:, -1]]) == 1)


def load_covtype(folder: Path) -> Split:
    """Covertype's class 2 against the rest, shuffled, 70/30."""
    with gzip.open(folder / "covtype20k" / "covtype.20k.data.gz", "rt") as file:
        table = np.loadtxt(file, delimiter=",")
    return split(table[:, :-1], table[:, -1] == 2)


def load_mnist(folder: Path) -> Split:
    """Odd against even digits at 14 x 14 pixels; 20,000 training rows."""

    def read(stem: str, rows: int) -> tuple[Rows, NDArray[np.int64]]:
        with gzip.open(folder / "mnist" / f"{stem}-images-idx3-ubyte.gz") as file:
            pixels = np.frombuffer(file.read(), np.uint8, offset=16)
        with gzip.open(folder / "mnist" / f"{stem}-labels-idx1-ubyte.gz") as file:
            labels = np.frombuffer(file.read(), np.uint8, offset=8)
        small = pixels.reshape(-1, 14, 2, 14, 2)[:rows].mean((2, 4))
        codes = (labels[:rows] % 2).astype(np.int64)
        return small.reshape(len(small), -1).astype(np.float32), codes

    return (*read("train", 20_000), *read("t10k", 10_000))


def split(X: NDArray[np.float64], y: NDArray[np.bool_]) -> Split:
    """Shuffle, then 70 % for training."""
    p = np.random.default_rng(0).permutation(len(X))
    n = int(0.7 * len(X))
    rows, codes = X[p].astype(np.float32), y[p].astype(np.int64)
    return rows[:n], codes[:n], rows[n:], codes[n:]


SETS: dict[str, Callable[[Path], Split]] = {
    "adult": load_adult,
    "higgs": load_higgs,
    "covtype20k": load_covtype,
    "mnist": load_mnist,
}


def train(
    X: Rows, y: NDArray[np.int64], trees: int = TREES, rate: float = RATE
) -> Ensemble:
    """Train the full model or a smaller one, and compile it from its own file."""
    import lightgbm

    booster = lightgbm.train(
        {
            "objective": "binary",
            "max_depth": DEPTH,
            "num_leaves": 2**DEPTH,
            "learning_rate": rate,
            "deterministic": True,
            "force_row_wise": True,
            "num_threads": 2,
            "verbosity": -1,
        },
        lightgbm.Dataset(X, y),
        trees,
    )
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "model.txt")
        booster.save_model(path)
        made: Ensemble = compile(path)
        return made


def ours(
    scores: Scores, more: Scores, threshold: float
) -> Iterator[tuple[str, float, Schedule]]:
    """(method, alpha, schedule): our curve, with copies and without."""
    yield from stopping_curve("polydom", more, threshold)
    yield from stopping_curve("polydom, no copies", scores, threshold)


def stopping_curve(
    method: str, rows: Scores, threshold: float
) -> Iterator[tuple[str, float, Schedule]]:
    """Fit as `fit_schedule` does, to all alphas together: each price is tried once."""
    order, stopping = stopping_for(rows, threshold)
    prices = [stopping.prices(1)[0], *(rows.shape[1] * PRICES)]
    tried = [stopping.cuts(price) for price in prices]
    outcomes = [stopping.outcome(cuts) for cuts in tried]
    for alpha in ALPHAS:
        allowed = changes_allowed(alpha, len(rows))
        kept = [k for k, (_, wrong) in enumerate(outcomes) if wrong <= allowed]
        best = min(kept, key=lambda k: outcomes[k][0])
        thresholds = stopping.thresholds(tried[best])
        yield method, alpha, Schedule(order, *thresholds, threshold)


def stopping_for(rows: Scores, threshold: float) -> tuple[NDArray[np.int64], Stopping]:
    """Order base models as `fit_schedule` does, and what finds thresholds along it."""
    positive = check_decisions(rows, threshold, None)
    costs = ModelCosts.check(rows.shape[1], None)
    order = order_by_impurity(rows, positive, costs=costs, threads=2)
    return order, Stopping(ScoreSums(rows, order, positive), costs=costs.along(order))


def theirs(
    scores: Scores, more: Scores, threshold: float
) -> Iterator[tuple[str, float, Schedule | FanSchedule]]:
    """(method, alpha, schedule): QWYC*'s curve, fixed orders, and Fan*."""
    for alpha in ALPHAS:
        star = fit_schedule(scores, threshold, alpha, method="qwyc")
        yield "qwyc*", alpha, star
    for name, order, seed in FIXED:
        kept: Any = order
        for alpha in ALPHAS:
            fixed = fit_schedule(
                scores, threshold, alpha, method="fixed", order=kept, seed=seed
            )
            kept = fixed.order
            yield name, alpha, fixed
    joint = fit_schedule(scores, threshold, min(LIMITS), method="qwyc").order
    orders: dict[str, Any] = {"fan*": "individual-mse", "fan on qwyc*": joint}
    for name, kept in orders.items():
        for alpha in FAN_ALPHAS:
            yield name, alpha, fit_fan(scores, threshold, alpha, order=kept)
    for alpha in ALPHAS[::2]:
        star = fit_schedule(more, threshold, alpha, method="qwyc")
        yield "qwyc*, copies", alpha, star


def early_stop(
    scores: NDArray[np.float64], labels: NDArray[np.int64]
) -> Iterator[dict[str, Any]]:
    """LightGBM's own rule on test scores: |raw| > margin, looked at every 10 trees."""
    sums = np.cumsum(scores, axis=1)[:, 9:-1:10]
    full = scores.sum(axis=1) > 0
    for margin in MARGINS:
        over = 2 * np.abs(sums) > margin
        stops = over.any(axis=1)
        place = np.where(stops, over.argmax(axis=1), 0)
        value = np.where(stops, sums[np.arange(len(sums)), place], full - 0.5)
        used = np.where(stops, 10 * (place + 1), scores.shape[1])
        yield {
            "method": "lightgbm early stop",
            "margin": float(margin),
            "mean": float(used.mean()),
            "changed": float(np.mean((value > 0) != full)),
            "accuracy": float(np.mean((value > 0) == labels)),
        }


def fewer_trees(
    X: Rows, y: NDArray[np.int64], Xt: Rows, yt: NDArray[np.int64], full: Flags
) -> Iterator[dict[str, Any]]:
    """Ensembles trained smaller, against the labels and the `full` one's decisions."""
    for method, size, rate, decisions in smaller(X, y, Xt, train, RATE):
        yield {
            "method": method,
            "rate": rate,
            "mean": float(size),
            "changed": float(np.mean(decisions != full)),
            "accuracy": float(np.mean(decisions == yt)),
        }


def measure(name: str, folder: Path) -> dict[str, Any]:
    """Every point of every method's curve on one data set."""
    X, y, Xt, yt = SETS[name](folder)
    ensemble = train(X, y)
    threshold = ensemble.threshold
    scores, fresh = ensemble.base_scores(X), ensemble.base_scores(Xt)
    more = ensemble.base_scores(swap_columns(X, copies=COPIES))
    full = fresh.sum(axis=1) >= threshold
    points = [*early_stop(fresh, yt), *fewer_trees(X, y, Xt, yt, full)]
    fitted = (scores, more, threshold)
    for method, alpha, schedule in chain(ours(*fitted), theirs(*fitted)):
        decisions, used = schedule.evaluate(fresh)
        points.append(
            {
                "method": method,
                "alpha": alpha,
                "mean": float(used.mean()),
                "p99": float(np.percentile(used, 99)),
                "changed": float(np.mean(decisions != full)),
                "accuracy": float(np.mean(decisions == yt)),
                "used": np.histogram(used, BINS, (0, TREES))[0].tolist(),
            }
        )
    return {
        "rows": len(X),
        "test_rows": len(Xt),
        "accuracy": float(np.mean(full == yt)),
        "points": points,
    }


def show(name: str, result: dict[str, Any]) -> None:
    """Print one data set's tables."""
    print(
        f"\n{name}: {result['rows']} training and {result['test_rows']} test rows, "
        f"accuracy of all {TREES} trees {result['accuracy']:.4f}"
    )
    print(f"{'mean trees at test change <=':32}" + "".join(f"{x:9.1%}" for x in LIMITS))
    found = by_method(result["points"])
    for method, points in found.items():
        least = [within(points, limit) for limit in LIMITS]
        cells = "".join(f"{'-' if m is None else f'{m:.1f}':>9}" for m in least)
        print(f"{method:32}{cells}")
    print(f"{'accuracy at test change <=':32}" + "".join(f"{x:9.1%}" for x in LIMITS))
    for method, points in found.items():
        kept = [cheapest(points, limit) for limit in LIMITS]
        cells = "".join(
            f"{'-' if p is None else format(p['accuracy'], '.4f'):>9}" for p in kept
        )
        print(f"{method:32}{cells}")
    show_ratios(found)
    print("method, trees, rate, accuracy, changed")
    for point in found["fewer trees"] + found["fewer trees, best rate"]:
        print(
            f"{point['method']:24} {point['mean']:4.0f} {point['rate']:5.2f} "
            f"{point['accuracy']:7.4f} {point['changed']:8.3%}"
        )
    print("method       alpha   mean trees   p99   changed  accuracy")
    for point in found["polydom"] + found["qwyc*"]:
        print(
            f"{point['method']:10} {point['alpha']:7.2%} {point['mean']:10.1f} "
            f"{point['p99']:7.0f} {point['changed']:8.3%} {point['accuracy']:9.4f}"
        )


def show_ratios(found: dict[str, list[dict[str, Any]]]) -> None:
    """Print mean trees of one method over another's at equal test change."""
    print("mean trees over another's, at equal test change")
    for method, rival in PAIRS:
        measured = equal_change(found[method], found[rival])
        if measured is None:
            told = "no share of changes that both reach"
        else:
            told = "{:6.3f}   from {:.2%} to {:.2%}".format(*measured)
        print(f"  {f'{method} / {rival}':40} {told}")


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", type=Path, nargs="?", help="folder of the data sets")
    parser.add_argument("--from", dest="kept", type=Path, help="a kept JSON object")
    parser.add_argument("--sets", nargs="+", choices=SETS, default=list(SETS))
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--plot", type=Path, help="folder to write PNGs to")
    args = parser.parse_args()
    if args.kept is None and args.data is None:
        parser.error("give the folder of the data sets, or --from")
    results = {} if args.kept is None else json.loads(args.kept.read_text())
    for name in results or args.sets:
        if name not in results:
            results[name] = measure(name, args.data)
        if not args.json:
            show(name, results[name])
    if args.json:
        print(json.dumps(results))
    if args.plot:
        draw_all(results, args.plot)


if __name__ == "__main__":
    main()
