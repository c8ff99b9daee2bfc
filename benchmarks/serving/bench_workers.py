"""How much memory each worker of one server adds, beside the index that all map.

python -m benchmarks.serving.bench_workers            builds the demo's index, about 30 s
python -m benchmarks.serving.bench_workers INDEX.pdx  of one that is there
python -m benchmarks.serving.bench_workers --json     one JSON object, for the record

Linux alone says what processes share (/proc/PID/smaps_rollup). Rss counts shared pages
in every process, Pss divides them among those that share them, and Uss is what ends
with the process: what one worker more costs.
"""

import base64
import json
import urllib.request
from pathlib import Path
from typing import Any

from polydom.indexer import Index
from tests.support.servers import ask, serving

from .. import report
from .indexes import index_file

COUNTS = (1, 2, 4)
# enough that each of the workers gets some
REQUESTS = 400
BUDGET_MS = 1000


def measure(path: Path, count: int) -> list[dict[str, Any]]:
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


def main() -> None:
    parser = report.options(__doc__)
    parser.add_argument("index", nargs="?", type=Path)
    args = parser.parse_args()
    with index_file(args.index) as path:
        rows = [row for count in COUNTS for row in measure(path, count)]
        size = path.stat().st_size / 1e6
    facts = {"index_mb": size, f"megabytes after {REQUESTS} requests": rows}
    report.tell(facts, args.json)


if __name__ == "__main__":
    main()
