"""How right and how timely answers are within a budget, beside fixed models.

python -m benchmarks headline                    builds, asks, prints; some minutes
python -m benchmarks headline --data scenes      of ICSP's photographs, not of digits
python -m benchmarks headline --write README.md  puts the table there, draws its figure
python -m benchmarks headline --from benchmarks/results/MACHINE.json --write README.md
                                                 measures nothing anew

Images that no build has seen are sent to a real server, one at a time over one
connection, at every budget. An answer is in time by the clock of who asks; one that is
late counts as none. Beside polydom stand fixed models of the same learner: of all
features, of the most accurate set in the index, and of the cheapest. They are served by
the same code, with all the time that they take: what is late at a budget is read off.

The digits are scikit-learn's scans of 8 x 8 pixels, enlarged to 96 to 768 pixels an
edge and turned by any angle: they need no download, and their features cost what those
of photographs cost. What is found is kept in benchmarks/results, in a file named by the
machine.
"""

import argparse
import json
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from polydom.indexer import Index
from polydom.indexer.progress import OnProgress, Silence
from polydom.server.settings import Settings

from .. import report
from ..places import ROOT
from . import headline_table
from .headline_table import FIXED, POLYDOM
from .indexes.image_sets import (
    NAMES,
    ImageSet,
    all_alone,
    best_alone,
    cheapest_alone,
    prepare,
)
from .one_by_one import Client
from .served import serving

RESULTS = ROOT / "benchmarks" / "results"
PICTURE = ROOT / "docs" / "pictures" / "headline.svg"
BUDGETS_MS = (0.5, 1.0, 1.5, 2.0, 3.0, 5.0, 8.0, 12.0, 20.0, 50.0)
ENOUGH_MS = 10_000.0
ASKED, ROUNDS, WARM = 400, 3, 50


class Answers(NamedTuple):
    """What R rounds of N images brought for each of C ways to ask, which took turns.

    Attributes
    ----------
    right, met : (R, N, C)
        Whether the class was, and whether the server says that it was in time.
    took_ms : (R, N, C)
        By the clock of who asked.
    server_ms : (R, N, C)
        By the server's.
    """

    right: NDArray[np.bool_]
    met: NDArray[np.bool_]
    took_ms: NDArray[np.float64]
    server_ms: NDArray[np.float64]

    def within(self, way: int, budget_ms: float) -> tuple[float, float]:
        """Share of right answers in time, and of answers in time."""
        in_time = self.took_ms[..., way] <= budget_ms
        return float((self.right[..., way] & in_time).mean()), float(in_time.mean())


def ask(
    port: int, images: ImageSet, ways: Sequence[tuple[str, float]], rounds: int
) -> Answers:
    """Ask for every image in every way, a model and a budget, in a drawn order."""
    shape = rounds, len(images.items), len(ways)
    found = Answers(*(np.zeros(shape, kind) for kind in (bool, bool, float, float)))
    random = np.random.default_rng(0)
    with Client(port) as client:
        for item in images.items[:WARM]:
            for model, _ in ways[-len(FIXED) - 1 :]:
                client.ask(item, ENOUGH_MS, model)
        for turn in range(rounds):
            for place in random.permutation(found.right[turn].size).tolist():
                n, way = divmod(place, len(ways))
                model, budget_ms = ways[way]
                took_s, answer = client.ask(images.items[n], budget_ms, model)
                at = turn, n, way
                found.took_ms[at] = 1e3 * took_s
                found.right[at] = answer["label"] == images.labels[n]
                found.met[at] = answer["budget_met"]
                found.server_ms[at] = answer["elapsed_us"] / 1e3
    return found


