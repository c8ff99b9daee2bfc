"""The requests that all contenders get, an index for them, and servers that answer."""

import contextlib
import json
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from polydom.features.items import record_item
from polydom.indexer import Index, build
from polydom.indexer.building.project import Project
from polydom.server.app import create_app
from polydom.server.ops.server import listen, run
from polydom.server.settings import Settings

from ..new_process import cpu_s
from ..serving.open_loop import Exchange, Load
from ..serving.served import running
from .sources import Source, draw_latencies, source
from .tables import FAST, KEY, LABEL, SLOW, Record, SplitTable

Features = frozenset[str]  # names
BUDGETS_MS = (2, 5, 10, 20, 50, 100, 200)
CONNECTIONS = 128
WARM = 200  # requests whose answers do not count
WARM_RATE = 100.0  # a second
GROUP = "request"  # the feature of the columns that a request brings
AT_MOST_MS = 250  # of a call
AT_ONCE = 256
SETTINGS = Settings(queue_limit=1 << 16, max_budget_s=60.0)
HEAD = (
    "POST /v1/predict HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n"
    "content-length: {}\r\n\r\n"
)


def post(asked: Mapping[str, Any]) -> bytes:
    """Return a whole request of a JSON object."""
    body = json.dumps(asked).encode()
    return HEAD.format(len(body)).encode() + body


@contextlib.contextmanager
def sources_of(table: SplitTable, law: str) -> Iterator[dict[str, Source]]:
    """Run a source for each fetch of a table, whose latencies follow a law."""
    with contextlib.ExitStack() as stack:
        found = {}
        for fetch, columns in table.fetched.items():
            values = [{name: row[name] for name in columns} for row in table.rows]
            latencies_s = draw_latencies(law, fetch, len(values))
            found[fetch] = stack.enter_context(source(latencies_s, values))
        yield found


def addresses(sources: Mapping[str, Source]) -> dict[str, str]:
    """Return where each source is asked."""
    return {f: f"http://127.0.0.1:{one.port}/values" for f, one in sources.items()}


def write_fetches(path: Path, sources: Mapping[str, Source]) -> Path:
    """Write the file with the calls, each of one key, as rivals send them."""
    found = addresses(sources)
    return write_calls(path, {f: {"http": own} for f, own in found.items()})


def write_calls(path: Path, sources: Mapping[str, Mapping[str, str]]) -> Path:
    """Write the file with the calls, each of one key, of where each source is."""
    terms = f"at_most_ms = {AT_MOST_MS}\nbatch = 1\nat_once = {AT_ONCE}\n"
    tables = [
        f"[{fetch}]\n" + "".join(f'{n} = "{t}"\n' for n, t in own.items()) + terms
        for fetch, own in sources.items()
    ]
    path.write_text("\n".join(tables))
    return path


def build_index(
    table: SplitTable,
    sources: Mapping[str, Source],
    folder: Path,
    *,
    quick: bool,
    prices: Mapping[str, float] | None = None,
) -> Path:
    """Build an index of a table whose fetches the build times itself; its file."""
    path = folder / "waits.pdx"
    if path.exists():
        return path
    table.write(folder / "people.csv")
    write_fetches(folder / "fetches.toml", sources)
    fetches: dict[str, dict[str, Any]] = {
        fetch: {"key": [KEY], "columns": [*columns], "from": "fetches.toml"}
        for fetch, columns in table.fetched.items()
    }
    for fetch, usd in (prices or {}).items():
        fetches[fetch]["price"] = {"usd": usd}
    project: dict[str, Any] = {
        "data": {"table": "people.csv"},
        "features": {"columns": [{"name": GROUP, "columns": [*table.asked]}]},
        "fetches": fetches,
        "learner": {"name": "hist_boosting"},
        "exits": "off",
        "workers": 1,
    }
    if quick:
        project |= {"costs": {"items": 9, "repeats": 2}, "learner": {"name": "tree"}}
    build(Project.from_mapping(project, folder=folder), output=path)
    return path


def shares_right(path: Path, table: SplitTable) -> dict[Features, float]:
    """Return the share of all rows that no build sees for which each model is right.

    Models are those of whole rows, by the names of their features.
    """
    package = Index.load(path).package
    assert package is not None
    extractor = package.extractor()
    rows = [{name: row[name] for name in table.columns} for row in table.kept]
    values = np.array([extractor.extract(record_item(row)) for row in rows], float)
    codes = [package.labels.index(row[LABEL]) for row in table.kept]
    found = {}
    for mask, model in zip(package.masks.tolist(), package.models, strict=True):
        own = (one.name for k, one in enumerate(package.features) if mask >> k & 1)
        chosen = model.predict(values)
        found[frozenset(own)] = float((np.asarray(chosen) == codes).mean())
    return found


