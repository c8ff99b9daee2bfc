"""Whether a server stays as it is for an hour of load, reloads, rollouts and logs.

python -m benchmarks soak                  an hour; a line each minute
python -m benchmarks soak --seconds 180

A real `polydom serve` answers records and texts, with an access log that is rotated, a
tenth of the answers recorded, and a candidate in shadow. Requests with a budget of
20 ms come at drawn times over 32 kept connections, .7 of the capacity, which is
measured before (kernels/native_load.py). Meanwhile all indexes are reloaded every 30 s,
those of texts with another file; the candidate is promoted each two minutes, and rolled
back a minute later; the metrics are read and a batch is sent each 5 s; and in the
second of each ten minutes, three times the capacity comes for 5 s.

A failure is any answer but 200, and 429 under the overload; or a reload, rollout or
batch that fails. Late is what was not answered within the budget by the client's clock,
counted from when the request was due.
"""

import argparse
import math
import sys
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.stats import theilslopes

from .. import report
from .goodput import (
    BUDGET_MS,
    CAPACITY_CONNECTIONS,
    PATIENCE,
    WARM_S,
    posts,
    write_records,
    write_texts,
)
from .indexes.record_index import INDEX
from .indexes.usual_requests import TEXTS
from .kernels.native_load import Came, capacity_of, over_kept
from .saturation import Contender, free_port
from .soak_operator import (
    ACCESS,
    ADMIN,
    BATCH,
    NEXT,
    RECORDED,
    TOKENS,
    Operator,
    Sample,
    other_version,
    put,
)

USUAL, OVERLOAD = 0.7, 3.0  # of the capacity
CONNECTIONS = 32
OVERLOAD_PART, OVERLOAD_EVERY = 1 / 12, 10  # of a minute, and minutes
MOST_LATE = 0.01
QUANTILES = (0.5, 0.99, 0.999)
LEVEL = 1.0  # MiB per hour
POINTS = 30  # of the memory's line

COUNTED = (
    "polydom_record_dropped_total",
    "polydom_reloads_total",
    "polydom_shadow_comparisons_total",
)
OF_TEXTS = {"model": "texts"}
Requests = list[bytes]


class Load(NamedTuple):
    """What the server is asked, and how much it can answer."""

    port: int
    requests: Requests
    capacity: float  # answers a second

    def come(self, share: float, seconds: float) -> Came:
        """Ask for a share of the capacity; a caller gives up where none is free."""
        rate, patience_s = share * self.capacity, PATIENCE * BUDGET_MS / 1e3
        given = self.port, self.requests, rate, seconds
        return over_kept(*given, connections=CONNECTIONS, patience_s=patience_s)


def write_files(folder: Path, *, quick: bool) -> tuple[Requests, list[dict[str, Any]]]:
    """Write all files of the server; requests to both models, and items for batches."""
    records = write_records(folder, quick=quick)
    texts = write_texts(folder, quick=quick)
    other_version(folder / INDEX, folder / NEXT)
    put(folder / TEXTS, folder / "texts_1.pdx")
    other_version(folder / TEXTS, folder / "texts_0.pdx")
    (folder / TOKENS).write_text(ADMIN)
    pairs = zip(records, texts, strict=False)
    mixed = [one for record, text in pairs for one in (record, text | OF_TEXTS)]
    return posts(mixed), records[:BATCH]


def command(port: int) -> list[str]:
    """How the server is started, on the second core if there is one."""
    serve = [sys.executable, "-m", "polydom", "serve", INDEX, TEXTS, f"--port={port}"]
    tried = [f"--candidate={NEXT}", f"--admin-token-file={TOKENS}"]
    logs = [f"--access-log={ACCESS}", f"--record={RECORDED}", "--record-share=0.1"]
    limits = ["--record-mb=8", "--record-files=4", f"--budget-ms={BUDGET_MS}"]
    pinned = ["taskset", "-c", "1"] if len(report.CORES) > 1 else []
    return [*pinned, *serve, *tried, *logs, *limits]


def minute_of(
    number: int, load: Load, seconds: float, operator: Operator
) -> dict[str, Any]:
    """Load the server for a minute, and tell what came of it."""
    overload_s = seconds * OVERLOAD_PART if number % OVERLOAD_EVERY == 1 else 0.0
    overload = load.come(OVERLOAD, overload_s) if overload_s else None
    usual = load.come(USUAL, seconds - overload_s)
    both = [usual] if overload is None else [usual, overload]
    status, took_s = usual.status, usual.took_s
    if (status == 200).any():
        quantiles = (np.quantile(took_s[status == 200], QUANTILES) * 1e3).tolist()
    else:
        quantiles = [None] * len(QUANTILES)
    return {
        "minute": number,
        "answers": int(sum((came.status == 200).sum() for came in both)),
        "failures": int(sum(is_failure(came).sum() for came in both)),
        "refused": float((status == 429).mean()),
        "late": float(is_late(usual).mean()),
        **dict(zip(("p50_ms", "p99_ms", "p999_ms"), quantiles, strict=True)),
        "overload_in_time": None if overload is None else in_time(overload, load),
        **operator.samples[-1]._asdict(),
    }


