"""Rivals: plain FastAPI applications that wait for fetches by the rules of others.

Each has the learner, the rows, the measured arrival times and the HTTP client that
polydom has, and polydom's compiled form of its models, so that none is slower for a
reason that has nothing to do with waiting.
"""

import asyncio
import json
import math
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import aiohttp
import numpy as np
from fastapi import FastAPI, Request, Response
from numpy.typing import NDArray
from sklearn.ensemble import HistGradientBoostingClassifier

from polydom.models import compile

from .tables import KEY, LABEL, Record, SplitTable

AT_MOST_S = 0.25  # a call ends after that, as polydom's do
AT_ONCE = 256  # calls of a fetch at once, as polydom's
# Of a budget, what is kept for the answer: the best for rivals of 0.5, 1 and 2 ms.
# uvloop's timers count whole milliseconds, so waits are rounded down to these.
RESERVE_S = 2e-3
TICK_S = 1e-3
LOSS = 0.001  # of accuracy that a cascade may cost, as in Willump's paper
HELD_BACK = 0.2  # share of the rows to build of that its threshold is chosen by

Values = Mapping[str, Any]
Call = asyncio.Task[Values]
Rule = Callable[["Rival", Record, float], Awaitable[str | None]]


@dataclass(frozen=True)
class Models:
    """What all rivals know.

    Sets of the two fetches are bit masks. `by_set` has a model trained on the columns
    that a request and a set bring. `gaps` is trained on every row four times, each
    time with another set of fetches left out. `threshold` is the least probability of
    the request's model with which a cascade answers at once. `times_s` (M, 2) are
    arrival times, and `qualities` the accuracies of `by_set` on rows held back.
    """

    columns: tuple[str, ...]
    asked: tuple[str, ...]
    fetched: Mapping[str, tuple[str, ...]]
    codes: Mapping[str, Mapping[str, float]]
    by_set: Sequence[Any]
    gaps: Any
    threshold: float
    qualities: Sequence[float]
    times_s: NDArray[np.float64]

    def row(self, record: Values) -> list[float]:
        """Return numbers for a record's columns; NaN for what it lacks."""
        found = []
        for name in self.columns:
            value, codes = record.get(name), self.codes.get(name)
            if codes is not None:
                value = codes.get(str(value))
            found.append(math.nan if value is None else float(value))
        return found


def train(table: SplitTable, times_s: NDArray[np.float64]) -> Models:
    """Train the models of all rivals."""
    codes = {name: _codes(table.built, name) for name in table.columns}
    words = {name: own for name, own in codes.items() if own}
    names, fetches = table.columns, [*table.fetched]
    empty = Models(names, table.asked, table.fetched, words, (), None, 0, (), times_s)
    X = np.array([empty.row(row) for row in table.built])
    y = np.array([row[LABEL] for row in table.built])
    masked: list[Any] = []
    constant: list[Any] = []  # no learner is given a column of NaN alone
    for came in range(1 << len(fetches)):
        left_out = [f for u, f in enumerate(fetches) if not came >> u & 1]
        lost = [names.index(name) for f in left_out for name in table.fetched[f]]
        for found, value in ((masked, np.nan), (constant, 0.0)):
            found.append(X.copy())
            found[-1][:, lost] = value
    categories = [name in words for name in names]

    def fit(X: Any, y: Any) -> Any:
        return HistGradientBoostingClassifier(
            random_state=0, categorical_features=categories
        ).fit(X, y)

    order = np.random.default_rng(0).permutation(len(X))
    cut = int(HELD_BACK * len(X))
    kept, own = order[:cut], order[cut:]
    held = [fit(rows[own], y[own]) for rows in constant]
    shares = [model.predict_proba(rows[kept]) for model, rows in zip(held, constant)]  # noqa: B905
    right = [held[0].classes_[s.argmax(axis=1)] == y[kept] for s in shares]
    return Models(
        names,
        table.asked,
        table.fetched,
        words,
        [compile(fit(rows, y)) for rows in constant],
        compile(fit(np.concatenate(masked), np.tile(y, len(masked)))),
        least_threshold(shares[0].max(axis=1), right[0], right[-1]),
        [float(one.mean()) for one in right],
        times_s,
    )


