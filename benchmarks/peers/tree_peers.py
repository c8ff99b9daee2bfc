"""Other people's ways to evaluate trees, each checked before it is timed."""

import ctypes
import importlib
import json
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polydom.models import compile
from polydom.models.early_exit.ensemble import Ensemble

from ..models.boosting import DEPTH, RATE, TREES
from .contender import Contender, Singles, batches, check, shares
from .xgboost_file import oblivious_tree, write_xgboost

MARGINS = 2.0, 3.0


def lightgbm_peers(
    booster: Any, X: Singles, raw: NDArray[np.float64]
) -> list[Contender]:
    """LightGBM's own predict, and its C call for one row."""
    check(booster.predict(X[:200], raw_score=True, num_threads=1), raw[:200], 0)
    early = "pred_early_stop=true pred_early_stop_freq=10 pred_early_stop_margin"
    return [
        batches(
            "LightGBM predict",
            partial(booster.predict, raw_score=True, num_threads=1),
            X,
        ),
        single_row_fast("LightGBM single-row fast", booster, X, "", raw[:200]),
        *[
            single_row_fast(
                f"LightGBM early stop, margin {m:g}", booster, X, f"{early}={m}"
            )
            for m in MARGINS
        ],
    ]


def single_row_fast(
    name: str,
    booster: Any,
    X: Singles,
    options: str,
    expected: NDArray[np.float64] | tuple[()] = (),
) -> Contender:
    """LGBM_BoosterPredictForMatSingleRowFast, through ctypes."""
    basic: Any = importlib.import_module("lightgbm.basic")
    library = basic._LIB
    handle, config = booster._handle, ctypes.c_void_p()
    code = library.LGBM_BoosterPredictForMatSingleRowFastInit(
        handle, 1, 0, -1, 0, X.shape[1], f"num_threads=1 {options}".encode(),
        ctypes.byref(config),
    )  # fmt: skip
    assert code == 0, "LightGBM refused the single-row call"
    length = ctypes.c_int64()
    out = (ctypes.c_double * booster.num_model_per_iteration())()
    call, length_at, out_at = (
        library.LGBM_BoosterPredictForMatSingleRowFast,
        ctypes.byref(length),
        ctypes.byref(out),
    )
    addresses = [
        ctypes.c_void_p(X.ctypes.data + 4 * X.shape[1] * i) for i in range(len(X))
    ]
    for i, score in enumerate(expected):
        call(config, addresses[i], length_at, out_at)
        check(np.array(out), score, 0)
    return Contender(name, lambda i: call(config, addresses[i], length_at, out_at))


def xgboost_peer(
    place: Path, X: Singles, y: NDArray[np.int64], test: Singles
) -> tuple[list[Contender], Ensemble]:
    """XGBoost's inplace_predict on its own model of the same shape, and ours on it."""
    import xgboost

    options: dict[str, Any] = {"max_depth": DEPTH, "eta": RATE, "nthread": 1}
    options |= {"objective": "binary:logistic", "tree_method": "hist"}
    booster = xgboost.train(options, xgboost.DMatrix(X, y), TREES)
    booster.save_model(place / "xgboost.json")
    ensemble = compile(place / "xgboost.json")
    raw = ensemble.decision_function(test)
    check(booster.inplace_predict(test), shares(raw), 1e-5)
    name = "XGBoost inplace_predict (own model)"
    return [batches(name, booster.inplace_predict, test)], ensemble


def sklearn_peer(
    X: Singles, y: NDArray[np.int64], test: Singles
) -> tuple[list[Contender], Ensemble]:
    """scikit-learn's GradientBoosting on its own model, and ours on it."""
    from sklearn.ensemble import GradientBoostingClassifier

    fitted = GradientBoostingClassifier(
        n_estimators=TREES, max_depth=DEPTH, learning_rate=RATE, subsample=0.5
    ).fit(X[:8000], y[:8000])
    ensemble = compile(fitted)
    few = test[:500]
    check(ensemble.decision_function(few), fitted.decision_function(few), 0)
    name = "scikit-learn GradientBoosting (own model)"
    return [batches(name, fitted.predict_proba, test)], ensemble


def catboost_peer(
    place: Path, X: Singles, y: NDArray[np.int64], test: Singles
) -> tuple[list[Contender], Ensemble]:
    """CatBoost on its own model, whose trees ask one question per level; ours on it."""
    catboost: Any = importlib.import_module("catboost")
    fitted = catboost.CatBoostClassifier(
        iterations=TREES,
        depth=DEPTH,
        learning_rate=RATE,
        thread_count=1,
        verbose=False,
        allow_writing_files=False,
    ).fit(X, y)
    fitted.save_model(str(place / "catboost.json"), format="json")
    kept = json.loads((place / "catboost.json").read_text())
    scale, (bias,) = kept["scale_and_bias"]
    trees = [
        oblivious_tree(
            [
                (split["float_feature_index"], split["border"])
                for split in tree["splits"]
            ],
            [scale * value for value in tree["leaf_values"]],
        )
        for tree in kept["oblivious_trees"]
    ]
    write_xgboost(place / "of_catboost.json", trees, bias, X.shape[1])
    ensemble = compile(place / "of_catboost.json")

    def predict(batch: Singles) -> Any:
        return fitted.predict(batch, prediction_type="RawFormulaVal", thread_count=1)

    check(predict(test), ensemble.decision_function(test), 1e-5)
    rows = list(test)
    peer = Contender(
        "CatBoost predict (own model)", lambda i: predict(rows[i]), predict
    )
    return [peer], ensemble


def treelite_peer(model: Path, X: Singles, raw: NDArray[np.float64]) -> Contender:
    """treelite's general tree inference."""
    treelite: Any = importlib.import_module("treelite")
    read = treelite.frontend.load_lightgbm_model(model)

    def predict(rows: Singles) -> Any:
        return treelite.gtil.predict(read, rows, nthread=1, pred_margin=True)

    check(predict(X[:500]).reshape(-1), raw[:500], 1e-5)
    return batches("treelite GTIL", predict, X)


def onnx_peer(booster: Any, X: Singles, raw: NDArray[np.float64]) -> Contender:
    """ONNX Runtime on the LightGBM model."""
    onnxruntime: Any = importlib.import_module("onnxruntime")
    tools: Any = importlib.import_module("onnxmltools")
    types: Any = importlib.import_module("onnxmltools.convert.common.data_types")
    kinds = [("x", types.FloatTensorType([None, X.shape[1]]))]
    model = tools.convert_lightgbm(booster, initial_types=kinds, zipmap=False)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 3  # it warns that a batch has many rows
    session = onnxruntime.InferenceSession(model.SerializeToString(), options)
    name = session.get_inputs()[0].name
    check(session.run(None, {name: X[:500]})[1][:, 1], shares(raw[:500]), 1e-5)
    return batches("ONNX Runtime", lambda rows: session.run(None, {name: rows}), X)
