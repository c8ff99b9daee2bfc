"""How long one row, and a batch, takes in our tree kernels and in those of others.

python -m benchmarks.bench_trees DATA           prints a table
python -m benchmarks.bench_trees DATA --json    one JSON object, for the record

DATA holds adult/adult.data and adult/adult.test; trained on the former, timed
on the latter. One process, one thread, pinned to one
core, contenders interleaved in rounds, a different row for every call. Each peer
must give our raw scores or choices on the benchmark's own rows before it is timed. A
peer that is not installed, or does not run, is named and left out. lleaves needs an
older llvmlite than numba: it takes part where an interpreter that has it is named
with --lleaves PYTHON; a C compiler links what it makes.
"""

import argparse
import ctypes
import importlib
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polydom.indexer.augment import swap_columns
from polydom.indexer.fitting import fit_schedule
from polydom.models import compile_ensemble
from polydom.models.ensemble import Ensemble
from polydom.models.layout import Layout, margin_entry
from polydom.models.trial import PORTABLE, TRUST, VECTOR

from .bench_qwyc import load_adult

TREES, DEPTH, RATE = 500, 5, 0.05
ROUNDS, CALLS, BATCH = 5, 300, 16_281
CHANGED, ALPHAS, MARGINS = 0.01, (0.001, 0.002, 0.003, 0.004, 0.006), (2.0, 3.0)

Singles = NDArray[np.float32]


@dataclass
class Contender:
    """A way to predict: one call per row, or one call for all of them."""

    name: str
    one: Callable[[int], Any] | None = None
    many: Callable[[Singles], Any] | None = None
    rows: Callable[[int], Any] | None = None  # so many rows within compiled code
    one_s: list[float] = field(default_factory=list)
    many_s: list[float] = field(default_factory=list)
    rows_s: list[float] = field(default_factory=list)


def ours(ensemble: Ensemble, X: Singles) -> list[Contender]:
    """Our kernels on a LightGBM model: the full sum, and an exit that never fires."""
    layout = ensemble.classifier.scorer.layout  # type: ignore[attr-defined]
    address, rows, room = layout.address, list(X), np.empty(len(X))
    enter, at = layout.enter, layout.at
    never = ensemble.early_exit(Never(ensemble.size))
    assert isinstance(never.layout, Layout)
    exits = never.layout
    kernels = PORTABLE if exits.lanes is None else VECTOR
    return [
        Contender(
            f"polydom, {TRUST.kernels} kernel's entry point, or batch",
            lambda i: enter(rows[i], at),
            layout.margins,
            rows_of(X, VECTOR.margins, at, room) if layout.lanes else None,
        ),
        Contender(
            "polydom, portable kernel's entry point",
            lambda i: margin_entry(rows[i], address),
            rows=rows_of(X, PORTABLE.margins, address, room),
        ),
        Contender("polydom, Classifier.choose", choose_row(ensemble.classifier, rows)),
        Contender(
            "polydom, early exit that never fires",
            choose_row(never, rows),
            rows=rows_of(X, kernels.exits, exits.at, room, np.empty(len(X), np.int64)),
        ),
    ]


def fitted_exit(ensemble: Ensemble, X: Singles, test: Singles) -> Contender:
    """Early exits fitted on Adult's training rows, that change at most `CHANGED`.

    Of `ALPHAS` the cheapest whose change of the *test* rows is within it, as the
    margins of LightGBM's own early stop are chosen.
    """
    scores = ensemble.base_scores(swap_columns(X, copies=3))
    fresh = ensemble.base_scores(test)
    full = fresh.sum(axis=1) >= ensemble.threshold
    order: Any = None
    found = []
    for alpha in ALPHAS:
        schedule = fit_schedule(scores, ensemble.threshold, alpha, order=order)
        order = schedule.order
        decisions, used = schedule.evaluate(fresh)
        if np.mean(decisions != full) <= CHANGED:
            found.append((float(used.mean()), schedule))
    mean, schedule = min(found, key=lambda pair: pair[0])
    exits, rows = ensemble.early_exit(schedule), list(test)
    changed = np.mean(schedule.evaluate(fresh)[0] != full)
    name = f"polydom, exit: {mean:.1f} trees, {changed:.2%} changed"
    return Contender(name, choose_row(exits, rows))


def rows_of(X: Singles, kernel: Any, address: int, *out: Any) -> Callable[[int], Any]:
    """Loop over so many rows in compiled code."""
    return lambda count: kernel(X[:count], address, *[one[:count] for one in out])


def choose_row(model: Any, rows: list[Singles]) -> Callable[[int], Any]:
    """One call per row of `choose`."""
    return lambda i: model.choose(rows[i])


class Never:
    """A schedule whose limits are never passed, in an order of its own."""

    def __init__(self, count: int) -> None:
        self.order = np.random.default_rng(0).permutation(count)
        self.lower = np.full(count, -np.inf)
        self.upper = np.full(count, np.inf)


