"""How many images a second with a network, one by one and together.

python -m benchmarks batches                  builds an index, some minutes
python -m benchmarks batches --cache FOLDER   keeps it, as `headline` does

First the network alone, by ONNX Runtime in one thread: images a second for each number
of images in a call. Then what polydom does with the same photographs, each step for one
image at a time: `polydom score` in this process, and one batch over HTTP to a server,
each on one core; with a budget for all that buys every image the best plan, and with a
quarter of the time that this took.
"""

import json
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from polydom.server.client.sync import Client
from polydom.server.offline_scoring.file_run import FileRun
from polydom.server.schema.wire import Entry
from polydom.server.settings import Settings

from .. import report
from ..peers.whole_network import SIDES, WholeNetwork
from ..serving.indexes.image_sets import ImageSet, as_bytes
from ..serving.served import serving
from .photo_index import options, photos

TOGETHER = (1, 4, 16)
CALLS, QUICK_CALLS = 48, 2
ENOUGH_S = 600.0
PART = 0.25
WARM = 10


class Answered(NamedTuple):
    """How long a batch took, and its labels in order."""

    took_s: float
    labels: list[str | None]


def together(network: Path, calls: int) -> list[dict[str, float]]:
    """Images a second of the network alone, by the median call."""
    whole, rows = WholeNetwork(network), []
    for side in SIDES:
        row: dict[str, float] = {"pixels": side}
        for count in TOGETHER:
            shape = count, 3, side, side
            tensor = np.random.default_rng(0).random(shape, np.float32)
            whole.run(tensor)
            took_s = []
            for _ in range(max(1, calls // count)):
                began_s = time.perf_counter()
                whole.run(tensor)
                took_s.append(time.perf_counter() - began_s)
            row[f"{count} in a call"] = count / float(np.median(took_s))
        rows.append(row)
    return rows


def by_score(images: ImageSet, budget_s: float) -> Answered:
    """Score all images in one run of `polydom score`, without its start."""
    with tempfile.TemporaryDirectory() as made:
        folder, output = Path(made, "images"), Path(made, "answers.jsonl")
        folder.mkdir()
        for number, item in enumerate(images.items):
            (folder / f"{number:05d}.jpg").write_bytes(as_bytes(item))
        run = FileRun(images.path, folder, output, [], False, None, None)
        ready = run.warm_up(1)
        began_s = time.perf_counter()
        run.carry_out(ready, budget_s, True, lambda done, left=None: None)
        took_s = time.perf_counter() - began_s
        lines = output.read_text("utf-8").splitlines()
    return Answered(took_s, [json.loads(line)["label"] for line in lines])


def by_http(images: ImageSet, budget_s: float) -> Answered:
    """Send all images in one batch to a server."""
    settings = Settings(max_budget_s=ENOUGH_S)
    with (
        serving(images.path, settings) as port,
        Client(f"http://127.0.0.1:{port}") as client,
    ):
        began_s = time.perf_counter()
        found = [
            *client.predict_batch(
                [as_bytes(item) for item in images.items],
                total_budget_ms=1e3 * budget_s,
            )
        ]
        took_s = time.perf_counter() - began_s
    report.unpin()
    return Answered(took_s, [one.label for one in found if isinstance(one, Entry)])


WAYS: dict[str, Callable[[ImageSet, float], Answered]] = {
    "polydom score": by_score,
    "/v1/batch": by_http,
}


def one_by_one(images: ImageSet) -> list[dict[str, Any]]:
    """Images a second within each budget, and the share of right answers."""
    rows = []
    by_score(images._replace(items=images.items[:WARM]), ENOUGH_S)
    for name, way in WAYS.items():
        took_s = ENOUGH_S / PART
        for told in ("the best plan for each", "a quarter of that"):
            budget_s = PART * took_s
            took_s, labels = way(images, budget_s)
            pairs = zip(labels, images.labels, strict=True)
            rows.append(
                {
                    "way": name,
                    "budget": told,
                    "images a second": len(labels) / took_s,
                    "right": float(np.mean([one == own for one, own in pairs])),
                }
            )
    return rows


def main(arguments: list[str] | None = None) -> None:
    """Run the benchmark."""
    given = options(__name__).parse_args(arguments)
    with photos(given) as made:
        report.pin()
        alone = together(made.network, QUICK_CALLS if given.quick else CALLS)
        found = one_by_one(made.with_network)
        report.unpin()
    report.tell({"the network alone, images a second": alone, "polydom": found}, given)
