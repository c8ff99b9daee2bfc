"""Whether replacing an index under load makes answers late.

python -m benchmarks.serving.bench_reload            builds the demo's index, about 30 s
python -m benchmarks.serving.bench_reload INDEX.pdx  of one that is there
python -m benchmarks.serving.bench_reload --json     one JSON object, for the record

One client asks with one connection, one request after the other, first of a server that
is left alone, then of the same server while its file is replaced and SIGHUP sent again
and again, each as soon as the one before is in place.
"""

import http.client
import json
import os
import signal
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np

from polydom.indexer import Index
from tests.support.servers import ask, serving

from .. import report
from .bench_workers import body_of
from .indexes import index_file

SECONDS = 10.0
BUDGET_MS = 10.0


def versions(index: Index) -> list[Index]:
    """Two indexes that differ in nothing but a word, and so in their checksums."""
    package = index.package
    assert package is not None
    return [
        replace(index, package=replace(package, meta={**package.meta, "bench": word}))
        for word in ("one", "two")
    ]


@contextmanager
def reloading(pid: int, port: int, path: Path) -> Iterator[list[float]]:
    """Replace the file again and again; seconds that each took to be in place."""
    took: list[float] = []
    done = threading.Event()
    two = versions(Index.load(path))

    def work() -> None:
        while not done.is_set():
            before = ask(port, "GET", "/v1/index")[1]["version"]
            began = time.perf_counter()
            two[len(took) % 2].save(path)
            os.kill(pid, signal.SIGHUP)
            while ask(port, "GET", "/v1/index")[1]["version"] == before:
                if done.wait(0.05):
                    return
            took.append(time.perf_counter() - began)

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield took
    finally:
        done.set()
        thread.join()


def ask_for(seconds: float, port: int, bodies: list[bytes]) -> dict[str, float]:
    """Milliseconds by the client's clock, and the share inside by the server's."""
    connection = http.client.HTTPConnection("127.0.0.1", port)
    headers = {"content-type": "application/json"}
    took: list[float] = []
    met: list[bool] = []
    end = time.perf_counter() + seconds
    while (began := time.perf_counter()) < end:
        connection.request(
            "POST", "/v1/predict", bodies[len(took) % len(bodies)], headers
        )
        reply = connection.getresponse()
        answer = json.loads(reply.read())
        assert reply.status == 200, answer
        took.append((time.perf_counter() - began) * 1e3)
        met.append(answer["budget_met"])
    p50, p99, p999 = np.quantile(took, [0.5, 0.99, 0.999]).tolist()
    facts = {"requests": len(took), "p50": p50, "p99": p99, "p99.9": p999}
    return {**facts, "max": max(took), "inside": float(np.mean(met))}


def measure(path: Path) -> dict[str, dict[str, float]]:
    package = Index.load(path).package
    assert package is not None
    bodies = [
        body_of(package.kind, sample, BUDGET_MS) for sample in package.meta["samples"]
    ]
    with serving(path) as (process, port):
        ask_for(SECONDS / 5, port, bodies)
        alone = ask_for(SECONDS, port, bodies)
        with reloading(process.pid, port, path) as took:
            busy = ask_for(SECONDS, port, bodies)
    return {
        "left alone": alone,
        "reloading": {**busy, "reloads": len(took), "s each": float(np.median(took))},
    }


def main() -> None:
    parser = report.options(__doc__)
    parser.add_argument("index", nargs="?", type=Path)
    args = parser.parse_args()
    with index_file(args.index) as index, tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "served.pdx")
        Index.load(index).save(path)
        runs = measure(path)
    report.tell({f"ms, budgets of {BUDGET_MS:g}": runs}, args.json)


if __name__ == "__main__":
    main()