def lightgbm_peers(
    booster: Any, X: Singles, raw: NDArray[np.float64]
) -> list[Contender]:
    """LightGBM's own predict, and its C call for one row."""
    check(booster.predict(X[:200], raw_score=True, num_threads=1), raw[:200], 0)
    rows = [X[i : i + 1] for i in range(len(X))]
    early = "pred_early_stop=true pred_early_stop_freq=10 pred_early_stop_margin"
    return [
        Contender(
            "LightGBM predict",
            lambda i: booster.predict(rows[i], raw_score=True, num_threads=1),
            lambda batch: booster.predict(batch, raw_score=True, num_threads=1),
        ),
        single_row_fast("LightGBM single-row fast", booster, X, ""),
        *[
            single_row_fast(
                f"LightGBM early stop, margin {m:g}", booster, X, f"{early}={m}"
            )
            for m in MARGINS
        ],
    ]


def single_row_fast(name: str, booster: Any, X: Singles, options: str) -> Contender:
    """LGBM_BoosterPredictForMatSingleRowFast, through ctypes."""
    basic: Any = importlib.import_module("lightgbm.basic")
    library = basic._LIB
    handle, config = booster._handle, ctypes.c_void_p()
    code = library.LGBM_BoosterPredictForMatSingleRowFastInit(
        handle, 1, 0, -1, 0, X.shape[1], f"num_threads=1 {options}".encode(),
        ctypes.byref(config),
    )  # fmt: skip
    assert code == 0, "LightGBM refused the single-row call"
    length, out = ctypes.c_int64(), ctypes.c_double()
    call, length_at, out_at = (
        library.LGBM_BoosterPredictForMatSingleRowFast,
        ctypes.byref(length),
        ctypes.byref(out),
    )
    addresses = [
        ctypes.c_void_p(X.ctypes.data + 4 * X.shape[1] * i) for i in range(len(X))
    ]
    return Contender(name, lambda i: call(config, addresses[i], length_at, out_at))


def xgboost_peer(X: Singles, y: NDArray[np.int64], test: Singles) -> Contender:
    """XGBoost's inplace_predict, on its own model of the same shape."""
    import xgboost

    options: dict[str, Any] = {"max_depth": DEPTH, "eta": RATE, "nthread": 1}
    options |= {"objective": "binary:logistic", "tree_method": "hist"}
    booster = xgboost.train(options, xgboost.DMatrix(X, y), TREES)
    rows = [test[i : i + 1] for i in range(len(test))]
    return Contender(
        "XGBoost inplace_predict (own model)",
        lambda i: booster.inplace_predict(rows[i]),
        booster.inplace_predict,
    )


def sklearn_peer(X: Singles, y: NDArray[np.int64], test: Singles) -> list[Contender]:
    """scikit-learn's GradientBoosting, and ours on that model."""
    from sklearn.ensemble import GradientBoostingClassifier

    fitted = GradientBoostingClassifier(
        n_estimators=TREES, max_depth=DEPTH, learning_rate=RATE, subsample=0.5
    ).fit(X[:8000], y[:8000])
    ensemble = compile_ensemble(fitted)
    few = test[:500]
    check(ensemble.decision_function(few), fitted.decision_function(few), 0)
    rows = [test[i : i + 1] for i in range(len(test))]
    own = ours(ensemble, test)[0]
    own.name = "polydom, on scikit-learn's model"
    return [
        own,
        Contender(
            "scikit-learn GradientBoosting",
            lambda i: fitted.predict_proba(rows[i]),
            fitted.predict_proba,
        ),
    ]


def onnx_peer(booster: Any, X: Singles, raw: NDArray[np.float64]) -> Contender:
    """ONNX Runtime on the LightGBM model."""
    onnxruntime: Any = importlib.import_module("onnxruntime")
    tools: Any = importlib.import_module("onnxmltools")
    types: Any = importlib.import_module("onnxmltools.convert.common.data_types")
    kinds = [("x", types.FloatTensorType([None, X.shape[1]]))]
    model = tools.convert_lightgbm(booster, initial_types=kinds, zipmap=False)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(model.SerializeToString(), options)
    name = session.get_inputs()[0].name
    shares = session.run(None, {name: X[:500]})[1][:, 1]
    check(shares, 1 / (1 + np.exp(-raw[:500])), 1e-5)
    rows = [X[i : i + 1] for i in range(len(X))]
    return Contender(
        "ONNX Runtime",
        lambda i: session.run(None, {name: rows[i]}),
        lambda batch: session.run(None, {name: batch}),
    )


def compile_lleaves(python: str, model: Path) -> str:
    """Have an interpreter that has lleaves compile a model; return the library."""
    script = Path(__file__).with_name("lleaves_compile.py")
    made, linked = model.with_suffix(".o"), tempfile.mkdtemp() + "/lleaves.so"
    subprocess.run([python, str(script), str(model), str(made)], check=True)
    subprocess.run(["cc", "-shared", "-o", linked, str(made), "-lm"], check=True)
    return linked


