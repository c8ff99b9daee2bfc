"""How much memory each worker of one server adds, beside the index that all map.

Linux alone says what processes share (/proc/PID/smaps_rollup). Rss counts shared pages
in every process, Pss divides them among those that share them, and Uss is what ends
with the process: what one worker more costs.
"""

import argparse
import urllib.request
from pathlib import Path
from typing import Any

from polydom.indexer import Index
from tests.support.processes.servers import ask, serving

from .one_by_one import body_of

COUNTS = (1, 2, 4)
# enough that each of the workers gets some
REQUESTS = 400
BUDGET_MS = 1000


def measure(given: argparse.Namespace, path: Path, folder: Path) -> dict[str, Any]:
    """Megabytes of each process of servers of some workers."""
    counts, requests = ((1,), 8) if given.quick else (COUNTS, REQUESTS)
    rows = [row for count in counts for row in of_workers(path, count, requests)]
    return {
        "MB of the index": path.stat().st_size / 1e6,
        f"MB of each process after {requests} requests": rows,
    }


def of_workers(path: Path, count: int, requests: int) -> list[dict[str, Any]]:
    """Megabytes of each process of a server, the parent of workers first."""
    index = Index.load(path)
    assert index.package is not None
    kind, samples = index.package.kind, index.package.meta["samples"]
    with serving(path, f"--workers={count}") as (process, port):
        while len(workers_ready(port)) < count:
            pass
        for number in range(requests):
            body = body_of(kind, samples[number % len(samples)], BUDGET_MS)
            status, _ = ask(
                port, "POST", "/v1/predict", body, content_type="application/json"
            )
            assert status == 200
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text()
        workers = [int(pid) for pid in children.split()] if count > 1 else []
        rows = [{"workers": count, **memory(pid)} for pid in [process.pid, *workers]]
    whole = sum(row["Pss"] for row in rows)
    return [{**row, "Pss of all": whole} for row in rows]


def workers_ready(port: int) -> list[str]:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics") as reply:
        lines = reply.read().decode().splitlines()
    return [
        line
        for line in lines
        if line.startswith("polydom_ready{") and line.endswith(" 1.0")
    ]


def memory(pid: int) -> dict[str, float]:
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()[1:]
    kib = {line.split(":")[0]: int(line.split()[1]) for line in lines}
    uss = kib["Private_Clean"] + kib["Private_Dirty"]
    return {
        name: value * 1024 / 1e6
        for name, value in {"Rss": kib["Rss"], "Pss": kib["Pss"], "Uss": uss}.items()
    }
