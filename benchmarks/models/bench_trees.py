"""How long one row, and a batch, takes in our tree kernels and in those of others.

python -m benchmarks.models.bench_trees DATA           prints a table
python -m benchmarks.models.bench_trees DATA --json    one JSON object, for the record
python -m benchmarks.models.bench_trees DATA --cpu     CPU seconds, where others run too

DATA holds adult/adult.data and adult/adult.test; trained on the former, timed
on the latter. One process, one thread, pinned to one core, contenders interleaved
in rounds, a different row for every call. Each peer must give our raw scores or
choices on the benchmark's own rows before it is timed, on LightGBM's model or on its
own, which our kernels read too. A peer that is not installed, or does not run, is
named and left out. lleaves needs an older llvmlite than numba, and YDF another
protobuf than others: they take part where an interpreter that has them is named with
--lleaves PYTHON or --ydf PYTHON. YDF is timed by that interpreter, on the same core,
in its turn of each round. A C compiler builds loops around compiled peers.
"""

import argparse
import json
import os
import platform
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from polydom.models import Schedule, compile
from polydom.models.early_exit.ensemble import Ensemble
from polydom.models.trees.packed import PackedTrees
from polydom.models.trees.self_test import TRUST
from polydom.models.trees.trees import Trees

from ..exits.bench_qwyc import load_adult
from ..peers.compiled_peers import lleaves_peer, tl2cgen_peers
from ..peers.contender import Contender, Singles
from ..peers.tree_peers import (
    catboost_peer,
    lightgbm_peers,
    onnx_peer,
    sklearn_peer,
    treelite_peer,
    xgboost_peer,
)
from ..peers.ydf_peers import ydf_peers
from .adult_trees import fit_exit, train

ROUNDS, CALLS, BATCH = 15, 300, 16_281


def ours(ensemble: Ensemble, X: Singles) -> list[Contender]:
    """Our kernels on a LightGBM model: the full sum, and an exit that never fires."""
    trees: Any = ensemble.classifier.scorer
    packed, portable, rows = trees.packed, portable_trees(trees), list(X)
    enter, at = packed.enter, packed.at
    walk, address = portable.enter, portable.at
    never = ensemble.early_exit(never_stopping(ensemble))
    assert isinstance(never.packed, PackedTrees)
    return [
        Contender(
            f"polydom, {TRUST.kernels} kernel's entry point, or batch",
            lambda i: enter(rows[i], at),
            packed.follow,
            rows_of(X, packed) if packed.vector else None,
        ),
        Contender(
            "polydom, portable kernel's entry point",
            lambda i: walk(rows[i], address),
            rows=rows_of(X, portable),
        ),
        Contender("polydom, Classifier.choose", choose_row(ensemble.classifier, rows)),
        Contender(
            "polydom, early exit that never fires",
            choose_row(never, rows),
            rows=rows_of(X, never.packed),
        ),
    ]


def portable_trees(trees: Trees) -> PackedTrees:
    """Pack trees as for a processor without vectors."""
    held, TRUST.held = TRUST.held, False
    packed = trees.with_packed().packed
    TRUST.held = held
    assert packed is not None
    return packed


def fitted_exits(ensemble: Ensemble, X: Singles, test: Singles) -> list[Contender]:
    """An early exit that changes at most 1 %: rows by their numbers, and rows."""
    fitted = fit_exit(ensemble, X, test)
    exits, packed = fitted.exits, fitted.exits.packed
    assert isinstance(packed, PackedTrees)
    trees, changed = float(fitted.used.mean()), fitted.changed
    name = f"polydom, exit: {trees:.1f} trees, {changed:.2%} changed"
    return [
        Contender(f"{name}, over(X)", exits.over(test), rows=rows_of(test, packed)),
        Contender(f"{name}, choose", choose_row(exits, list(test))),
    ]


def rows_of(X: Singles, packed: PackedTrees) -> Callable[[int], Any]:
    """Loop over so many rows in compiled code."""
    totals, codes = np.zeros((len(X), 1)), np.empty(len(X), np.int64)
    kernel, at = packed.many, packed.at
    return lambda count: kernel(X[:count], at, totals[:count], codes[:count])


def choose_row(model: Any, rows: list[Singles]) -> Callable[[int], Any]:
    """One call per row of `choose`."""
    return lambda i: model.choose(rows[i])


def never_stopping(ensemble: Ensemble) -> Schedule:
    """Make a schedule whose limits are never passed, in an order of its own."""
    never = np.full(ensemble.size, np.inf)
    order = np.random.default_rng(0).permutation(ensemble.size)
    return Schedule(order, -never, never, ensemble.threshold)


def beside_ours(
    whose: str, make: Callable[[], tuple[list[Contender], Ensemble]], test: Singles
) -> list[Contender]:
    """Ours on a peer's own model, then the peer."""
    peers, ensemble = make()
    own = ours(ensemble, test)[0]
    own.name = f"polydom, on {whose}'s model"
    return [own, *peers]


