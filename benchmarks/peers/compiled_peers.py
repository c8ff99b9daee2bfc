"""Peers that compile a model to machine code, each checked before it is timed."""

import ctypes
import importlib
import sys
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .c_loop import Loop, build, run
from .contender import Contender, Singles, check, shares

LLEAVES_LOOP = """
void forest_root(double *data, double *out, int first, int last);
void loop(double *rows, long count, int width, double *out) {
    for (long i = 0; i < count; i++) forest_root(rows + i * width, out + i, 0, 1);
}
"""
# predict writes over its row, whose cells are unions of a double and an int.
TL2CGEN_LOOP = """
#include <string.h>
void predict(void *data, int pred_margin, double *result);
void loop(double *rows, long count, int width, double *out) {
    double row[width];
    for (long i = 0; i < count; i++) {
        memcpy(row, rows + i * width, sizeof(row));
        out[i] = 0;
        predict(row, 1, out + i);
    }
}
"""


def lleaves_peer(
    python: str, model: Path, place: Path, X: Singles, raw: NDArray[np.float64]
) -> Contender:
    """The function that lleaves compiled: forest_root(data, out, begin, end)."""
    made = place / "lleaves.o"
    script = Path(__file__).with_name("lleaves_compile.py")
    run([python, str(script), str(model), str(made)])
    path = build(place, "lleaves_loop.c", LLEAVES_LOOP, made)
    loop = Loop(path, X.astype(np.float64))
    whole = ctypes.CDLL(str(path)).forest_root
    whole.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int, ctypes.c_int]
    loop.rows(len(X))
    check(loop.out, shares(raw), 1e-9)

    def many(batch: Singles) -> None:
        whole(loop.X.ctypes.data, loop.out.ctypes.data, 0, len(batch))

    loop.out[:] = 0
    many(X)
    check(loop.out, shares(raw), 1e-9)
    return Contender("lleaves raw C", loop.one, many, loop.rows)


def tl2cgen_peers(
    model: Path, place: Path, X: Singles, raw: NDArray[np.float64]
) -> list[Contender]:
    """tl2cgen's predictor, and the function that it compiles."""
    tl2cgen: Any = importlib.import_module("tl2cgen")
    library = place / "tl2cgen.so"
    script = Path(__file__).with_name("tl2cgen_compile.py")
    run([sys.executable, str(script), str(model), str(library)])
    predictor = tl2cgen.Predictor(library, nthread=1)

    def predict(batch: NDArray[np.float64]) -> Any:
        return predictor.predict(tl2cgen.DMatrix(batch), pred_margin=True)

    loop = Loop(build(place, "tl2cgen_loop.c", TL2CGEN_LOOP, library), X.astype("f8"))
    loop.rows(len(X))
    check(loop.out, raw, 1e-9)
    check(np.asarray(predict(loop.X)).reshape(-1), raw, 1e-9)
    rows = [loop.X[i : i + 1] for i in range(len(X))]
    return [
        Contender(
            "tl2cgen Predictor",
            lambda i: predict(rows[i]),
            lambda batch: predict(loop.X[: len(batch)]),
        ),
        Contender("tl2cgen raw C", loop.one, rows=loop.rows),
    ]
