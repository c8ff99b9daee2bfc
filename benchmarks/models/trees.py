"""How long does one row, or a batch, take in our tree kernels and in those of others?

python -m benchmarks trees         LightGBM, and ONNX Runtime where it is installed
python -m benchmarks trees --cpu   CPU seconds, where others run too

Trained on Adult's training rows, timed on its test rows. One process, one thread,
pinned to one core, contenders interleaved in rounds, a different row for every call.
Each peer must give our raw scores or choices on the benchmark's own rows before it is
timed. A peer that is not installed, or does not run, is named and left out.
"""

import argparse
import sys
import time
from collections.abc import Callable
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
from ..peers.contender import ROUNDS, Contender, Singles, choose_row, take_turns, us
from ..peers.tree_peers import lightgbm_peers, onnx_peer
from .boosting import BINARY, TREES, boost, fit_exit

QUICK_TREES, QUICK_ROUNDS = 40, 2
LIBRARIES = ("lightgbm", "onnxruntime")


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


def gather(
    arguments: argparse.Namespace, rows: Split
) -> tuple[list[Contender], list[str]]:
    """Train, compile and check; contenders, and the peers that are missing."""
    X, y, test, _ = rows
    trees = QUICK_TREES if arguments.quick else TREES
    booster, ensemble = boost(X, y, trees, **BINARY, num_threads=1)
    raw = ensemble.decision_function(test)
    contenders = [*ours(ensemble, test), *fitted_exits(ensemble, X, test)]
    contenders += lightgbm_peers(booster, test, raw)
    missing = []
    try:
        contenders.append(onnx_peer(booster, test, raw))
    except (ImportError, OSError, AssertionError) as error:
        missing.append(f"ONNX Runtime: {error}")
    return contenders, missing


def compare(arguments: argparse.Namespace, rows: Split) -> dict[str, Any]:
    """Time one row, a row in compiled code and a row of a batch, in microseconds."""
    rounds = QUICK_ROUNDS if arguments.quick else ROUNDS
    contenders, missing = gather(arguments, rows)
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
    parser.add_argument("--cpu", action="store_true", help="count CPU seconds")
    args = parser.parse_args(arguments)
    if not args.quick:
        report.need(args, "adult")
    rows = load_tumours() if args.quick else load_adult(args.data_folder)
    report.pin()
    facts = compare(args, rows)
    report.unpin()
    report.tell(facts, args)


if __name__ == "__main__":
    main()