def _codes(rows: Sequence[Record], name: str) -> dict[str, float]:
    """Return a number for each word of a column; none for a column of numbers."""
    words = {row[name] for row in rows if isinstance(row[name], str)}
    return {word: float(k) for k, word in enumerate(sorted(words))}


def least_threshold(
    sure: NDArray[np.float64], first: NDArray[np.bool_], second: NDArray[np.bool_]
) -> float:
    """Return the least threshold whose cascade loses at most `LOSS` of accuracy."""
    goal = second.mean() - LOSS
    for least in np.linspace(0.5, 1.0, 101):
        if np.where(sure >= least, first, second).mean() >= goal:
            return float(least)
    return math.inf


class Rival:
    """One application with one rule."""

    def __init__(self, models: Models, addresses: Mapping[str, str], rule: Rule):
        self.models = models
        self.fetches = [*addresses]
        self._addresses = addresses
        self._rule = rule
        self._sessions: dict[str, aiohttp.ClientSession] = {}
        self._left_behind = set[Call]()

    async def answer(self, request: Request) -> Response:
        """Answer a request: its label, or 503 if the rule has no answer."""
        loop = asyncio.get_running_loop()
        now_s = loop.time()
        asked = json.loads(await request.body())
        due_s = now_s + asked["budget_ms"] / 1e3
        label = await self._rule(self, asked["record"], due_s)
        if label is None:
            return Response(status_code=503)
        return Response(json.dumps({"label": label}), media_type="application/json")

    def send(
        self, record: Record, fetches: Sequence[str]
    ) -> list[asyncio.Task[Values]]:
        """Begin calls that end by themselves, whoever waits for them."""
        tasks = [asyncio.create_task(self._call(f, record[KEY])) for f in fetches]
        self._left_behind.update(tasks)
        for task in tasks:
            task.add_done_callback(self._forget)
        return tasks

    def _forget(self, task: Call) -> None:
        self._left_behind.discard(task)
        if not task.cancelled():
            task.exception()  # asyncio would log it

    async def _call(self, fetch: str, key: int) -> Values:
        session = self._sessions.get(fetch)
        if session is None:
            session = self._sessions[fetch] = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=AT_ONCE),
                cookie_jar=aiohttp.DummyCookieJar(),
                timeout=aiohttp.ClientTimeout(total=AT_MOST_S),
            )
        body = json.dumps({"keys": [[key]]}).encode()
        async with session.post(self._addresses[fetch], data=body) as response:
            (values,) = json.loads(await response.read())["values"]
        found: Values = values
        return found

    async def wait(
        self, tasks: Sequence[Call], until_s: Sequence[float]
    ) -> list[Values | None]:
        """Return what each task brought by its own time on the loop's clock."""
        loop = asyncio.get_running_loop()
        left = dict(zip(tasks, until_s, strict=True))
        while left:
            first_s = min(left.values())
            ticks = math.floor((first_s - loop.time()) / TICK_S)
            if ticks < 1:
                left = {task: end_s for task, end_s in left.items() if end_s > first_s}
                continue
            done, _ = await asyncio.wait(
                left, timeout=ticks * TICK_S, return_when=asyncio.FIRST_COMPLETED
            )
            left = {task: end_s for task, end_s in left.items() if task not in done}
        return [
            task.result() if task.done() and task.exception() is None else None
            for task in tasks
        ]

    def label(
        self, model: Any, record: Record, brought: Sequence[Values | None]
    ) -> str:
        """Answer by a model of all columns, NaN where none came."""
        known = dict(record)
        for values in brought:
            known.update(values or {})
        return str(model.predict(np.array([self.models.row(known)]))[0])


async def fetch_all(rival: Rival, record: Record, due_s: float) -> str | None:
    """Gather all fetches, however long they take; one model."""
    try:
        brought = await asyncio.gather(*rival.send(record, rival.fetches))
    except (aiohttp.ClientError, TimeoutError, OSError):
        return None
    return rival.label(rival.models.by_set[-1], record, brought)


