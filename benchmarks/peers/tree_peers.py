"""Other people's ways to evaluate trees, each checked before it is timed."""

import ctypes
import importlib
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .contender import Contender, Singles, batches, check, shares

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
