"""How right and how timely answers are within a budget, beside fixed models.

python -m benchmarks headline                    builds, asks, prints; some minutes
python -m benchmarks headline --data scenes      of ICSP's photographs, not of digits
python -m benchmarks headline --write README.md  puts the table there, draws its figure
python -m benchmarks headline --from benchmarks/results/MACHINE.json --write README.md
                                                 measures nothing anew

Images that no build has seen are sent to a real server, one at a time over one
connection, at every budget. An answer is in time by the clock of who asks; one that is
late counts as none.

Of scenes, polydom has pieces of a network beside its usual features. Beside it stand
the same index without the network; the whole network at two sizes of its input, with a
logistic regression, behind plain FastAPI; and a cascade of both, which looks at the
larger size where the smaller is unsure. Of digits, beside polydom stand fixed models of
the same learner: of all features, of the most accurate set in the index, and of the
cheapest. What is fixed is asked with all the time that it takes: what is late at a
budget is read off.

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
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from polydom.indexer import Index
from polydom.indexer.building.data.read_items import load_data
from polydom.indexer.progress import OnProgress, Silence
from polydom.server.settings import Settings

from .. import report
from ..peers.whole_network import SIDES, WholeNetwork, fit, serve
from ..places import ROOT
from . import headline_table
from .headline_table import FIXED, PLAIN, POLYDOM, WITHOUT
from .indexes.image_sets import (
    DEFAULT,
    NAMES,
    ImageSet,
    all_alone,
    as_bytes,
    best_alone,
    cheapest_alone,
    network_file,
    prepare,
)
from .one_by_one import Client
from .served import serving, started

RESULTS = ROOT / "benchmarks" / "results"
PICTURE = ROOT / "docs" / "pictures" / "headline.svg"
BUDGETS_MS = (0.5, 1.0, 1.5, 2.0, 3.0, 5.0, 8.0, 12.0, 20.0, 50.0)
ENOUGH_MS = 10_000.0
ASKED, ROUNDS, WARM = 400, 3, 50
WITH_NETWORK, WITH_FIXED = ("scenes", "few"), ("digits", "few")


class Way(NamedTuple):
    """Who is asked, and within what budget."""

    who: str
    budget_ms: float
    port: int


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


def ask(ways: Sequence[Way], images: ImageSet, rounds: int) -> Answers:
    """Ask for every image in every way in a drawn order, over a connection a server."""
    shape = rounds, len(images.items), len(ways)
    found = Answers(*(np.zeros(shape, kind) for kind in (bool, bool, float, float)))
    random = np.random.default_rng(0)
    with ExitStack() as stack:
        ports = {way.port for way in ways}
        clients = {port: stack.enter_context(Client(port)) for port in ports}
        everyone = {way.who: way.port for way in ways}
        for item in images.items[:WARM]:
            for who, port in everyone.items():
                clients[port].ask(item, ENOUGH_MS, who)
        for turn in range(rounds):
            for place in random.permutation(found.right[turn].size).tolist():
                n, number = divmod(place, len(ways))
                who, budget_ms, port = ways[number]
                took_s, answer = clients[port].ask(images.items[n], budget_ms, who)
                at = turn, n, number
                found.took_ms[at] = 1e3 * took_s
                found.right[at] = answer["label"] == images.labels[n]
                found.met[at] = answer.get("budget_met", False)
                found.server_ms[at] = answer.get("elapsed_us", 0) / 1e3
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
    network = network_file(name, folder) if name in WITH_NETWORK else None
    count = 10 if quick else given.asked
    images = prepare(name, folder, count, stages, network)
    facts: dict[str, Any] = {
        **report.about(),
        "images": len(images.items),
        "build s": sum(stages.seconds.values()),
    }
    paths, usual = {POLYDOM: images.path}, images
    if network is not None:
        usual = prepare(name, folder, count)
        paths[WITHOUT] = usual.path
        facts["network ms"] = network_times(network)
    fixed = save_fixed(usual, folder, folder / name) if name in WITH_FIXED else {}
    paths |= fixed
    with ExitStack() as stack:
        settings = Settings(max_budget_s=ENOUGH_MS / 1e3)
        port = stack.enter_context(serving(paths, settings))
        ways = [
            Way(who, budget_ms, port)
            for who in (POLYDOM, WITHOUT)
            if who in paths
            for budget_ms in budgets_ms
        ]
        ways += [Way(who, ENOUGH_MS, port) for who in fixed]
        if network is not None:
            kept = fitted(network, images, folder)
            other = stack.enter_context(started(serve, network, kept))
            ways += [Way(who, ENOUGH_MS, other) for who in PLAIN]
        answers = ask(ways, images, rounds)
    index = Index.load(images.path)
    assert index.package is not None
    facts["features"] = len(index.package.features)
    facts["median ms"] = {
        way.who: float(np.median(answers.took_ms[..., number]))
        for number, way in enumerate(ways)
        if way.budget_ms == ENOUGH_MS
    }
    facts["budgets"] = [row_of(budget_ms, ways, answers) for budget_ms in budgets_ms]
    return facts


def row_of(budget_ms: float, ways: Sequence[Way], answers: Answers) -> dict[str, float]:
    """What README tells of one budget."""
    row = {"budget ms": budget_ms}
    for number, way in enumerate(ways):
        if way.budget_ms not in (budget_ms, ENOUGH_MS):
            continue
        right, in_time = answers.within(number, budget_ms)
        own = way.who == POLYDOM
        row |= {way.who: right, "in time" if own else f"{way.who}, in time": in_time}
        if own:
            used = np.quantile(answers.server_ms[..., number] / budget_ms, [0.5, 0.99])
            row["by the server"] = float(answers.met[..., number].mean())
            row |= dict(zip(("used p50", "used p99"), used.tolist(), strict=True))
    return row


def network_times(network: Path) -> dict[str, dict[str, float]]:
    """How long the whole network alone takes for each size of its input."""
    whole = WholeNetwork(network)
    return {str(side): whole.times_ms(side) for side in SIDES}


def fitted(network: Path, images: ImageSet, folder: Path) -> Path:
    """The file of the models on the whole network, fitted if it is not in the folder.

    They are fitted on all images that the index was built of.
    """
    kept = folder / f"{images.path.stem}.npz"
    if not kept.exists():
        dataset = load_data(images.project)
        contents = [as_bytes(item) for item in dataset.items]
        labels = [dataset.labels[code] for code in dataset.codes]
        fit(network, contents, labels, kept)
    return kept


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
    parser.add_argument("--data", choices=NAMES, default=DEFAULT)
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
            report.need(given, "scene15", "networks")
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
