"""What a server does now, in a terminal: `polydom top`."""

import time
import urllib.error
import urllib.request
from collections import Counter, deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.client import HTTPException
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from polydom.features.errors import BadInput, printable
from polydom.features.figures import show_ms

if TYPE_CHECKING:
    from rich.console import RenderableType

WINDOW_S = 300.0
RECENT_S = 10.0
PATIENCE_S = 5.0
PLANS = 8  # kinds of answers that are listed
COUNTS = {
    "polydom_exits_total": "exits",
    "polydom_exits_audited_total": "audited",
    "polydom_exits_changed_total": "changed",
}

Key = TypeVar("Key")
Url = Annotated[str, typer.Argument(help="The server, as http://127.0.0.1:8000.")]
ModelName = Annotated[
    str | None, typer.Option(help="Of one model; without it of all together.")
]
TokenFile = Annotated[
    Path | None, typer.Option(metavar="FILE", help="A file with the bearer token.")
]
Every = Annotated[float, typer.Option(min=0.1, help="Seconds from look to look.")]


@dataclass
class Counts:
    """What a server had counted at one moment, all its workers together.

    Attributes
    ----------
    at_s
        When, by a monotonic clock.
    answers
        By features, why they are not the best there are, and whether in time.
    latency
        Answers that took at most so many seconds.
    numbers
        Other counts; reloads and errors by their kind.
    waiting, drift
        As they are: requests that wait, and the largest drift factor.
    """

    at_s: float
    answers: Counter[tuple[str, str, bool]] = field(default_factory=Counter)
    latency: Counter[float] = field(default_factory=Counter)
    numbers: Counter[str] = field(default_factory=Counter)
    waiting: float = 0.0
    drift: float = 1.0

    def since(self, before: "Counts") -> "Counts":
        """Return what came after another moment."""
        return Counts(
            self.at_s,
            _less(self.answers, before.answers),
            _less(self.latency, before.latency),
            _less(self.numbers, before.numbers),
            self.waiting,
            self.drift,
        )

    @property
    def in_time(self) -> str:
        """Share of the answers that were."""
        met = sum(count for (*_, met), count in self.answers.items() if met)
        return f"{met / self.answers.total():.1%}" if self.answers.total() else "-"

    def within(self, share: float) -> str:
        """Time that a share of the answers took at most."""
        bounds, all_of_them = sorted(self.latency), self.answers.total()
        for bound in bounds if all_of_them else ():
            if self.latency[bound] >= share * all_of_them:
                return f"≤ {show_ms(bound * 1e3)}" if bound < float("inf") else "> 10 s"
        return "-"


def _less(counts: Counter[Key], before: Counter[Key]) -> Counter[Key]:
    left = counts.copy()
    left.subtract(before)
    return left


def top(
    url: Url = "http://127.0.0.1:8000",
    model: ModelName = None,
    token_file: TokenFile = None,
    every: Every = 2.0,
) -> None:
    """Show what a server does now: answers, how many in time, and what they took.

    Ends with Ctrl-C. Where the output is no terminal, one look is printed.
    """
    from rich.console import Console
    from rich.live import Live

    from .evaluate import read_token

    token = None if token_file is None else read_token(token_file)
    look = _looker(url, model, token)
    console, history = Console(), deque([look()])
    shown = picture(url, model, history)
    if not console.is_terminal:
        console.print(shown)
        return
    try:
        with Live(console=console, screen=True, auto_refresh=False) as live:
            while True:
                live.update(shown, refresh=True)
                time.sleep(every)
                try:
                    remember(history, look())
                    shown = picture(url, model, history)
                except BadInput as error:
                    shown = f"{printable(str(error))}\ntrying again every {every:g} s"
    except KeyboardInterrupt:
        raise typer.Exit from None


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """Follows no redirect: the token is for the server that was named."""

    def redirect_request(self, *_: object) -> None:
        """Say that there is no request to go on with."""


def _looker(url: str, model: str | None, token: str | None) -> Callable[[], Counts]:
    from ..client.messages import Address

    Address(url, token)  # refuses what is none
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}
    request = urllib.request.Request(f"{url.rstrip('/')}/metrics", headers=headers)
    opener = urllib.request.build_opener(_NoRedirects)

    def look() -> Counts:
        try:
            with opener.open(request, timeout=PATIENCE_S) as reply:
                text = reply.read().decode()
        except urllib.error.HTTPError as error:
            raise BadInput(f"{url}: {_told(error)}") from error
        except (OSError, HTTPException, ValueError) as error:
            raise BadInput(f"{url} does not answer: {error}") from error
        return read_counts(text, model, time.monotonic())

    return look


def _told(error: urllib.error.HTTPError) -> str:
    """Say what came instead of counts, and what may help."""
    said = f"{error.code} {error.reason}"
    if error.code == 401:
        return f"{said}; give --token-file"
    if where := error.headers.get("location"):
        return f"{said}; it leads to {where}, which is not followed: name that address"
    return said


