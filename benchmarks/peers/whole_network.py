"""A whole network and a linear model behind plain FastAPI, as people serve them.

An image is decoded at the smallest of JPEG's scales that is large enough, resized, and
run through the network by ONNX Runtime in one thread. scikit-learn's logistic
regression on the standardised output answers. A cascade asks the smaller side first,
and the larger one where the first is unsure.
"""

import io
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from PIL import Image
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold, cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from . import peer_servers

MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
SIDES = (128, 224)
CASCADE = "cascade"
STRENGTHS = (1e-3, 1e-2, 1e-1)  # of the regression, from which folds choose
FOLDS = 3
TIMED = 200

Floats = NDArray[np.float32]


def whole(side: int) -> str:
    """What the model of one side is called."""
    return f"whole-{side}"


class Linear(NamedTuple):
    """A logistic regression on standardised columns, as one product."""

    weights: Floats  # (W, K) float32
    bias: Floats  # (K,) float32

    @classmethod
    def of(cls, fitted: Any) -> Self:
        """Fold the mean and the spread of columns into the weights."""
        scaler, regression = (step for _, step in fitted.steps)
        weights = regression.coef_.T / scaler.scale_[:, np.newaxis]
        bias = regression.intercept_ - scaler.mean_ @ weights
        return cls(weights.astype(np.float32), bias.astype(np.float32))

    def __call__(self, columns: Floats) -> tuple[int, float]:
        """The class, and its probability."""
        raw = columns @ self.weights + self.bias
        best = int(raw.argmax())
        return best, float(1 / np.exp(raw - raw[best]).sum())


class WholeNetwork:
    """An ONNX file of images, in one thread."""

    def __init__(self, file: Path) -> None:
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        providers = ["CPUExecutionProvider"]
        self._session = onnxruntime.InferenceSession(file, options, providers)
        self._input = self._session.get_inputs()[0].name
        self._mean = np.array(MEAN, np.float32)
        self._std = np.array(STD, np.float32)

    @staticmethod
    def decoded(content: bytes, side: int) -> Image.Image:
        """Decode an image with at least `side` pixels a side, if it has as many."""
        image = Image.open(io.BytesIO(content))
        image.draft("RGB", (side, side))
        return image.convert("RGB")

    def tensor(self, image: Image.Image, side: int) -> Floats:
        """Resize and scale an image to (1, 3, side, side)."""
        small = image.resize((side, side), Image.Resampling.BILINEAR)
        pixels = (np.asarray(small, np.float32) / 255 - self._mean) / self._std
        return np.ascontiguousarray(pixels.transpose(2, 0, 1)[np.newaxis])

    def run(self, tensor: Floats) -> Floats:
        """Return the output (n, W) of n images."""
        output: Floats = self._session.run(None, {self._input: tensor})[0]
        return output

    def columns(self, images: Sequence[bytes], side: int) -> Floats:
        """Return the outputs (n, W), one image after the other."""
        tensors = (self.tensor(self.decoded(one, side), side) for one in images)
        return np.concatenate([self.run(tensor) for tensor in tensors])

    def times_ms(self, side: int) -> dict[str, float]:
        """Time the network alone for one image: median and 99 of 100."""
        tensor = np.random.default_rng(0).random((1, 3, side, side), np.float32)
        took_ms = []
        for _ in range(TIMED):
            start_s = time.perf_counter()
            self.run(tensor)
            took_ms.append(1e3 * (time.perf_counter() - start_s))
        p50, p99 = np.quantile(took_ms, (0.5, 0.99)).tolist()
        return {"p50": p50, "p99": p99}


def fit(file: Path, images: Sequence[bytes], labels: Sequence[str], kept: Path) -> None:
    """Fit the models of both sides and the cascade's threshold; keep them in a file.

    The threshold is the least at which answers of the folds are as often right as those
    of the larger side alone, or as often as they can be.
    """
    network, shares = WholeNetwork(file), list[NDArray[np.float64]]()
    arrays: dict[str, NDArray[Any]] = {"labels": np.unique(labels)}
    for side in SIDES:
        columns = network.columns(images, side)
        fitted, share = chosen(columns, labels)
        shares.append(share)
        linear = Linear.of(fitted)
        arrays |= {f"{name}_{side}": own for name, own in linear._asdict().items()}
    codes = np.searchsorted(arrays["labels"], labels)
    arrays["threshold"] = np.array(threshold(shares[0], shares[1], codes))
    np.savez(kept, allow_pickle=False, **arrays)


def chosen(columns: Floats, labels: Sequence[str]) -> tuple[Any, NDArray[np.float64]]:
    """Fit by the strength that folds find best; and the folds' probabilities (n, K)."""
    best, right, shares = None, -1.0, np.empty(0)
    folds = StratifiedKFold(FOLDS, shuffle=True, random_state=0)
    for strength in STRENGTHS:
        model = make_pipeline(
            StandardScaler(), LogisticRegression(C=strength, max_iter=300)
        )
        found = cross_val_predict(
            model, columns, labels, cv=folds, method="predict_proba"
        )
        share = float((np.unique(labels)[found.argmax(1)] == np.array(labels)).mean())
        if share > right:
            best, right, shares = model, share, found
    assert best is not None
    return best.fit(columns, labels), shares


def threshold(
    first: NDArray[np.float64], second: NDArray[np.float64], codes: NDArray[np.int64]
) -> float:
    """The least probability of the first model that makes the second unnecessary."""
    sure = first.max(axis=1)
    order = np.argsort(sure)
    right = [(one.argmax(axis=1) == codes)[order] for one in (first, second)]
    # right answers where the second model is asked for the k least sure items
    asked = np.append(0, np.cumsum(right[1]))
    left = right[0].sum() - np.append(0, np.cumsum(right[0]))
    least, counts = np.unique(sure, return_counts=True)
    total = (asked + left)[np.append(0, np.cumsum(counts))]
    found = int(np.argmax(total >= min(total.max(), right[1].sum())))
    return float(np.append(least, np.inf)[found])


class Service:
    """Answers of both sides, and of the cascade."""

    def __init__(self, file: Path, kept: Path) -> None:
        self.network = WholeNetwork(file)
        with np.load(kept) as arrays:
            self.labels = arrays["labels"].tolist()
            self.threshold = float(arrays["threshold"])
            self.models = {
                side: Linear(*(arrays[f"{name}_{side}"] for name in Linear._fields))
                for side in SIDES
            }
        self.sides = {whole(side): [side] for side in SIDES} | {CASCADE: [*SIDES]}

    def __call__(self, content: bytes, model: str) -> dict[str, Any]:
        """The label, its probability, and the last side that was looked at."""
        sides = self.sides[model]
        image = self.network.decoded(content, sides[-1])
        for side in sides:
            columns = self.network.run(self.network.tensor(image, side))[0]
            code, sure = self.models[side](columns)
            if sure >= self.threshold:
                break
        return {"label": self.labels[code], "score": sure, "side": side}


def application(service: Service) -> Any:
    """An application of FastAPI."""
    from fastapi import FastAPI, Request

    made = FastAPI()

    async def ready() -> dict[str, str]:
        return {}

    async def predict(request: Request, model: str) -> dict[str, Any]:
        return service(await request.body(), model)

    made.get("/readyz")(ready)
    made.post("/v1/predict")(predict)
    return made


def serve(port: int, file: Path, kept: Path) -> None:
    """Serve in this process, as polydom is served."""
    peer_servers.serve(application(Service(file, kept)), port)
