"""What a call costs on each engine, what two processes save, and what goes to workers.

python -m benchmarks scale                     all of it, half an hour
python -m benchmarks scale --parts calls fits  some of it

Engines are of processes on this machine. Beside polydom's fits stand the same by
scikit-learn on Dask (GridSearchCV under joblib's backend) and by FLAML's tune on Ray.
Needs `pip install "dask[dataframe]" "ray[data,tune]" psutil`; what of flaml and pyspark
is not installed is left out.
"""

import pickle
import statistics
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, Future
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import psutil
from sklearn.datasets import make_classification

from polydom.indexer.building.build import build
from polydom.indexer.building.cache import Cache
from polydom.indexer.building.prepare import prepare_data
from polydom.indexer.building.project import Project
from polydom.indexer.building.project_tables.cluster import Cluster
from polydom.indexer.building.resources import open_resources
from polydom.indexer.building.training.search import search_sets
from polydom.indexer.building.training.train_sets import Trainer
from polydom.indexer.cluster.connect import workers_of
from polydom.indexer.cluster.workers import Workers
from polydom.indexer.progress import OnProgress, Silence

from .. import report
from ..data.drawn_texts import write_texts
from .engines import ENGINES, started

FEATURES = 12
TABLE = """\
seed = 1
exits = "off"
learner = { name = "boosting", n_estimators = 60 }

[data]
table = "rows.csv"

[search]
held_out = 0.25
"""
SAMPLED_S = 0.5

Row = dict[str, Any]


def nothing(number: int) -> int:
    """Be called."""
    return number


def time_calls(folder: Path, quick: bool) -> list[Row]:
    """Time calls that do nothing, through polydom's loop and through the executor."""
    del folder
    count, rounds = (20, 1) if quick else (2000, 5)
    calls = [(number,) for number in range(count)]
    rows = []
    for engine in ENGINES:
        with started(engine, 2) as executor:
            loop = partial(call_by_loop, workers_of(executor), calls)
            bare = partial(call_by_executor, executor, calls)
            ours_s, bare_s = alternate([loop, bare], rounds)
        rows.append(
            {
                "engine": engine,
                **spread([1e3 * seconds / count for seconds in ours_s], "ms a call"),
                "ms by the executor alone": 1e3 * statistics.median(bare_s) / count,
            }
        )
    return rows


def call_by_loop(workers: Workers, calls: Sequence[tuple[int]]) -> None:
    """Carry out calls that do nothing as builds do theirs."""
    found = workers.run(nothing, iter(calls), stage="", ordered=False)
    assert len([*found]) == len(calls)


def call_by_executor(executor: Executor | None, calls: Sequence[tuple[int]]) -> None:
    """Hand them all to the executor at once."""
    if executor is not None:
        futures = [executor.submit(nothing, *call) for call in calls]
        assert len([future.result() for future in futures]) == len(calls)


def alternate(
    contenders: Sequence[Callable[[], object]], rounds: int
) -> list[list[float]]:
    """Seconds of each, in turn, after one round that does not count."""
    taken: list[list[float]] = [[] for _ in contenders]
    for turn in range(rounds + 1):
        for own, contender in zip(taken, contenders, strict=True):
            began_s = time.perf_counter()
            contender()
            if turn:
                own.append(time.perf_counter() - began_s)
    return taken


def spread(values: Sequence[float], name: str) -> Row:
    """The median, the least and the most."""
    return {name: statistics.median(values), "least": min(values), "most": max(values)}


def time_fits(folder: Path, quick: bool) -> list[Row]:
    """Time the same fits on one and two processes."""
    rows, count, rounds = (300, 4, 1) if quick else (4000, 200, 3)
    trainer, sets = make_trainer(folder, rows), drawn_sets(count)
    caches = (Cache(folder / f"turn{turn}") for turn in range(10**6))

    def fit(workers: Workers) -> float:
        own = Trainer(trainer.task, workers, next(caches))
        return float(np.mean([*own.qualities(sets)]))

    def time_one(
        name: str, processes: int, fit: Callable[[], float], fits: int = count
    ) -> Row:
        found = list[float]()
        (taken,) = alternate(
            [lambda: found.append(fit())], rounds if fits == count else 1
        )
        each_ms = spread([1e3 * seconds / fits for seconds in taken], "ms a fit")
        facts = {"by": name, "processes": processes, "fits": fits, **each_ms}
        return {**facts, "mean accuracy": found[-1]}

    found = [time_one("polydom, this process", 1, partial(fit, Workers(None)))]
    for engine in ENGINES[1:]:
        for processes in (1, 2):
            with started(engine, processes) as executor:
                own = partial(fit, workers_of(executor))
                found.append(time_one(f"polydom, {engine}", processes, own))
    for row in found:
        row["efficiency"] = found[0]["ms a fit"] / row["ms a fit"] / row["processes"]
    return found


