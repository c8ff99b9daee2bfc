"""Is what comes within a budget used better than by those who wait by other rules?

python -m benchmarks ahead                         Adult, log-normal latencies
python -m benchmarks ahead --table covertype       fields of forest
python -m benchmarks ahead --law two-humped        caches that some keys miss
python -m benchmarks ahead --ramp slow             a source slows down and recovers

Requests bring some columns and a key, and two sources bring the others after latencies
that were drawn for each key: all who ask for a key wait equally long. Requests come as
chance has it, each with one of seven budgets, the same ones for every contender, who
are asked in turn. A load of 1 is the rate at which polydom's process would compute
without pause. All is measured at the client, from when a request was due: a late answer
is wrong. With a ramp, a source becomes five times as slow over the second quarter of a
round, and what it was again over the third: only answers of these two count.

    polydom             waits as long as it can pay; the best model for what came
    cut at the budget   waits up to the deadline; one model that has learned of gaps
    cut, one model      the same, with a model of whole rows (Tecton's latency budget)
    timeouts of p50 ... a timeout for each fetch; a model that has learned of gaps,
                        as Chalk's users would
    fetch all           gathers all, one model (Feast)
    cascade             fetches all if a model of the request is unsure (Willump)
    plan by p99         polydom's models, chosen by the fetches' 99th percentiles

With a ramp, also:

    polydom, no ramp             while no source becomes slower
    polydom, times of the build  does not learn from the times that calls take
"""

import argparse
import contextlib
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np

from polydom.server.fetching.latency import Latency

from .. import report
from .mix import (
    BUDGETS_MS,
    Answers,
    Features,
    Requests,
    Server,
    addresses,
    build_index,
    serve_polydom,
    shares_right,
    sources_of,
    times_of,
    write_fetches,
)
from .rivals import RULES, serve_rival, train
from .sources import LAWS, Source, ramp
from .tables import FAST, FOLDERS, SLOW, TABLES

POLYDOM = "polydom"
STEADY, UNLEARNING = "polydom, no ramp", "polydom, times of the build"
SLOWER = 5.0  # factor of a ramp's latencies at their longest
WARM_SEED = 99  # of requests that no round has
QUICK_RIVALS = 2
NO_ANSWER_MS = 1e4
LOADS = (0.3, 0.6, 0.9)
SETTLING_S = 0.3  # between two contenders, for calls that were left behind
Key = tuple[str, float]  # contender and load