def read_counts(text: str, model: str | None, at_s: float) -> Counts:
    """Read what `/metrics` says of one model, or of all.

    Raises
    ------
    BadInput
        If it is no such text, or says nothing of that model.
    """
    from prometheus_client.parser import text_string_to_metric_families

    counts, models = Counts(at_s), set[str]()
    try:
        families = [*text_string_to_metric_families(text)]
    except ValueError as error:
        raise BadInput(f"this is no server of polydom: {error}") from error
    for sample in (sample for family in families for sample in family.samples):
        own = sample.labels.get("model", "")
        models.add(own)
        if model is None or own in ("", model):
            _count(counts, sample.name, sample.labels, sample.value)
    if model is not None and model not in models:
        known = ", ".join(sorted(models - {""}))
        raise BadInput(f"no model is called {model!r}; served: {known}")
    return counts


def _count(counts: Counts, name: str, labels: dict[str, str], value: float) -> None:
    if name == "polydom_answers_total":
        met = labels["budget_met"] == "true"
        counts.answers[labels["features"], labels["reason"], met] += int(value)
    elif name == "polydom_request_seconds_bucket":
        counts.latency[float(labels["le"])] += int(value)
    elif name == "polydom_errors_total":
        counts.numbers[f"error {labels['code']}"] += int(value)
    elif name == "polydom_reloads_total":
        counts.numbers[f"reload {labels['result']}"] += int(value)
    elif name == "polydom_waiting":
        counts.waiting += value
    elif name == "polydom_drift_factor":
        counts.drift = max(counts.drift, value)
    elif name in COUNTS:
        counts.numbers[COUNTS[name]] += int(value)


def remember(history: "deque[Counts]", counts: Counts) -> None:
    """Keep the looks of the last minutes; none of a server that was started anew."""
    if counts.answers.total() < history[-1].answers.total():
        history.clear()
    history.append(counts)
    while history[0].at_s < counts.at_s - WINDOW_S:
        history.popleft()


def picture(url: str, model: str | None, history: "deque[Counts]") -> "RenderableType":
    """Draw what was counted lately, in the last minutes, and since the start."""
    from rich.console import Group
    from rich.table import Table

    now = history[-1]
    recent = next(one for one in history if one.at_s >= now.at_s - RECENT_S)
    periods = {
        f"last {RECENT_S:.0f} s": (now.since(recent), now.at_s - recent.at_s),
        f"last {WINDOW_S / 60:.0f} min": (
            now.since(history[0]),
            now.at_s - history[0].at_s,
        ),
        "since the start": (now, 0.0),
    }
    table = Table("", *periods, box=None)
    for column in table.columns[1:]:
        column.justify = "right"
    for name, cell in (
        ("answers", lambda counts, _: f"{counts.answers.total():,}"),
        (
            "a second",
            lambda counts, s: f"{counts.answers.total() / s:,.1f}" if s else "-",
        ),
        ("in time", lambda counts, _: counts.in_time),
        ("half within", lambda counts, _: counts.within(0.5)),
        ("99 of 100 within", lambda counts, _: counts.within(0.99)),
    ):
        table.add_row(name, *(cell(*period) for period in periods.values()))
    return Group(
        printable(f"{url}{f', model {model}' if model else ''}"),
        "",
        table,
        "",
        *_lines(now),
        "",
        _plans(now.since(history[0]) if len(history) > 1 else now),
    )


def _lines(now: Counts) -> Iterator[str]:
    numbers = now.numbers
    errors = {k: n for k, n in numbers.items() if k.startswith("error ") and n}
    said = ", ".join(f"{k.removeprefix('error ')} {n:,}" for k, n in errors.items())
    yield printable(
        f"waiting {now.waiting:.0f}; drift {now.drift:.3g}; "
        f"reloads {numbers['reload ok']:,}, refused {numbers['reload failed']:,}; "
        f"errors: {said or 'none'}"
    )
    yield (
        f"early exits {numbers['exits']:,}: {numbers['audited']:,} checked, "
        f"{numbers['changed']:,} would differ"
    )


def _plans(counts: Counts) -> "RenderableType":
    """Tabulate which features answered, and why no better ones did."""
    from rich.markup import escape
    from rich.table import Table

    table = Table("answers", "in time", "not the best for", "features", box=None)
    kinds: Counter[tuple[str, str]] = Counter()
    met: Counter[tuple[str, str]] = Counter()
    for (features, reason, in_time), count in counts.answers.items():
        kinds[features, reason] += count
        met[features, reason] += count * in_time
    for kind, count in kinds.most_common(PLANS):
        if count:
            names = printable(kind[0].replace(" ", ", ")) or "none"
            share = f"{met[kind] / count:.1%}"
            table.add_row(f"{count:,}", share, kind[1], escape(names))
    return table
