"""How long does one row, or a batch, take in our tree kernels and in those of others?

python -m benchmarks trees                 both parts
python -m benchmarks trees --parts floors  what cannot be done without
python -m benchmarks trees --cpu           CPU seconds, where others run too

Trained on Adult's training rows, timed on its test rows. One process, one thread,
pinned to one core, contenders interleaved in rounds, a different row for every call.
Each peer must give our raw scores or choices on the benchmark's own rows before it is
timed, on LightGBM's model or on its own, which our kernels read too. A peer that is not
installed, or does not run, is named and left out. lleaves needs an older llvmlite than
numba, and YDF another protobuf than others: they take part where an interpreter that
has them is named with --lleaves PYTHON or --ydf PYTHON. YDF is timed by that
interpreter, on the same core, in its turn of each round. A C compiler builds loops
around compiled peers. The floors, and what calls from Python add, are measured as
tree_floors.py says.
"""

import argparse
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from polydom.models import Schedule
from polydom.models.early_exit.ensemble import Ensemble
from polydom.models.trees.one_row import PackedTrees
from polydom.models.trees.self_test import TRUST
from polydom.models.trees.trees import Trees

from .. import report
from ..data.bundled import load_tumours
from ..data.tables import Split, load_adult
from ..peers.compiled_peers import lleaves_peer, tl2cgen_peers
from ..peers.contender import ROUNDS, Contender, Singles, choose_row, take_turns, us
from ..peers.tree_peers import (
    catboost_peer,
    lightgbm_peers,
    onnx_peer,
    sklearn_peer,
    treelite_peer,
    xgboost_peer,
)
from ..peers.ydf_peers import ydf_peers
from .boosting import BINARY, TREES, boost, fit_exit
from .tree_floors import measure as floors_of

QUICK_TREES, QUICK_ROUNDS = 40, 2
PARTS = ("times", "floors")
LIBRARIES = ("lightgbm", "xgboost", "onnxruntime", "treelite", "tl2cgen", "catboost")


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
            owner=packed,
        ),
        Contender(
            "polydom, portable kernel's entry point",
            lambda i: walk(rows[i], address),
            rows=rows_of(X, portable),
            owner=portable,
        ),
        Contender("polydom, Classifier.choose", choose_row(ensemble.classifier, rows)),
        Contender(
            "polydom, early exit that never fires",
            choose_row(never, rows),
            rows=rows_of(X, never.packed),
            owner=never,
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
    """An early exit that changes at most 1 %."""
    fitted = fit_exit(ensemble, X, test)
    exits, packed = fitted.exits, fitted.exits.packed
    assert isinstance(packed, PackedTrees)
    trees, changed = float(fitted.used.mean()), fitted.changed
    name = f"polydom, exit: {trees:.1f} trees, {changed:.2%} changed"
    return [
        Contender(
            f"{name}, choose",
            choose_row(exits, list(test)),
            rows=rows_of(test, packed),
        ),
    ]


def rows_of(X: Singles, packed: PackedTrees) -> Callable[[int], Any]:
    """Loop over so many rows in compiled code."""
    totals, codes = np.zeros((len(X), 1)), np.empty(len(X), np.int64)
    kernel, at = packed.many, packed.at
    return lambda count: kernel(X[:count], at, totals[:count], codes[:count])


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


def gather(
    arguments: argparse.Namespace, rows: Split, place: Path
) -> tuple[list[Contender], list[str]]:
    """Train, compile and check; contenders, and the peers that are missing."""
    X, y, test, _ = rows
    trees = QUICK_TREES if arguments.quick else TREES
    booster, ensemble = boost(X, y, trees, **BINARY, num_threads=1)
    path = place / "model.txt"
    booster.save_model(path)
    lleaves, ydf, only = arguments.lleaves, arguments.ydf, arguments.peers
    if arguments.quick and only is None:
        only = []
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
        own["YDF"] = lambda: ydf_peers(ydf, place, X, y, test, arguments.cpu)
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
    return contenders, missing


def compare(arguments: argparse.Namespace, rows: Split) -> dict[str, Any]:
    """Time one row, a row in compiled code and a row of a batch, in microseconds."""
    rounds = QUICK_ROUNDS if arguments.quick else ROUNDS
    with tempfile.TemporaryDirectory() as place:
        contenders, missing = gather(arguments, rows, Path(place))
        clock = time.process_time if arguments.cpu else time.perf_counter
        take_turns(contenders, rows[2], clock, rounds)
    return {
        "seconds": "CPU" if arguments.cpu else "wall",
        "versions": {
            name: str(getattr(sys.modules[name], "__version__", "?"))
            for name in LIBRARIES
            if name in sys.modules
        },
        "missing": missing,
        f"us, median of {rounds}": [
            {
                "contender": contender.name,
                "1 row": us(contender.one_s),
                "compiled": us(contender.rows_s),
                "batch": us(contender.many_s),
            }
            for contender in contenders
        ],
    }


def main(arguments: list[str] | None = None) -> None:
    """Run the benchmark."""
    parser = report.options(__name__, data=True)
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=PARTS)
    parser.add_argument("--lleaves", help="interpreter that has lleaves")
    parser.add_argument("--ydf", help="interpreter that has ydf")
    parser.add_argument("--peers", nargs="*", help="only these, beside LightGBM")
    parser.add_argument("--cpu", action="store_true", help="count CPU seconds")
    args = parser.parse_args(arguments)
    if not args.quick:
        report.need(args, "adult")
    rows = load_tumours() if args.quick else load_adult(args.data_folder)
    report.pin()
    facts = compare(args, rows) if "times" in args.parts else {}
    if "floors" in args.parts:
        facts |= floors_of(rows, args.quick)
    report.unpin()
    report.tell(facts, args)


if __name__ == "__main__":
    main()