def measure(given: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """Ask all contenders at all loads, in turn."""
    quick = given.quick
    table = TABLES["drawn" if quick else given.table]()
    found: dict[Key, list[Answers]] = {}
    keys: dict[str, list[float]] = {}
    with contextlib.ExitStack() as stack:
        sources = stack.enter_context(sources_of(table, given.law))
        path = build_index(table, sources, folder, quick=quick)
        file = write_fetches(folder / "fetches.toml", sources)
        known = shares_right(path, table)
        models = train(table, times_of(path))
        servers = {POLYDOM: stack.enter_context(Server.of(serve_polydom, path, file))}
        slower = None
        if given.ramp:
            slower = sources[given.ramp]
            unlearning = Server.of(serve_unlearning, path, file)
            servers[UNLEARNING] = stack.enter_context(unlearning)
            servers[STEADY] = servers[POLYDOM]
        for name in given.rivals[:QUICK_RIVALS] if quick else given.rivals:
            terms = (models, addresses(sources), name)
            servers[name] = stack.enter_context(Server.of(serve_rival, *terms))
        warm = Requests.draw(table, 5 if quick else 200, WARM_SEED)
        for server in servers.values():
            server.warm_up(warm.bodies)
        capacity = rate_of_one(servers[POLYDOM], warm)
        for number in range(1 if quick else given.rounds):
            requests = Requests.draw(table, 40 if quick else given.requests, number)
            for load in given.loads[:1] if quick else given.loads:
                for name, server in servers.items():
                    _asked(sources)
                    steep = None if name == STEADY else slower
                    answers = ask(requests, server, load * capacity, number, steep)
                    if given.ramp:
                        count = len(requests.rows)
                        answers = answers.part(slice(count // 4, 3 * count // 4))
                    found.setdefault((name, load), []).append(answers)
                    keys.setdefault(name, []).append(
                        sum(_asked(sources).values()) / len(requests.rows)
                    )
    facts: dict[str, Any] = {"requests a second at load 1": capacity}
    for load in dict.fromkeys(load for _, load in found):
        own = {name: rounds for (name, at), rounds in found.items() if at == load}
        facts |= tables_of(load, own, known)
    keys_asked = {n: {"keys": float(np.mean(own))} for n, own in keys.items()}
    return facts | {"keys asked for, a request": keys_asked}


def ask(
    requests: Requests, server: Server, rate: float, seed: int, slower: Source | None
) -> Answers:
    """Ask for all, while a source becomes slower and recovers, if one is named."""
    length_s = len(requests.rows) / rate
    with contextlib.ExitStack() as stack:
        if slower is not None:
            stack.enter_context(ramp(slower, SLOWER, length_s / 4, 3 * length_s / 4))
        return requests.ask(server, rate, seed)


def serve_unlearning(port: int, path: Path, fetches: Path) -> None:
    """Serve by the times that the build measured, whatever calls take."""

    def forget(latency: Latency, took_s: float, since_s: float = 0.0) -> None:
        """Learn nothing of a call."""

    with mock.patch.object(Latency, "add", forget):
        serve_polydom(port, path, fetches)


def rate_of_one(server: Server, requests: Requests) -> float:
    """Return the requests a second that would keep the server's process computing."""
    before_s = server.cpu_s()
    requests.ask(server, 100.0)
    return len(requests.rows) / max(server.cpu_s() - before_s, 0.01)


def _asked(sources: Any) -> dict[str, int]:
    return {fetch: one.asked() for fetch, one in sources.items()}


def tables_of(
    load: float, found: dict[str, list[Answers]], known: Mapping[Features, float]
) -> dict[str, Any]:
    """Return the tables of one load: medians of the rounds, and polydom's lead."""
    right: list[dict[str, Any]] = []
    in_time: list[dict[str, Any]] = []
    took: list[dict[str, Any]] = []
    for name, rounds in found.items():
        shares = [[share_of(a, budget) for budget in BUDGETS_MS] for a in rounds]
        medians = np.median(shares, axis=0)  # (budgets, 3)
        for place, rows in enumerate((in_time, right, took)):
            cells = dict(zip(_heads(), medians[:, place].tolist(), strict=True))
            rows.append({"": name, **cells})
    facts = {
        f"right and in time, load {load:g}": right,
        f"in time, load {load:g}": in_time,
        f"median ms, load {load:g}": took,
        f"stated and measured, load {load:g}": stated_rows(found[POLYDOM], known),
    }
    if len(found) > 1:
        facts[f"points ahead, load {load:g}"] = leads(found)
    return facts


def _heads() -> list[str]:
    return [f"{budget} ms" for budget in BUDGETS_MS]


def share_of(answers: Answers, budget_ms: float) -> tuple[float, float, float]:
    """Return the shares in time, and right and in time, and the median ms.

    All are of the answers to the requests that have a budget.
    """
    own = answers.requests.budgets_ms == budget_ms
    if not own.any():
        return 0.0, 0.0, 0.0
    in_time, right = answers.within(budget_ms)
    median_ms = np.median(np.minimum(answers.took_ms[own], NO_ANSWER_MS))
    return float(in_time[own].mean()), float(right[own].mean()), float(median_ms)


def stated_rows(
    rounds: list[Answers], known: Mapping[Features, float]
) -> list[dict[str, Any]]:
    """Return the accuracy that answers state beside theirs, late ones as well.

    `all rows` has the share of all rows for which the models that answered are right,
    from `known`: other than `right`, it does not depend on the rows that were drawn,
    which are the same in every run.
    """
    rows = []
    for budget in BUDGETS_MS:
        own = [a.requests.budgets_ms == budget for a in rounds]
        stated = np.concatenate([a.stated[k] for a, k in zip(rounds, own, strict=True)])
        right = np.concatenate([a.right[k] for a, k in zip(rounds, own, strict=True)])
        every = np.concatenate(
            [[known.get(names, np.nan) for names in a.features] for a in rounds]
        )[np.concatenate(own)]
        told = np.isfinite(stated)
        if told.any():
            lead = 100 * (stated[told] - right[told])
            rows.append(
                {
                    "budget ms": budget,
                    "stated": float(stated[told].mean()),
                    "right": float(right[told].mean()),
                    "points too high": float(lead.mean()),
                    "+-": float(lead.std() / len(lead) ** 0.5),
                    "all rows": float(every[told].mean()),
                    "too high of all": float(100 * (stated - every)[told].mean()),
                }
            )
    return rows


def leads(found: dict[str, list[Answers]]) -> list[dict[str, Any]]:
    """Return polydom's points ahead of each rival, and their standard errors."""
    rows = []
    for name, rounds in found.items():
        if name == POLYDOM:
            continue
        cells: dict[str, Any] = {"": name}
        for budget, head in zip(BUDGETS_MS, _heads(), strict=True):
            pairs = zip(found[POLYDOM], rounds, strict=True)
            gained = [
                (a.within(budget)[1].astype(int) - b.within(budget)[1])[
                    a.requests.budgets_ms == budget
                ]
                for a, b in pairs
            ]
            lead = 100.0 * np.concatenate(gained)
            if len(lead):
                error = lead.std() / len(lead) ** 0.5
                cells[head] = f"{lead.mean():.1f} +- {error:.1f}"
        rows.append(cells)
    return rows


def main(arguments: list[str] | None = None) -> None:
    """Run the benchmark."""
    parser = report.options(__name__, data=True)
    parser.add_argument("--table", choices=[*FOLDERS], default="adult")
    parser.add_argument("--law", choices=[*LAWS], default="log-normal")
    parser.add_argument("--ramp", choices=[FAST, SLOW], help="source that slows down")
    parser.add_argument("--rivals", nargs="*", choices=[*RULES], default=[*RULES])
    parser.add_argument("--loads", nargs="+", type=float, default=LOADS)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--requests", type=int, default=3500, help="of each round")
    parser.add_argument("--cache", type=Path, help="keep the index here")
    given = parser.parse_args(arguments)
    if given.quick:
        given.ramp = SLOW
    else:
        report.need(given, FOLDERS[given.table])
    with tempfile.TemporaryDirectory() as made:
        folder = given.cache or Path(made)
        folder.mkdir(parents=True, exist_ok=True)
        report.tell(measure(given, folder), given)
