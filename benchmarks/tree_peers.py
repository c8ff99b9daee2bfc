"""Other people's ways to evaluate trees, each checked before it is timed."""

import ctypes
import importlib
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .contender import Contender, Singles, check

TREES, DEPTH, RATE = 500, 5, 0.05
MARGINS = 2.0, 3.0


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


def sklearn_peer(
    X: Singles, y: NDArray[np.int64], test: Singles
) -> tuple[Contender, Any]:
    """scikit-learn's GradientBoosting on its own model, and the model."""
    from sklearn.ensemble import GradientBoostingClassifier

    fitted = GradientBoostingClassifier(
        n_estimators=TREES, max_depth=DEPTH, learning_rate=RATE, subsample=0.5
    ).fit(X[:8000], y[:8000])
    rows = [test[i : i + 1] for i in range(len(test))]
    peer = Contender(
        "scikit-learn GradientBoosting",
        lambda i: fitted.predict_proba(rows[i]),
        fitted.predict_proba,
    )
    return peer, fitted


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