def measure(
    contenders: list[Contender], X: Singles, clock: Callable[[], float]
) -> None:
    """Time every contender once per round, in turn; medians are taken later."""
    step = max(1, len(X) // CALLS)
    for _ in range(ROUNDS):
        for contender in contenders:
            if contender.one is not None:
                contender.one(0)
                start = clock()
                for i in range(0, CALLS * step, step):
                    contender.one(i)
                contender.one_s.append((clock() - start) / CALLS)
            if contender.rows is not None:
                start = clock()
                contender.rows(1000)
                contender.rows_s.append((clock() - start) / 1000)
            if contender.many is not None:
                start = clock()
                contender.many(X[:BATCH])
                contender.many_s.append((clock() - start) / BATCH)
            for times, ask in contender.told.items():
                getattr(contender, times).append(ask())


def us(times_s: list[float]) -> float | None:
    """Median in microseconds."""
    return round(statistics.median(times_s) * 1e6, 3) if times_s else None


def gather(
    folder: Path,
    place: Path,
    lleaves: str | None,
    ydf: str | None,
    cpu: bool,
    only: list[str] | None,
) -> tuple[list[Contender], list[str], Singles]:
    """Train, compile and check; contenders, and the peers that are missing."""
    import lightgbm

    X, y, test, _ = load_adult(folder)
    path = train(X, y, place)
    booster = lightgbm.Booster(model_file=path)
    ensemble = compile(path)
    raw = ensemble.decision_function(test)
    contenders = [*ours(ensemble, test), *fitted_exits(ensemble, X, test)]
    contenders += lightgbm_peers(booster, test, raw)
    missing = []
    peers: dict[str, Callable[[], list[Contender]]] = {
        "ONNX Runtime": lambda: [onnx_peer(booster, test, raw)],
        "treelite": lambda: [treelite_peer(path, test, raw)],
        "tl2cgen": lambda: tl2cgen_peers(path, place, test, raw),
    }
    if lleaves is None:
        missing.append("lleaves: no --lleaves PYTHON given")
    else:
        peers["lleaves"] = lambda: [lleaves_peer(lleaves, path, place, test, raw)]
    own: dict[str, Callable[[], tuple[list[Contender], Ensemble]]] = {
        "scikit-learn": lambda: sklearn_peer(X, y, test),
        "XGBoost": lambda: xgboost_peer(place, X, y, test),
        "CatBoost": lambda: catboost_peer(place, X, y, test),
    }
    if ydf is None:
        missing.append("YDF: no --ydf PYTHON given")
    else:
        own["YDF"] = lambda: ydf_peers(ydf, place, X, y, test, cpu)
    for name, pair in own.items():
        peers[name] = partial(beside_ours, name, pair, test)
    for name, make in peers.items():
        if only is not None and name not in only:
            missing.append(f"{name}: not asked for")
            continue
        try:
            contenders += make()
        except (ImportError, OSError, AssertionError) as error:
            missing.append(f"{name}: {error}")
    return contenders, missing, test


def main() -> int:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="folder of the data sets")
    parser.add_argument("--lleaves", help="interpreter that has lleaves")
    parser.add_argument("--ydf", help="interpreter that has ydf")
    parser.add_argument("--peers", nargs="*", help="only these, beside LightGBM")
    parser.add_argument("--cpu", action="store_true", help="count CPU seconds")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    arguments = parser.parse_args()
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    with tempfile.TemporaryDirectory() as place:
        contenders, missing, X = gather(
            arguments.folder,
            Path(place),
            arguments.lleaves,
            arguments.ydf,
            arguments.cpu,
            arguments.peers,
        )
        measure(
            contenders, X, time.process_time if arguments.cpu else time.perf_counter
        )
    table = [
        {
            "name": c.name,
            "one_us": us(c.one_s),
            "compiled_us": us(c.rows_s),
            "batch_us_per_row": us(c.many_s),
        }
        for c in contenders
    ]
    names = ["numpy", "numba", "lightgbm", "sklearn", "xgboost", "onnxruntime"]
    names += ["treelite", "tl2cgen", "catboost"]
    versions = {
        name: str(getattr(sys.modules[name], "__version__", "?"))
        for name in names
        if name in sys.modules
    }
    facts: dict[str, str] = {
        "machine": platform.processor() or platform.machine(),
        "seconds": "CPU" if arguments.cpu else "wall",
        **versions,
    }
    if arguments.json:
        print(json.dumps({"facts": facts, "missing": missing, "table": table}))
        return 0
    print(facts)
    print(
        f"{'us, median of ' + str(ROUNDS):40}{'1 row':>10}{'compiled':>10}{'batch':>10}"
    )
    for line in table:
        cells = "".join(
            f"{'' if v is None else v:>10}" for v in list(line.values())[1:]
        )
        print(f"{line['name']:40}{cells}")
    for name in missing:
        print("missing:", name)
    return 0


if __name__ == "__main__":
    sys.exit(main())