def make_trainer(folder: Path, rows: int) -> Trainer:
    """Give what trains sets of twelve features of a drawn table."""
    folder.mkdir(parents=True, exist_ok=True)
    X, y = make_classification(
        rows, FEATURES, n_informative=9, n_redundant=0, random_state=0
    )
    names = ",".join([*(f"x{n}" for n in range(FEATURES)), "label"])
    table = np.column_stack([X, y])
    np.savetxt(folder / "rows.csv", table, "%.6g", ",", header=names, comments="")
    (folder / "PROJECT.toml").write_text(TABLE)
    project = Project.load(folder / "PROJECT.toml")
    resources = open_resources(project, cache=folder / "cache")
    data = prepare_data(project, resources)
    return search_sets.make_trainer(data, project.learner, resources)


def drawn_sets(count: int) -> list[int]:
    """Draw so many sets of features, all different."""
    draw = np.random.default_rng(0)
    return [int(m) for m in draw.permutation(np.arange(1, 2**FEATURES))[:count]]


class CountedCalls(Executor):
    """Carries calls out here; counts the bytes that would go to a worker and back."""

    def __init__(self) -> None:
        self.calls = self.sent = self.returned = self.largest = 0

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> "Future[Any]":
        """Call as another process would."""
        content = pickle.dumps((fn, args, kwargs))
        there, own, named = pickle.loads(content)
        result = there(*own, **named)
        self.calls += 1
        self.sent += len(content)
        self.largest = max(self.largest, len(content))
        self.returned += len(pickle.dumps(result))
        future: Future[Any] = Future()
        future.set_result(result)
        return future


def count_bytes(folder: Path, quick: bool) -> list[Row]:
    """Count what goes to workers and back in builds of texts of 1 kB."""
    rows = []
    for items in (300,) if quick else (1_000, 10_000, 100_000):
        own = folder / str(items)
        cluster = Cluster(shared=str(own / "shared"))
        project = msgspec.structs.replace(write_texts(own, items), cluster=cluster)
        executor = CountedCalls()
        build(project, executor=executor)
        rows.append(
            {
                "items": items,
                "MB": (own / "texts.jsonl").stat().st_size / 1e6,
                "calls": executor.calls,
                "bytes of the largest": executor.largest,
                "MB sent": executor.sent / 1e6,
                "MB returned": executor.returned / 1e6,
            }
        )
    return rows


class NamedStages(Silence):
    """Knows which stage a build is in, and how long each took.

    Stages are numbered, since of one name there may be several.
    """

    def __init__(self) -> None:
        self.current = "beginning"
        self.took_s: dict[str, float] = {}

    @contextmanager
    def stage(self, name: str, total: int | None) -> Iterator[OnProgress]:
        """Note a stage's name."""
        del total
        self.current = current = f"{len(self.took_s) + 1} {name}"
        began_s = time.perf_counter()
        yield lambda done, left=None: None
        self.took_s[current] = time.perf_counter() - began_s


def measure_memory(folder: Path, quick: bool) -> list[Row]:
    """Build from 10^6 texts of 1 kB on two cores; the most memory in each stage.

    That is what no two processes share, of the build's process and of its workers.
    """
    count = 2_000 if quick else 1_000_000
    project, stages = write_texts(folder, count), NamedStages()
    peaks: dict[str, list[int]] = {}
    ended = threading.Event()

    def sample() -> None:
        while not ended.wait(SAMPLED_S):
            own = unshared_bytes()
            if sum(own) > sum(peaks.get(stages.current, [0])):
                peaks[stages.current] = own

    sampler = threading.Thread(target=sample)
    sampler.start()
    began_s = time.perf_counter()
    try:
        build(project, progress=stages)
    finally:
        ended.set()
        sampler.join()
    taken_s = time.perf_counter() - began_s
    return [
        {
            "of": f"{count:,} texts, {taken_s:.0f} s in all",
            "stage": stage,
            "s": stages.took_s[stage],
            "MB in all": (parent + sum(children)) / 1e6,
            "the build's process": parent / 1e6,
            "its workers": sum(children) / 1e6,
        }
        for stage, (parent, *children) in peaks.items()
        if stage in stages.took_s
    ]


def unshared_bytes() -> list[int]:
    """Bytes that this process, and each of its children, has for itself."""
    here = psutil.Process()
    found = []
    for process in (here, *here.children(recursive=True)):
        with suppress(psutil.Error):
            found.append(process.memory_full_info().uss)
    return found


PARTS: dict[str, tuple[str, Callable[[Path, bool], list[Row]]]] = {
    "calls": ("a call that does nothing, two processes", time_calls),
    "fits": ("200 fits of boosted trees on sets of features", time_fits),
    "bytes": ("what goes to workers and back in a build", count_bytes),
    "memory": ("memory of a build", measure_memory),
}
# of the others each starts an engine, for seconds
QUICK = ("bytes",)


def main(arguments: list[str] | None = None) -> None:
    """Run the benchmark."""
    parser = report.options(__name__)
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=[*PARTS])
    given = parser.parse_args(arguments)
    facts = {}
    with tempfile.TemporaryDirectory() as made:
        for name in QUICK if given.quick else given.parts:
            title, measure = PARTS[name]
            facts[title] = measure(Path(made) / name, given.quick)
    report.tell(facts, given)
