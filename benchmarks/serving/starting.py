"""How long commands take to start: where nothing was compiled, and where all was.

The first start is where no kernel was compiled, later ones find what it compiled;
Python's own compiled files are there, as pip writes them. A server's start ends with
the first 200 from /readyz, any other with the process. Seconds of the wall, and beside
them those of all processors.
"""

import argparse
import math
import os
import resource
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from sklearn.datasets import make_classification

from polydom.indexer import BudgetClassifier
from polydom.server.ops.server import free_port

from .served import probe

CLIENT = "from polydom.server import Client"
READY_S = 120.0
ROUNDS = 3


def measure(given: argparse.Namespace, path: Path, folder: Path) -> dict[str, Any]:
    """Time the start of each command, and of a server of each index."""
    indexes = [path]
    if not (given.quick or given.index):
        indexes.append(folder / "trees.pdx")
        X, y = make_classification(5000, 14, n_informative=9, random_state=0)
        trees = BudgetClassifier(learner="boosting", search_budget_s=20).fit(X, y)
        trees.save(indexes[1])
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    asked = [*commands(indexes)][:1] if given.quick else commands(indexes)
    rows = [
        row
        for name, arguments in asked
        for row in time_command(name, arguments, folder, 1 if given.quick else ROUNDS)
    ]
    return {"seconds until it is done, or ready": rows}


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