def lleaves_peer(path: str, X: Singles, raw: NDArray[np.float64]) -> Contender:
    """The function that lleaves compiled: forest_root(data, out, begin, end)."""
    call = ctypes.CDLL(path).forest_root
    doubles, out = X.astype(np.float64), np.zeros(len(X))
    data_at, out_at = doubles.ctypes.data, out.ctypes.data
    stride = 8 * X.shape[1]
    call.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int, ctypes.c_int]
    call(data_at, out_at, 0, 500)
    check(out[:500], 1 / (1 + np.exp(-raw[:500])), 1e-9)

    def many(batch: Singles) -> None:
        # The addresses hold no array alive; this function does.
        call(data_at, out_at, 0, min(len(batch), len(doubles), len(out)))

    return Contender(
        "lleaves raw C", lambda i: call(data_at + stride * i, out_at, 0, 1), many
    )


def check(found: NDArray[Any], expected: NDArray[Any], tolerance: float) -> None:
    """Stop unless a contender answers as it should."""
    gap = float(np.abs(np.asarray(found) - expected).max())
    if not gap <= tolerance:
        raise AssertionError(f"answers differ by {gap:g}, more than {tolerance:g}")


def measure(contenders: list[Contender], X: Singles) -> None:
    """Time every contender once per round, in turn; medians are taken later."""
    step = max(1, len(X) // CALLS)
    for _ in range(ROUNDS):
        for contender in contenders:
            if contender.one is not None:
                contender.one(0)
                start = time.perf_counter()
                for i in range(0, CALLS * step, step):
                    contender.one(i)
                contender.one_s.append((time.perf_counter() - start) / CALLS)
            if contender.rows is not None:
                start = time.perf_counter()
                contender.rows(1000)
                contender.rows_s.append((time.perf_counter() - start) / 1000)
            if contender.many is not None:
                start = time.perf_counter()
                contender.many(X[:BATCH])
                contender.many_s.append((time.perf_counter() - start) / BATCH)


def us(times_s: list[float]) -> float | None:
    """Median in microseconds."""
    return round(statistics.median(times_s) * 1e6, 3) if times_s else None


def gather(
    folder: Path, lleaves: str | None
) -> tuple[list[Contender], list[str], Singles]:
    """Train, compile and check; contenders, and the peers that are missing."""
    import lightgbm

    X, positive, test, _ = load_adult(folder)
    options: dict[str, Any] = {
        "objective": "binary",
        "num_leaves": 2**DEPTH,
        "max_depth": DEPTH,
    }
    options |= {"learning_rate": RATE, "num_threads": 1, "verbose": -1}
    booster = lightgbm.train(options, lightgbm.Dataset(X, positive), TREES)
    with tempfile.TemporaryDirectory() as place:
        path = Path(place) / "model.txt"
        booster.save_model(path)
        booster = lightgbm.Booster(model_file=path)
        ensemble = compile_ensemble(path)
        link = None if lleaves is None else compile_lleaves(lleaves, path)
    raw = ensemble.decision_function(test)
    contenders = [*ours(ensemble, test), fitted_exit(ensemble, X, test)]
    contenders += lightgbm_peers(booster, test, raw)
    missing = []
    peers: dict[str, Callable[[], Contender | list[Contender]]] = {
        "scikit-learn": lambda: sklearn_peer(X, positive, test),
        "XGBoost": lambda: xgboost_peer(X, positive, test),
        "ONNX Runtime": lambda: onnx_peer(booster, test, raw),
    }
    if link is None:
        missing.append("lleaves: no --lleaves PYTHON given")
    else:
        peers["lleaves"] = lambda: lleaves_peer(link, test, raw)
    for name, make in peers.items():
        try:
            made = make()
        except (ImportError, OSError, AssertionError) as error:
            missing.append(f"{name}: {error}")
            continue
        contenders += made if isinstance(made, list) else [made]
    for name in ("tl2cgen", "ydf", "catboost"):
        missing.append(f"{name}: not wired into this benchmark")
    return contenders, missing, test


def main() -> int:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="folder of the data sets")
    parser.add_argument("--lleaves", help="interpreter that has lleaves")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    arguments = parser.parse_args()
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    contenders, missing, X = gather(arguments.folder, arguments.lleaves)
    measure(contenders, X)
    table = [
        {
            "name": c.name,
            "one_us": us(c.one_s),
            "compiled_us": us(c.rows_s),
            "batch_us_per_row": us(c.many_s),
        }
        for c in contenders
    ]
    names = "numpy", "numba", "lightgbm", "sklearn", "xgboost", "onnxruntime"
    versions = {
        name: str(getattr(sys.modules[name], "__version__", "?"))
        for name in names
        if name in sys.modules
    }
    facts: dict[str, str] = {
        "machine": platform.processor() or platform.machine(),
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
