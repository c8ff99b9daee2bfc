"""Accuracy against budget on ICSP's scenes, and whether the budgets hold.

python -m benchmarks.serving.bench_scenes         builds, serves, asks, prints two tables
python -m benchmarks.serving.bench_scenes --json  one JSON object, for the record
python -m benchmarks.serving.bench_scenes --plot scenes.png  what `polydom evaluate` draws

The index is built, and its sets are chosen, on three quarters of the images; the others
are sent to a real server over one connection, one at a time, at every budget.
Whether an answer was inside it is told by the server, and by the client's own clock.
"""

import argparse
import http.client
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from polydom.features.items import Item, make_item
from polydom.indexer import Index, build
from polydom.indexer.building.project import Project
from polydom.indexer.building.template import default_features
from polydom.indexer.progress import OnProgress
from tests.support.servers import serving

from .. import report
from ..data.kept_items import KEPT
from ..data.scenes import FOLDER
from ..places import ROOT

BUDGETS_MS = (0.5, 1.0, 2.0, 3.0, 5.0, 8.0, 12.0, 20.0, 50.0, 100.0)
ASKED = 500
QUANTILES = (0.5, 0.99, 0.999)


@dataclass(frozen=True)
class Asked:
    """Answers to the held-out images at one budget, as arrays over the images."""

    budget_ms: float
    right: np.ndarray
    fits: np.ndarray
    met: np.ndarray
    elapsed: np.ndarray
    waited: np.ndarray
    predicted_us: np.ndarray
    actual_us: np.ndarray


class Stages:
    """A Progress that notes how long each stage took, in seconds."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    @contextmanager
    def stage(self, name: str, total: int | None) -> Iterator[OnProgress]:
        start = time.perf_counter()
        yield lambda done, left=None: None
        self.seconds[name] = time.perf_counter() - start


def project(arguments: argparse.Namespace) -> Project:
    """The project to build, as PROJECT.toml would say it."""
    return Project.from_mapping(
        {
            "data": {"items": "benchmarks.data.kept_items:build_scenes"},
            "features": {"use": default_features("image")},
            "learner": {"name": arguments.learner},
            "search": {
                "alpha": arguments.alpha,
                "tolerance": arguments.tolerance,
            },
            "seed": arguments.seed,
        },
        folder=ROOT,
    )


def ask_all(items: list[Item], labels: list[str], budget_ms: float, port: int) -> Asked:
    """Send every item once over one connection."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    answers: list[dict[str, Any]] = []
    waited_s = []
    for item in items:
        assert isinstance(item.payload, bytes)
        headers = {"Content-Type": "image/jpeg", "X-Budget-Ms": str(budget_ms)}
        start = time.perf_counter()
        connection.request("POST", "/v1/predict", item.payload, headers)
        answer = connection.getresponse().read()
        waited_s.append(time.perf_counter() - start)
        answers.append(json.loads(answer))
    connection.close()

    def column(name: str) -> np.ndarray:
        return np.array([answer[name] for answer in answers], float)

    return Asked(
        budget_ms,
        np.array([a["label"] == b for a, b in zip(answers, labels, strict=True)]),
        column("predicted_us") <= budget_ms * 1e3,
        column("budget_met").astype(bool),
        column("elapsed_us") / (budget_ms * 1e3),
        np.array(waited_s) / (budget_ms / 1e3),
        column("predicted_us"),
        column("actual_us"),
    )


def summary(asked: Asked) -> dict[str, float]:
    """The row of both tables for one budget."""
    fits = asked.fits
    ratio = asked.actual_us / asked.predicted_us
    return {
        "budget_ms": asked.budget_ms,
        "accuracy": float(asked.right.mean()),
        "fits": float(fits.mean()),
        "in_budget": float(asked.met[fits].mean()) if fits.any() else float("nan"),
        "in_budget_at_client": float((asked.waited <= 1).mean()),
        **{
            f"elapsed/budget p{100 * q:g}": float(np.quantile(asked.elapsed, q))
            for q in QUANTILES
        },
        **{
            f"actual/predicted p{100 * q:g}": float(np.quantile(ratio, q))
            for q in QUANTILES
        },
    }


def draw(index: Path, labelled: list[tuple[bytes, str]], plot: Path) -> None:
    """Let `polydom evaluate` draw accuracy and share in time against budget."""
    with tempfile.TemporaryDirectory() as name:
        for number, (image, label) in enumerate(labelled):
            place = Path(name, label, f"{number}.jpg")
            place.parent.mkdir(exist_ok=True)
            place.write_bytes(image)
        budgets = ",".join(f"{budget:g}" for budget in BUDGETS_MS)
        command = ["evaluate", str(index), name, "--budgets", budgets]
        given = [sys.executable, "-m", "polydom", *command, "--plot", str(plot)]
        subprocess.run(given, check=True, stdout=sys.stderr)


def run(arguments: argparse.Namespace, cache: Path) -> dict[str, Any]:
    """Build, serve, ask."""
    plan, stages = project(arguments), Stages()
    path = cache / "scenes.pdx"
    start = time.perf_counter()
    index: Index = build(plan, output=path, cache=cache, progress=stages)
    seconds = time.perf_counter() - start
    given = list(KEPT["scenes"]())
    rows = np.random.default_rng(plan.seed).permutation(len(given))[: arguments.asked]
    items = [make_item(given[row][0]) for row in rows]
    labels = [given[row][1] for row in rows]
    with serving(path) as (_, port):
        ask_all(items[:50], labels[:50], 50.0, port)
        asked = [ask_all(items, labels, budget, port) for budget in BUDGETS_MS]
    if arguments.plot is not None:
        draw(path, [(given[row][0], given[row][1]) for row in rows], arguments.plot)
    fits = np.concatenate([one.fits for one in asked])
    met = np.concatenate([one.met for one in asked])
    assert index.package is not None
    return {
        "build_s": seconds,
        "stages_s": stages.seconds,
        "search": index.package.meta["search"],
        "candidates": len(index.qualities),
        "bytes": path.stat().st_size,
        "in_budget": float(met[fits].mean()),
        "answers": int(fits.sum()),
        "budgets": [summary(one) for one in asked],
    }


def main() -> None:
    parser = report.options(__doc__)
    parser.add_argument("--learner", default="lda")
    parser.add_argument("--alpha", type=float, default=1.05)
    parser.add_argument("--tolerance", type=float, default=0.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--asked", type=int, default=ASKED)
    parser.add_argument("--cache", type=Path, help="keep the build's cache here")
    parser.add_argument("--plot", type=Path, help="draw to this file, too")
    arguments = parser.parse_args()
    report.need(FOLDER)
    with tempfile.TemporaryDirectory() as folder:
        report.tell(run(arguments, arguments.cache or Path(folder)), arguments.json)


if __name__ == "__main__":
    main()
