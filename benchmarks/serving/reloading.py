"""Whether replacing an index under load makes answers late.

One client asks with one connection, one request after the other, first of a server that
is left alone, then of the same server while its file is replaced and SIGHUP sent again
and again, each as soon as the one before is in place.
"""

import argparse
import http.client
import json
import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from polydom.indexer import Index
from tests.support.servers import ask, serving

from .one_by_one import body_of

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
    headers = {"content-type": "application/json"}
    took: list[float] = []
    met: list[bool] = []
    end = time.perf_counter() + seconds
    with closing(http.client.HTTPConnection("127.0.0.1", port)) as connection:
        while (began := time.perf_counter()) < end:
            body = bodies[len(took) % len(bodies)]
            connection.request("POST", "/v1/predict", body, headers)
            reply = connection.getresponse()
            answer = json.loads(reply.read())
            took.append((time.perf_counter() - began) * 1e3)
            met.append(reply.status == 200 and answer["budget_met"])
    p50, p99, p999 = np.quantile(took, [0.5, 0.99, 0.999]).tolist()
    facts = {"requests": len(took), "p50": p50, "p99": p99, "p99.9": p999}
    return {**facts, "max": max(took), "inside": float(np.mean(met))}


def measure(given: argparse.Namespace, path: Path, folder: Path) -> dict[str, Any]:
    """Ask of a server that is left alone, and of one that reloads."""
    seconds, served = 0.3 if given.quick else SECONDS, folder / "served.pdx"
    index = Index.load(path)
    index.save(served)
    package = index.package
    assert package is not None
    bodies = [
        body_of(package.kind, sample, BUDGET_MS) for sample in package.meta["samples"]
    ]
    with serving(served) as (process, port):
        ask_for(seconds / 5, port, bodies)
        alone = ask_for(seconds, port, bodies)
        with reloading(process.pid, port, served) as took:
            busy = ask_for(seconds, port, bodies)
    each_s = float(np.median(took)) if took else None
    runs = {
        "left alone": alone,
        "reloading": {**busy, "reloads": len(took), "s each": each_s},
    }
    return {f"ms, budgets of {BUDGET_MS:g}": runs}