def times_of(path: Path) -> NDArray[np.float64]:
    """Return the arrival times in seconds that a build measured, (M, U)."""
    package = Index.load(path).package
    assert package is not None
    return package.arrivals


def serve_polydom(
    port: int, path: Path, fetches: Path, settings: Settings = SETTINGS
) -> None:
    """Serve an index and its fetches in this process."""
    with listen("127.0.0.1", port) as listener:
        run(create_app(path, fetches=[fetches], settings=settings), listener)


class Server(NamedTuple):
    """A contender that answers at a port."""

    port: int
    process: int

    @classmethod
    @contextlib.contextmanager
    def of(cls, serve: Any, *arguments: Any) -> Iterator[Self]:
        """Run a contender."""
        with running(serve, *arguments) as (port, process):
            yield cls(port, process)

    def cpu_s(self) -> float:
        """Return the processor's seconds of the process up to now."""
        return cpu_s(self.process)

    def warm_up(self, requests: Sequence[bytes]) -> None:
        """Ask what is not counted."""
        load = Load(self.port, requests, CONNECTIONS, spins=False)
        load.at((np.arange(min(WARM, len(requests))) / WARM_RATE).tolist())


@dataclass(frozen=True)
class Requests:
    """Requests about rows that no build has seen, each with a budget."""

    rows: Sequence[Record]
    budgets_ms: NDArray[np.float64]
    bodies: Sequence[bytes]

    @classmethod
    def draw(
        cls,
        table: SplitTable,
        count: int,
        seed: int,
        budgets_ms: Sequence[float] = BUDGETS_MS,
        **terms: Any,
    ) -> Self:
        """Draw rows and budgets, always the same ones for a seed."""
        rng = np.random.default_rng([seed, count])
        order = rng.permutation(len(table.kept))
        rows = [table.kept[order[k % len(order)]] for k in range(count)]
        budgets = rng.choice(np.array(budgets_ms, float), count)
        bodies = [
            post({"record": table.request(row), "budget_ms": budget, **terms})
            for row, budget in zip(rows, budgets.tolist(), strict=True)
        ]
        return cls(rows, budgets, bodies)

    def ask(self, server: Server, rate: float, seed: int = 0) -> "Answers":
        """Ask for all, `rate` a second in the mean, at times as chance has it."""
        rng = np.random.default_rng([seed, 1])
        times_s = rng.exponential(1 / rate, len(self.bodies)).cumsum()
        began_s = time.perf_counter()
        load = Load(server.port, self.bodies, CONNECTIONS, spins=False)
        found = sorted(load.at(times_s.tolist()), key=lambda e: e.number)
        return Answers.read(self, found, began_s)


@dataclass(frozen=True)
class Answers:
    """What came of requests; arrays with an element for each.

    `took_ms` counts from when a request was due, and is infinite where no answer came.
    `stated` is the expected quality that an answer states, NaN where it states none.
    `came` has the mask of the fetches whose columns came in time, and `features` those
    of the model that answered.
    """

    requests: Requests
    due_s: NDArray[np.float64]  # From the start
    took_ms: NDArray[np.float64]
    right: NDArray[np.bool_]
    stated: NDArray[np.float64]
    came: NDArray[np.int64]
    features: Sequence[Features]

    @classmethod
    def read(
        cls, requests: Requests, exchanges: Sequence[Exchange], began_s: float
    ) -> Self:
        """Read the answers of all requests, in the order of these."""
        bodies = [json.loads(e.body) if e.status == 200 else {} for e in exchanges]
        labels = [row["label"] for row in requests.rows]
        right = [b.get("label") == own for b, own in zip(bodies, labels, strict=True)]
        took_s = [e.done_s - e.due_s if e.status == 200 else np.inf for e in exchanges]
        stated = [body.get("expected_quality", np.nan) for body in bodies]
        came = [_came(body.get("fetched", {})) for body in bodies]
        return cls(
            requests,
            np.array([e.due_s for e in exchanges]) - began_s,
            1e3 * np.array(took_s),
            np.array(right),
            np.array(stated, float),
            np.array(came),
            [frozenset(body.get("features", ())) for body in bodies],
        )

    def part(self, own: slice) -> Self:
        """Return what came of some of the requests."""
        asked = self.requests
        return type(self)(
            Requests(asked.rows[own], asked.budgets_ms[own], asked.bodies[own]),
            self.due_s[own],
            self.took_ms[own],
            self.right[own],
            self.stated[own],
            self.came[own],
            self.features[own],
        )

    def within(self, budget_ms: float) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """Return whether each answer is in time, and whether it is right as well."""
        in_time = self.took_ms <= budget_ms
        return in_time, self.right & in_time


def _came(fetched: Mapping[str, Any]) -> int:
    own = [fetched.get(name, {}).get("state") for name in (FAST, SLOW)]
    return sum(1 << u for u, state in enumerate(own) if state in ("came", "kept"))