class Stages(Silence):
    """Notes how long each stage of a build took, in seconds."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    @contextmanager
    def stage(self, name: str, total: int | None) -> Iterator[OnProgress]:
        """Time a stage."""
        start_s = time.perf_counter()
        yield lambda done, left=None: None
        self.seconds[name] = time.perf_counter() - start_s


def measure(name: str, folder: Path, given: argparse.Namespace) -> dict[str, Any]:
    """Build, serve and ask; what README tells of one set."""
    quick, stages = given.quick, Stages()
    rounds, budgets_ms = (1, BUDGETS_MS[1::4]) if quick else (ROUNDS, BUDGETS_MS)
    images = prepare(name, folder, 10 if quick else given.asked, stages)
    paths = {POLYDOM: images.path, **save_fixed(images, folder, folder / name)}
    ways = [(POLYDOM, budget_ms) for budget_ms in budgets_ms]
    ways += [(kind, ENOUGH_MS) for kind in FIXED]
    settings = Settings(max_budget_s=ENOUGH_MS / 1e3)
    with serving(paths, settings) as port:
        answers = ask(port, images, ways, rounds)
    rows, medians_ms = [], {}
    for way, budget_ms in enumerate(budgets_ms):
        right, in_time = answers.within(way, budget_ms)
        met = float(answers.met[..., way].mean())
        row = {"budget ms": budget_ms, POLYDOM: right, "in time": in_time}
        used = np.quantile(answers.server_ms[..., way] / budget_ms, [0.5, 0.99])
        used_of = dict(zip(("used p50", "used p99"), used.tolist(), strict=True))
        rows.append(row | {"by the server": met} | used_of)
    for way, kind in enumerate(FIXED, len(budgets_ms)):
        medians_ms[kind] = float(np.median(answers.took_ms[..., way]))
        for row in rows:
            row[kind], row[f"{kind}, in time"] = answers.within(way, row["budget ms"])
    return {
        **report.about(),
        "images": len(images.items),
        "features": len(images.project.features.use),
        "build s": sum(stages.seconds.values()),
        "median ms": medians_ms,
        "budgets": rows,
    }


def save_fixed(images: ImageSet, folder: Path, cache: Path) -> dict[str, Path]:
    """Save what there is without budgets."""
    index = Index.load(images.path)
    made = (
        all_alone(index, images.project, cache),
        best_alone(index),
        cheapest_alone(index, images.items),
    )
    paths = {kind: folder / f"{kind}.pdx" for kind in FIXED}
    for path, one in zip(paths.values(), made, strict=True):
        one.save(path)
    return paths


def keep(folder: Path, found: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Add what was found to this machine's file; all that is there."""
    folder.mkdir(exist_ok=True)
    path = folder / f"{report.slug()}.json"
    former = json.loads(path.read_text()) if path.exists() else {}
    every = {name: (former | found)[name] for name in NAMES if name in former | found}
    path.write_text(json.dumps(every, indent=1) + "\n")
    return every


def main(arguments: list[str] | None = None) -> None:
    """Run the benchmark."""
    parser = report.options(__name__, data=True)
    parser.add_argument("--data", choices=NAMES, default=NAMES[0])
    parser.add_argument("--asked", type=int, default=ASKED, help="images")
    parser.add_argument("--cache", type=Path, help="keep the index and its cache here")
    parser.add_argument("--from", type=Path, metavar="FILE", dest="kept")
    parser.add_argument("--write", type=Path, metavar="DOCUMENT")
    given = parser.parse_args(arguments)
    if given.quick and given.write is not None:
        parser.error("what --quick measures is not to be written anywhere")
    if given.kept is not None:
        every = json.loads(given.kept.read_text())
    else:
        name = "few" if given.quick else given.data
        if name == "scenes":
            report.need(given, "scene15")
        with tempfile.TemporaryDirectory() as made:
            folder = given.cache or Path(made)
            folder.mkdir(parents=True, exist_ok=True)
            every = {name: measure(name, folder, given)}
        if not given.quick:
            every = keep(RESULTS, every)
    if given.write is not None:
        headline_table.write(given.write, every)
        headline_table.draw(PICTURE, every)
    report.tell({name: facts["budgets"] for name, facts in every.items()}, given)
