"""How long commands take to start: where nothing was compiled, and where all was.

python -m benchmarks.serving.bench_start               builds two indexes first, a minute
python -m benchmarks.serving.bench_start INDEX.pdx...  starts those that are there
python -m benchmarks.serving.bench_start --rounds 1    once each, not the median of three

The first start is where no kernel was compiled, later ones find what it compiled;
Python's own compiled files are there, as pip writes them. A server's start ends with
the first 200 from /readyz, any other with the process. Seconds of the wall, and beside
them those of all processors.
"""

import math
import os
import resource
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from sklearn.datasets import make_classification

from polydom.indexer import BudgetClassifier, build
from polydom.server.ops.server import free_port

from .. import report
from ..places import DEMO
from .served import probe

CLIENT = "from polydom.server import Client"
READY_S = 120.0


def main() -> None:
    """Time everything, and print it."""
    parser = report.options(__doc__)
    parser.add_argument("indexes", type=Path, nargs="*")
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        rows = [
            row
            for name, arguments in commands(options.indexes or build_both(folder))
            for row in time_command(name, arguments, folder, options.rounds)
        ]
    report.tell({"seconds until it is done, or ready": rows}, options.json)


def build_both(folder: Path) -> list[Path]:
    """The demo's index, and one of a table whose models are boosted trees."""
    images, table = folder / "digits.pdx", folder / "trees.pdx"
    build(DEMO, output=images, cache=folder / "cache")
    X, y = make_classification(5000, 14, n_informative=9, random_state=0)
    BudgetClassifier(learner="boosting", search_budget_s=20).fit(X, y).save(table)
    return [images, table]


def commands(indexes: Sequence[Path]) -> Iterator[tuple[str, list[str]]]:
    """What is started, by a name."""
    polydom = [sys.executable, "-m", "polydom"]
    yield "polydom --help", [*polydom, "--help"]
    yield CLIENT, [sys.executable, "-c", CLIENT]
    for index in indexes:
        yield f"plan {index.name}", [*polydom, "plan", str(index), "--size", "4096"]
        yield f"serve {index.name}", [*polydom, "serve", str(index), "--port"]


def time_command(
    name: str, arguments: list[str], folder: Path, rounds: int
) -> Iterator[dict[str, Any]]:
    """Start it where nothing is compiled, then where everything is.

    It was started once before, so that Python's files are there.
    """
    time_start(arguments, {**os.environ, "NUMBA_CACHE_DIR": str(folder / "before")})
    taken: dict[str, list[tuple[float, float]]] = {"first": [], "later": []}
    for number in range(rounds):
        kernels = {"NUMBA_CACHE_DIR": str(folder / f"{name} {number}")}
        for start in taken.values():
            start.append(time_start(arguments, {**os.environ, **kernels}))
    for which, pairs in taken.items():
        wall, used = (statistics.median(part) for part in zip(*pairs, strict=True))
        yield {"command": name, "start": which, "wall": wall, "processor": used}


def time_start(arguments: list[str], env: dict[str, str]) -> tuple[float, float]:
    """Seconds until a command is done, or its server ready: wall, processor."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    port = free_port("127.0.0.1", 0)
    serves = arguments[-1] == "--port"
    began_s = time.perf_counter()
    process = subprocess.Popen(
        [*arguments, str(port)] if serves else arguments,
        env=env,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    if serves:
        while probe(port, "/readyz") == math.inf:
            time.sleep(0.005)
            assert time.perf_counter() - began_s < READY_S
        wall_s = time.perf_counter() - began_s
        process.send_signal(signal.SIGTERM)
        process.wait()
    else:
        process.wait()
        wall_s = time.perf_counter() - began_s
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return wall_s, used


if __name__ == "__main__":
    main()