def timeouts(share: float) -> Rule:
    """Make a rule: wait for each fetch up to a quantile of its times, then NaN."""

    async def rule(rival: Rival, record: Record, due_s: float) -> str | None:
        times_s = np.quantile(rival.models.times_s, share, axis=0, method="lower")
        now_s = asyncio.get_running_loop().time()
        ends_s = (now_s + np.minimum(times_s, AT_MOST_S)).tolist()
        brought = await rival.wait(rival.send(record, rival.fetches), ends_s)
        return rival.label(rival.models.gaps, record, brought)

    return rule


async def cut_at_budget(rival: Rival, record: Record, due_s: float) -> str | None:
    """Wait for all fetches up to the deadline; a model that has learned of gaps."""
    return await _cut(rival, record, due_s, rival.models.gaps)


async def cut_one_model(rival: Rival, record: Record, due_s: float) -> str | None:
    """Wait for all fetches up to the deadline; a model of whole rows."""
    return await _cut(rival, record, due_s, rival.models.by_set[-1])


async def _cut(rival: Rival, record: Record, due_s: float, model: Any) -> str:
    ends_s = [due_s - RESERVE_S] * len(rival.fetches)
    brought = await rival.wait(rival.send(record, rival.fetches), ends_s)
    return rival.label(model, record, brought)


async def cascade(rival: Rival, record: Record, due_s: float) -> str | None:
    """Answer by what the request brings if that is sure, else fetch all and gather."""
    first = rival.models.by_set[0]
    (shares,) = first.predict_scores(np.array([rival.models.row(record)]))
    if shares.max() >= rival.models.threshold:
        return str(first.classes[shares.argmax()])
    return await fetch_all(rival, record, due_s)


async def plan_by_p99(rival: Rival, record: Record, due_s: float) -> str | None:
    """Send what comes in time by its 99th percentile; the model for what came."""
    models, left_s = rival.models, due_s - asyncio.get_running_loop().time()
    times_s = np.quantile(models.times_s, 0.99, axis=0, method="lower")
    fits = sum(1 << u for u, t in enumerate(times_s) if t <= left_s - RESERVE_S)
    sets = [came for came in range(len(models.by_set)) if not came & ~fits]
    best = max(sets, key=lambda came: models.qualities[came])
    sent = [fetch for u, fetch in enumerate(rival.fetches) if best >> u & 1]
    tasks = rival.send(record, sent)
    brought = await rival.wait(tasks, [due_s - RESERVE_S] * len(tasks))
    found = dict(zip(sent, brought, strict=True))
    came = sum(
        1 << u for u, fetch in enumerate(rival.fetches) if found.get(fetch) is not None
    )
    return rival.label(models.by_set[came], record, brought)


RULES: dict[str, Rule] = {
    "fetch all": fetch_all,
    "timeouts of p50": timeouts(0.5),
    "timeouts of p95": timeouts(0.95),
    "timeouts of p99": timeouts(0.99),
    "cut at the budget": cut_at_budget,
    "cut, one model": cut_one_model,
    "cascade": cascade,
    "plan by p99": plan_by_p99,
}
# Rules that look at no budget: one run tells what they do within any.
WITHOUT_BUDGET = {"fetch all", "cascade", *(n for n in RULES if "timeouts" in n)}


def serve_rival(
    port: int, models: Models, addresses: Mapping[str, str], name: str
) -> None:
    """Serve one rival in this process, as polydom does: uvloop and httptools."""
    import uvicorn

    rival = Rival(models, addresses, RULES[name])
    # the compiled models take longer for their first call
    none: list[Values | None] = [None] * len(rival.fetches)
    for model in (*models.by_set, models.gaps):
        rival.label(model, {}, none)
        model.predict_scores(np.array([models.row({})]))
    app = FastAPI(openapi_url=None)
    app.add_api_route("/readyz", lambda: Response())
    app.add_api_route(
        "/v1/predict", rival.answer, methods=["POST"], response_model=None
    )
    options: dict[str, Any] = {"loop": "uvloop", "http": "httptools"}
    options |= {"access_log": False, "log_level": "warning", "timeout_keep_alive": 65}
    uvicorn.run(app, port=port, lifespan="off", **options)
