"""What do weights of 8 bits give a network of images, in time and in accuracy?

python -m benchmarks int8

The network as it is, and as onnxruntime.quantization makes it: by `quantize_dynamic`,
and by `quantize_static` with a hundred training images. Right are answers of a logistic
regression on the standardised output for scenes that it has not seen. The time of an
image is that of the whole network, without decoding, in one thread; the contenders take
turns.
"""

import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from onnxruntime.quantization import (
    CalibrationDataReader,
    quantize_dynamic,
    quantize_static,
)
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from polydom.features.networks.inputs import Colours, ImageTensor
from polydom.features.networks.open_network import open_network
from polydom.features.networks.session import CPU_ONLY, open_session
from polydom.features.networks.terms import network

from .. import report
from ..data import digits, scenes
from ..data.kept_items import kept
from ..peers.whole_network import MEAN, SIDES, STD
from ..serving.indexes.image_sets import network_file

PIXELS: dict[str, Any] = {"mean": [*MEAN], "std": [*STD]}
QUICK_SIDES = (32,)
IMAGES, QUICK_IMAGES = 1500, 40
CALIBRATED = 100
ROUNDS, QUICK_ROUNDS = 200, 3

Pixels = NDArray[np.float32]
Labels = NDArray[np.str_]


class Images(CalibrationDataReader):  # type: ignore[misc]
    """Images for `quantize_static`, which measures the range of every map on them."""

    def __init__(self, name: str, images: Sequence[Pixels]) -> None:
        self._left = iter([{name: image} for image in images])

    def get_next(self) -> dict[str, Pixels] | None:
        """Return the next image, or None."""
        return next(self._left, None)


def pixels_of(
    file: Path, side: int, images: Sequence[bytes]
) -> tuple[str, list[Pixels]]:
    """Return the name of a network's input, and tensors (1, 3, side, side) for it."""
    terms = network("net", file, kind="image", outputs="end", sides=[side], **PIXELS)
    facts = open_network(terms).facts.image
    assert facts is not None
    decode, scale = Colours(side), ImageTensor(facts, 0)
    session = open_session(file.read_bytes(), CPU_ONLY)
    return session.get_inputs()[0].name, [scale(decode(one))[0] for one in images]


def quantised(file: Path, name: str, images: Sequence[Pixels]) -> dict[str, Path]:
    """Write the network in 8 bits in both ways beside its file."""
    made = {
        "as it is": file,
        "dynamic": file.with_name(f"{file.stem}-dynamic.onnx"),
        "static": file.with_name(f"{file.stem}-static.onnx"),
    }
    quantize_dynamic(file, made["dynamic"])
    quantize_static(file, made["static"], Images(name, images), per_channel=True)
    return made


def rows(
    ways: dict[str, Path],
    name: str,
    own: tuple[list[Pixels], Labels],
    fresh: tuple[list[Pixels], Labels],
    rounds: int,
) -> Iterator[dict[str, Any]]:
    """Say of each file how right and how fast it is."""
    sessions = {way: open_session(f.read_bytes(), CPU_ONLY) for way, f in ways.items()}
    times: dict[str, list[float]] = {way: [] for way in ways}
    for number in range(rounds):
        for way, session in sessions.items():
            given = {name: own[0][number % len(own[0])]}
            began_s = time.perf_counter()
            session.run(None, given)
            times[way].append((time.perf_counter() - began_s) * 1e3)
    for way, session in sessions.items():
        X, fresh_X = (
            np.concatenate([session.run(None, {name: one})[0] for one in images])
            for images, _ in (own, fresh)
        )
        learner = make_pipeline(StandardScaler(), LogisticRegression(C=0.01))
        yield {
            "weights": way,
            "MB": ways[way].stat().st_size / 1e6,
            "ms": float(np.median(times[way])),
            "p99 ms": float(np.quantile(times[way], 0.99)),
            "right": learner.fit(X, own[1]).score(fresh_X, fresh[1]),
        }


def main(arguments: list[str] | None = None) -> None:
    """Run the benchmark."""
    parser = report.options(__name__, data=True)
    given = parser.parse_args(arguments)
    if not given.quick:
        report.need(given, "scene15", "networks")
    labelled = [*(digits.few(lambda group: True) if given.quick else scenes.load())]
    draw = np.random.default_rng(0).permutation(len(labelled))
    drawn = [labelled[k] for k in draw[: QUICK_IMAGES if given.quick else IMAGES]]
    fresh = np.array([kept(group) for _, _, group in drawn])
    labels = np.array([label for _, label, _ in drawn])
    table = []
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        network_of = network_file("few" if given.quick else "scenes", folder)
        file = folder / "network.onnx"
        file.write_bytes(network_of.read_bytes())
        for side in QUICK_SIDES if given.quick else SIDES:
            name, tensors = pixels_of(file, side, [image for image, _, _ in drawn])
            own, others = (
                ([tensors[k] for k in np.flatnonzero(part)], labels[part])
                for part in (~fresh, fresh)
            )
            ways = quantised(file, name, own[0][:CALIBRATED])
            rounds = QUICK_ROUNDS if given.quick else ROUNDS
            for facts in rows(ways, name, own, others, rounds):
                table.append({"side": side, **facts})
    report.tell({"int8": table}, given)


if __name__ == "__main__":
    main()
