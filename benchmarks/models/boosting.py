"""LightGBM's trees, trained and compiled: the model of most benchmarks."""

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polydom.models import compile

TREES, DEPTH, RATE = 500, 5, 0.05
BINARY = {
    "objective": "binary",
    "max_depth": DEPTH,
    "num_leaves": 2**DEPTH,
    "learning_rate": RATE,
}
SAME = {"deterministic": True, "force_row_wise": True}  # the same trees in every run


def boost(
    X: NDArray[Any], y: NDArray[np.int64], rounds: int = TREES, **options: Any
) -> tuple[Any, Any]:
    """Train, and compile what LightGBM writes; the booster is read back from it too."""
    import lightgbm

    options = {"verbosity": -1, **options}
    booster = lightgbm.train(options, lightgbm.Dataset(X, y), rounds)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "model.txt")
        booster.save_model(path)
        return lightgbm.Booster(model_file=path), compile(path)