def is_failure(came: Came) -> NDArray[np.bool_]:
    """Whether neither an answer nor a refusal came to each request that was sent."""
    failed: NDArray[np.bool_] = ~np.isin(came.status, (200, 429))
    failed[np.isnan(came.sent_s)] = False
    return failed


def is_late(came: Came) -> NDArray[np.bool_]:
    """Whether each request was answered after its budget, or not even sent."""
    late: NDArray[np.bool_] = np.isnan(came.sent_s)
    late[(came.status == 200) & (came.took_s > BUDGET_MS / 1e3)] = True
    return late


def in_time(came: Came, load: Load) -> float:
    """Answers in time, as a share of the capacity."""
    good = ((came.status == 200) & ~is_late(came)).sum()
    return float(good / came.due_s[-1] / load.capacity)


def growth(samples: list[Sample]) -> dict[str, float | None]:
    """MiB per hour of the second half, by the Theil-Sen line; its 95 % interval.

    Neighbouring samples are alike, so the line goes through medians of them. All are
    None for fewer than three samples.
    """
    names = "MiB per hour", "from", "to"
    half = [one[:2] for one in samples if one.at_s >= samples[-1].at_s / 2]
    if len(half) < 3:
        return dict.fromkeys(names)
    parts = np.array_split(np.array(half), min(POINTS, len(half)))
    at_s, mib = np.array([np.median(part, axis=0) for part in parts]).T
    slope, _, *interval = map(float, theilslopes(mib, at_s / 3600))
    return dict(zip(names, (slope, *interval), strict=True))


def verdict(table: list[dict[str, Any]], operator: Operator) -> dict[str, Any]:
    """What all minutes come to."""
    grows, metrics = growth(operator.samples), operator.scrape()
    lost = sum(row["failures"] for row in table)
    late = float(np.mean([row["late"] for row in table]))
    level = grows["from"] is not None and grows["from"] <= LEVEL
    sound = level and not lost and not operator.failures and late <= MOST_LATE
    return {
        "memory": grows,
        "counted by the server": {name: metrics.get(name, 0.0) for name in COUNTED},
        "failures of the operator's": [{"failure": one} for one in operator.failures],
        "verdict": {
            "memory is level": level,
            "failures": lost + len(operator.failures),
            "batches refused": operator.refused,
            "late": late,
            "sound": sound,
        },
    }


def tell(row: dict[str, Any]) -> None:
    """Print a line at once."""
    said = [f"{name} {report.cell(value)}" for name, value in row.items()]
    print(", ".join(said), file=sys.stderr, flush=True)


def measure(given: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """Load the server, minute after minute."""
    requests, batch = write_files(folder, quick=given.quick)
    report.pin(0)
    port, first = free_port(), requests[0].partition(b"\r\n\r\n")[2]
    server = Contender("server", port, [first], "/v1/predict")
    seconds, minute_s = (3.0, 1.0) if given.quick else (given.seconds, 60.0)
    with server.started(command(port), folder):
        operator = Operator(folder, port, server.process.pid, batch)
        operator.order("shadow")
        for warm_s in (0.2, 0.2) if given.quick else (WARM_S, WARM_S):
            closed = port, requests, warm_s
            capacity = capacity_of(*closed, connections=CAPACITY_CONNECTIONS)
        load, table = Load(port, requests, capacity), list[dict[str, Any]]()
        with operator.at_work(minute_s):
            for number in range(math.ceil(seconds / minute_s)):
                left_s = min(seconds - number * minute_s, minute_s)
                table.append(minute_of(number, load, left_s, operator))
                if not given.quick:
                    line = [
                        f"{name} {report.cell(value)}"
                        for name, value in table[-1].items()
                    ]
                    print(", ".join(line), file=sys.stderr, flush=True)
        ends = verdict(table, operator)
    return {"capacity": capacity, "minutes": table, **ends}


def main(arguments: list[str] | None = None) -> None:
    """Run the benchmark."""
    parser = report.options(__name__)
    parser.add_argument("--seconds", type=float, default=3600.0, help="of the load")
    given = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as made:
        report.tell(measure(given, Path(made)), given)
