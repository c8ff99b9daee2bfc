"""YDF on its own model, run by an interpreter that has it, checked, then timed."""

import json
import subprocess
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from polydom.models import compile
from polydom.models.early_exit.ensemble import Ensemble

from ..models.boosting import DEPTH, RATE, TREES
from .c_loop import Loop, build
from .contender import Contender, Singles, check, shares
from .xgboost_file import write_xgboost

YDF_LOOP = """
#include "ydf_model.h"
extern "C" void loop(float *rows, long count, int width, double *out) {
    for (long i = 0; i < count; i++) {
        ydf_model::Instance row;
        std::memcpy(&row, rows + i * width, sizeof(row));
        out[i] = ydf_model::Predict(row);
    }
}
"""


class Timer:
    """The other process: it times one round when told to, and ends with its input."""

    def __init__(self, python: str, place: Path, cpu: bool) -> None:
        script = Path(__file__).with_name("ydf_timer.py")
        process = subprocess.Popen(
            [python, str(script), str(place), "cpu" if cpu else "wall"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert process.stdin is not None
        assert process.stdout is not None
        self._asked, self._told = process.stdin, process.stdout
        self.version = self._told.readline().strip()
        if not self.version:
            raise OSError(f"{script.name} ended with code {process.wait()}")

    def ask(self, what: str) -> float:
        """Seconds per row."""
        self._asked.write(what + "\n")
        self._asked.flush()
        return float(self._told.readline())


def ydf_peers(
    python: str,
    place: Path,
    X: Singles,
    y: NDArray[np.int64],
    test: Singles,
    cpu: bool,
) -> tuple[list[Contender], Ensemble]:
    """YDF's predict, engine and standalone C++ on its own model, and ours on it."""
    np.savez(place / "rows.npz", X=X, y=y, Xt=test, trees=TREES, depth=DEPTH, rate=RATE)
    timer = Timer(python, place, cpu)
    kept = json.loads((place / "ydf_trees.json").read_text())
    write_xgboost(place / "ydf.json", kept["trees"], kept["bias"], X.shape[1])
    ensemble = compile(place / "ydf.json")
    raw = ensemble.decision_function(test)
    check(np.load(place / "ydf_shares.npy"), shares(raw), 1e-5)
    loop = Loop(build(place, "ydf_loop.cc", YDF_LOOP), test)
    loop.rows(len(test))
    # The generated source gives numbers in six digits.
    for tree in kept["trees"]:
        found = tree["split_conditions"]
        tree["split_conditions"] = [float(f"{number:g}") for number in found]
    write_xgboost(place / "short.json", kept["trees"], kept["bias"], X.shape[1])
    short = compile(place / "short.json")
    check(loop.out, short.decision_function(test), 1e-4)
    name = f"YDF {timer.version}"
    return [
        Contender(
            f"{name} predict (own model)",
            told={
                "one_s": lambda: timer.ask("one"),
                "many_s": lambda: timer.ask("many"),
            },
        ),
        Contender(
            f"{name} engine, its own benchmark",
            told={
                "rows_s": lambda: timer.ask("engine 1"),
                "many_s": lambda: timer.ask("engine 1000"),
            },
        ),
        Contender(f"{name} standalone C++", loop.one, rows=loop.rows),
    ], ensemble
