"""How much memory each worker of one server adds, beside the index that all map.

python -m benchmarks.serving.bench_workers            builds the demo's index, about 30 s
python -m benchmarks.serving.bench_workers INDEX.pdx  of one that is there
python -m benchmarks.serving.bench_workers --json     one JSON object, for the record

Linux alone says what processes share (/proc/PID/smaps_rollup). Rss counts shared pages
in every process, Pss divides them among those that share them, and Uss is what ends
with the process: what one worker more costs.
"""

import argparse
import base64
import json
import sys
import tempfile
import urllib.request
from pathlib import Path
from typing import Any

from polydom.indexer import Index, build
from tests.support.servers import ask, serving

from ..machine import describe
from ..places import DEMO

COUNTS = (1, 2, 4)
# enough that each of the workers gets some
REQUESTS = 400
BUDGET_MS = 1000


def measure(path: Path, count: int) -> list[dict[str, float]]:
    """Megabytes of each process of a server, the parent of workers first."""
    index = Index.load(path)
    assert index.package is not None
    kind, samples = index.package.kind, index.package.meta["samples"]
    with serving(path, f"--workers={count}") as (process, port):
        while len(workers_ready(port)) < count:
            pass
        for number in range(REQUESTS):
            body = body_of(kind, samples[number % len(samples)], BUDGET_MS)
            status, _ = ask(
                port, "POST", "/v1/predict", body, content_type="application/json"
            )
            assert status == 200
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text()
        workers = [int(pid) for pid in children.split()] if count > 1 else []
        return [memory(pid) for pid in [process.pid, *workers]]


def workers_ready(port: int) -> list[str]:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics") as reply:
        lines = reply.read().decode().splitlines()
    return [
        line
        for line in lines
        if line.startswith("polydom_ready{") and line.endswith(" 1.0")
    ]


def body_of(kind: str, sample: Any, budget_ms: float) -> bytes:
    field = "image_base64" if kind == "image" else kind
    value = base64.b64encode(sample).decode() if kind == "image" else sample
    return json.dumps({field: value, "budget_ms": budget_ms}).encode()


def memory(pid: int) -> dict[str, float]:
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()[1:]
    kib = {line.split(":")[0]: int(line.split()[1]) for line in lines}
    uss = kib["Private_Clean"] + kib["Private_Dirty"]
    return {
        name: value * 1024 / 1e6
        for name, value in {"Rss": kib["Rss"], "Pss": kib["Pss"], "Uss": uss}.items()
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("index", nargs="?", type=Path)
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = args.index
        if path is None:
            path = Path(folder, "digits.pdx")
            build(DEMO, output=path, cache=Path(folder, "cache"))
        runs = {count: measure(path, count) for count in COUNTS}
        size = path.stat().st_size / 1e6
    if args.json:
        print(json.dumps({"machine": describe(), "index_mb": size, "runs": runs}))
        return 0
    print(
        f"{describe()}; an index of {size:.1f} MB; megabytes after {REQUESTS} requests"
    )
    print(f"{'workers':>7}  {'process':<8}{'Rss':>6}{'Pss':>6}{'Uss':>6}{'all Pss':>9}")
    for count, processes in runs.items():
        whole = sum(process["Pss"] for process in processes)
        names = ["server"] if count == 1 else ["parent", *["worker"] * count]
        for name, of in zip(names, processes, strict=True):
            figures = "".join(f"{of[key]:>6.0f}" for key in ("Rss", "Pss", "Uss"))
            print(f"{count:>7}  {name:<8}{figures}{whole:>9.0f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
