"""A peer's function for one row, called from Python or from a loop in C."""

import ctypes
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray


class Loop:
    """Rows, and the shared object that evaluates them one after the other.

    Parameters
    ----------
    path
        Shared object with `void loop(T *rows, long count, int width, double *out)`.
    X : (N, width)
        Rows in the type T.
    """

    def __init__(self, path: Path, X: NDArray[Any]) -> None:
        self.X, self.out = np.ascontiguousarray(X), np.zeros(len(X))
        self.call = ctypes.CDLL(str(path)).loop
        pointer = ctypes.c_void_p
        self.call.argtypes = [pointer, ctypes.c_long, ctypes.c_int, pointer]
        self.call.restype = None
        self._width, self._out_at = X.shape[1], self.out.ctypes.data
        self._rows_at, self._stride = self.X.ctypes.data, self.X.strides[0]

    def one(self, i: int) -> None:
        """Evaluate row i."""
        self.call(self._rows_at + self._stride * i, 1, self._width, self._out_at)

    def rows(self, count: int) -> None:
        """Evaluate the first rows, one by one."""
        self.call(self._rows_at, count, self._width, self._out_at)


def build(place: Path, name: str, source: str, *objects: Path) -> Path:
    """Compile a loop around a peer's function; the ending of the name is its language.

    Raises
    ------
    OSError
        If the compiler is missing or refuses.
    """
    written = place / name
    written.write_text(source)
    compiler = {".c": "cc", ".cc": "c++"}[written.suffix]
    path = place / f"{written.stem}.so"
    options = ["-O3", "-march=native", "-shared", "-fPIC", f"-I{place}"]
    names = [str(file) for file in (written, *objects)]
    run([compiler, *options, "-o", str(path), *names, "-lm"])
    return path


def run(command: list[str]) -> None:
    """Run a command to its end; OSError with its last words if it fails."""
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        words = done.stderr.strip().splitlines() or [f"code {done.returncode}"]
        raise OSError(f"{Path(command[0]).name} failed: {words[-1]}")
