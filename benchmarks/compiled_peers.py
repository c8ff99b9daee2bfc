"""Peers that compile a model to machine code, each checked before it is timed."""

import ctypes
import subprocess
import tempfile
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from .contender import Contender, Singles, check


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
