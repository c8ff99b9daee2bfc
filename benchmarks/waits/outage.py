"""What do answers lose while a source is down, and when are they back?

python -m benchmarks outage

Requests with one budget come as chance has it. After some seconds a source goes down:
it *hangs*, so that calls are never answered, or *refuses*, so that connections end and
cannot be opened. Some seconds later it is up again. What the best set without that
source answers is asked afterwards, about the same rows, with the columns of the other
source in the requests.
"""

import argparse
import contextlib
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from .. import report
from .ahead import POLYDOM
from .mix import (
    Answers,
    Requests,
    Server,
    addresses,
    build_index,
    post,
    serve_polydom,
    sources_of,
    times_of,
    write_fetches,
)
from .rivals import serve_rival, train
from .sources import Mode, Source, on_time
from .tables import FAST, SLOW, TABLES, SplitTable

RIVALS = ("cut at the budget", "fetch all")
BUDGET_MS = 50.0
UP_S, DOWN_S, BACK_S = 3.0, 5.0, 4.0
QUICK_S = 0.5  # instead of each
RATE = 100.0
REST_S = 1.0  # between two contenders, so that servers see that the source is up
BACK = 0.9  # of the share of answers with the source's columns before the outage
WINDOW = 20  # answers in which that share is back


def goes_down(
    source: Source, mode: Mode, up_s: float, down_s: float
) -> contextlib.AbstractContextManager[list[float]]:
    """Let a source be down after `up_s` for `down_s`; gives the two true moments."""
    up = partial(source.become, "up")
    return on_time([(up_s, partial(source.become, mode)), (up_s + down_s, up)])


def without(table: SplitTable, requests: Requests, fetch: str) -> Requests:
    """Return requests that bring the columns of all fetches but one, and fetch none."""
    given = [
        name for other, own in table.fetched.items() if other != fetch for name in own
    ]
    bodies = [
        post(
            {
                "record": {name: row[name] for name in (*table.asked, *given)},
                "budget_ms": 1000.0,
                "fetch": "never",
            }
        )
        for row in requests.rows
    ]
    return Requests(requests.rows, requests.budgets_ms, bodies)


def told(
    answers: Answers, least: Answers, down_s: float, up_s: float, fetch: str
) -> dict[str, Any]:
    """Return the line of one contender: before, while the source is down, and after."""
    in_time, right = answers.within(BUDGET_MS)
    before = answers.due_s < down_s - BUDGET_MS / 1e3
    down = (answers.due_s > down_s) & (answers.due_s < up_s - BUDGET_MS / 1e3)
    lost = 100.0 * (least.right[down].astype(int) - right[down])
    facts: dict[str, Any] = {
        "before": _mean(right[before]),
        "while down": _mean(right[down]),
        "best set without": _mean(least.right[down]),
        "points below it": float(lost.mean()) if len(lost) else 0.0,
        "+-": float(lost.std() / max(len(lost), 1) ** 0.5) if len(lost) else 0.0,
        "in time": _mean(in_time[down]),
        "median ms": float(np.median(np.minimum(answers.took_ms[down], 1e4))),
    }
    came = answers.came >> [FAST, SLOW].index(fetch) & 1
    usual = BACK * _mean(came[before])
    if usual:
        late = np.flatnonzero(answers.due_s > up_s)
        for first in late:
            if came[first] and _mean(came[first : first + WINDOW]) >= usual:
                facts["back after s"] = float(answers.due_s[first] - up_s)
                break
    return facts


def _mean(values: Any) -> float:
    return float(values.mean()) if len(values) else 0.0


def measure(given: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """Let each source be down in both ways, for each contender."""
    quick = given.quick
    table = TABLES["drawn" if quick else "adult"]()
    rows = []
    with contextlib.ExitStack() as stack:
        sources = stack.enter_context(sources_of(table, "log-normal"))
        path = build_index(table, sources, folder, quick=quick)
        file = write_fetches(folder / "fetches.toml", sources)
        models = train(table, times_of(path))
        servers = {POLYDOM: stack.enter_context(Server.of(serve_polydom, path, file))}
        for name in RIVALS[:1] if quick else RIVALS:
            terms = (models, addresses(sources), name)
            servers[name] = stack.enter_context(Server.of(serve_rival, *terms))
        warm = Requests.draw(table, 5 if quick else 200, 99, [BUDGET_MS])
        for server in servers.values():
            server.warm_up(warm.bodies)
        up_s, down_s, back_s = (QUICK_S,) * 3 if quick else (UP_S, DOWN_S, BACK_S)
        seconds = up_s + down_s + back_s
        for number, (fetch, mode) in enumerate(CASES[:1] if quick else CASES):
            requests = Requests.draw(table, int(seconds * RATE), number, [BUDGET_MS])
            least = without(table, requests, fetch).ask(servers[POLYDOM], 4 * RATE)
            for name, server in servers.items():
                with goes_down(sources[fetch], mode, up_s, down_s) as moments:
                    answers = requests.ask(server, RATE, number)
                line = told(answers, least, moments[0], moments[1], fetch)
                rows.append({"source": f"{fetch} {mode}", "": name, **line})
                time.sleep(0.0 if quick else REST_S)
    return {f"within {BUDGET_MS:g} ms": rows}


CASES: tuple[tuple[str, Mode], ...] = (
    (SLOW, "hangs"),
    (SLOW, "refuses"),
    (FAST, "hangs"),
    (FAST, "refuses"),
)


def main(arguments: list[str] | None = None) -> None:
    """Run the benchmark."""
    parser = report.options(__name__, data=True)
    parser.add_argument("--cache", type=Path, help="keep the index here")
    given = parser.parse_args(arguments)
    if not given.quick:
        report.need(given, "adult")
    with tempfile.TemporaryDirectory() as made:
        folder = given.cache or Path(made)
        folder.mkdir(parents=True, exist_ok=True)
        report.tell(measure(given, folder), given)
