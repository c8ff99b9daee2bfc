"""What a network in an index costs a server: its file, its start, memory of workers.

python -m benchmarks workers                  builds two indexes, some minutes
python -m benchmarks workers --cache FOLDER   keeps them, as `headline` does

ICSP's photographs by the usual features, with and without pieces of a network beside
them. `load` is the time to read and check the file in a new process; the pieces become
sessions in the warm-up, before /readyz answers, which ends a start. Kernels were
compiled before. Memory is measured after requests that every worker had some of: `Uss`
is what ends with a process, `Pss` shares what processes share.
"""

import os
import statistics
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

from polydom.indexer import Index

from .. import report
from ..new_process import in_new_process
from ..serving.starting import time_start
from ..serving.worker_memory import of_workers
from .photo_index import options, photos

COUNTS = (1, 4)
REQUESTS, ROUNDS = 400, 3


def of_file(path: Path) -> dict[str, float]:
    """What an index is on the disk, and how long reading it takes."""
    began_s = time.perf_counter()
    index = Index.load(path)
    took_s = time.perf_counter() - began_s
    assert index.package is not None
    models = [m for one in index.package.networks for m in one.models if len(m)]
    return {
        "MB of the file": path.stat().st_size / 1e6,
        "MB of pieces": sum(model.nbytes for model in models) / 1e6,
        "pieces": len(models),
        "load ms": 1e3 * took_s,
    }


class OfFile:
    """Measures a file in a new process."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __call__(self) -> dict[str, float]:
        """Read it."""
        return of_file(self._path)


def of_processes(path: Path, count: int, requests: int) -> dict[str, float]:
    """Memory of a server of some workers, in megabytes."""
    rows = of_workers(path, count, requests)
    own = rows[1:] or rows
    return {
        "parent Uss": rows[0]["Uss"],
        "a worker's Uss": float(np.mean([row["Uss"] for row in own])),
        "a worker's Rss": float(np.mean([row["Rss"] for row in own])),
        "Pss of all": rows[0]["Pss of all"],
    }


def start_s(path: Path, count: int, rounds: int) -> float:
    """Median of the seconds until a server of some workers is ready."""
    serve = [sys.executable, "-m", "polydom", "serve", str(path)]
    arguments = [*serve, f"--workers={count}", "--port"]
    timed = [time_start(arguments, {**os.environ}) for _ in range(rounds)]
    return statistics.median(wall_s for wall_s, _ in timed)


def main(arguments: list[str] | None = None) -> None:
    """Run the benchmark."""
    given = options(__name__).parse_args(arguments)
    quick = given.quick
    counts, requests, rounds = ((1,), 8, 1) if quick else (COUNTS, REQUESTS, ROUNDS)
    files, servers = {}, list[dict[str, Any]]()
    with photos(given) as made:
        paths = {"with": made.with_network.path, "without": made.without.path}
        for name, path in [*paths.items()][: 1 if quick else None]:
            files[f"{name} the network"] = in_new_process(OfFile(path))
            for count in counts:
                row: dict[str, Any] = {"network": name, "workers": count}
                row |= of_processes(path, count, requests)
                servers.append(row | {"start s": start_s(path, count, rounds)})
    report.tell({"the index": files, "servers": servers}, given)
