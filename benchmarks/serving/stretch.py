"""How much more budget than time it takes to get the best answers, in time.

python -m benchmarks stretch                 builds, serves, asks, prints tables
python -m benchmarks stretch --neighbour 10  beside a program of less priority
python -m benchmarks stretch --neighbour 0   beside one of the same priority
python -m benchmarks stretch --parts scenes  of ICSP's photographs, not of digits

The stretch is the least budget that buys 99 % of the best accuracy with 98 % of the
answers in time, over the median time where time is no object; both by the clock of who
asks. The server has a core, who asks another, over one connection, one request after
the other. A round asks for every item at every budget, in a drawn order; budgets are
multiples of the median time without a limit, which is asked for among them. The
interval is that of drawing the items again. Terciles are of the items' sizes, each with
a median and a best accuracy of its own.

The neighbour is a program that never sleeps, on the server's core, as nice as is said:
a job that may wait (10), or another server's (0). So that the server has its share of
the core, whoever it is, who asks then rests four times as long as each answer took.
"""

import argparse
import contextlib
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from polydom.features.items import Item
from polydom.server.settings import Settings

from .. import report
from .demo_index import built, held_out, project
from .image_sets import prepare
from .one_by_one import Client
from .other_programs import busy
from .served import serving

PARTS = ("digits", "scenes")  # the demo's, and ICSP's
# budgets as multiples of the median time where time is no object
LADDER = tuple(round(0.25 * 1.12**k, 3) for k in range(28))
FREE_MS = 1000.0
RIGHT, IN_TIME = 0.99, 0.98
ITEMS, ROUNDS = 300, 3
WARM = 60
DRAWS = 1000


class Asked(NamedTuple):
    """What was answered, by round (R), item (N) and budget (B), the last without limit.

    Attributes
    ----------
    budgets_ms : (B,)
    sizes : (N,)
        Pixels.
    right : (R, N, B)
    took_s : (R, N, B)
        By the clock of who asks.
    reasons : (R, N, B)
    """

    budgets_ms: NDArray[np.float64]
    sizes: NDArray[np.float64]
    right: NDArray[np.bool_]
    took_s: NDArray[np.float64]
    reasons: NDArray[np.str_]

    @property
    def in_time(self) -> NDArray[np.bool_]:
        """(R, N, B)."""
        return np.asarray(self.took_s * 1e3 <= self.budgets_ms)

    @property
    def median_ms(self) -> float:
        """Of the answers where time is no object."""
        return float(np.median(self.took_s[..., -1])) * 1e3

    def of(self, items: NDArray[np.int64]) -> "Asked":
        """Take some items; one may come more than once."""
        return Asked(
            self.budgets_ms,
            self.sizes[items],
            self.right[:, items],
            self.took_s[:, items],
            self.reasons[:, items],
        )

    def stretch(self) -> float:
        """Budget over time; infinite where no budget asked for is enough."""
        right, in_time = self.right.mean(axis=(0, 1)), self.in_time.mean(axis=(0, 1))
        enough = (right >= RIGHT * right[-1]) & (in_time >= IN_TIME)
        budgets_ms = self.budgets_ms[:-1][enough[:-1]]
        return float(budgets_ms.min(initial=np.inf)) / self.median_ms

    def interval(self) -> list[float]:
        """Where 95 of 100 stretches lie when the items are drawn again."""
        random, count = np.random.default_rng(0), len(self.sizes)
        drawn = [
            self.of(random.integers(count, size=count)).stretch() for _ in range(DRAWS)
        ]
        low, high = np.quantile(drawn, [0.025, 0.975], method="nearest").tolist()
        return [low, high]


def ask_all(
    client: Client,
    items: list[Item],
    labels: list[str],
    ladder: Sequence[float],
    rounds: int,
) -> Asked:
    """Ask for every item at every budget in every round."""
    random = np.random.default_rng(0)
    for item in items[:WARM]:
        client.ask(item, FREE_MS)
    free_s = [client.ask(item, FREE_MS)[0] for item in items]
    budgets_ms = np.array([*(np.median(free_s) * 1e3 * np.array(ladder)), FREE_MS])
    shape = rounds, len(items), len(budgets_ms)
    right, took_s = np.zeros(shape, bool), np.zeros(shape)
    reasons = np.full(shape, "", "U10")
    for turn in range(rounds):
        for place in random.permutation(right[turn].size).tolist():
            n, b = divmod(place, len(budgets_ms))
            took_s[turn, n, b], answer = client.ask(items[n], float(budgets_ms[b]))
            right[turn, n, b] = answer["label"] == labels[n]
            reasons[turn, n, b] = answer["reason"] or "best"
    sizes = np.array([item.size for item in items], float)
    return Asked(budgets_ms, sizes, right, took_s, reasons)


def by_budget(asked: Asked) -> list[dict[str, Any]]:
    """A row for each budget."""
    rows = []
    for b, budget_ms in enumerate(asked.budgets_ms.tolist()):
        right, in_time = asked.right[..., b], asked.in_time[..., b]
        names, counts = np.unique(asked.reasons[..., b], return_counts=True)
        shares = dict(
            zip(names.tolist(), (counts / counts.sum()).tolist(), strict=True)
        )
        row = {
            "budget ms": budget_ms,
            "of median": budget_ms / asked.median_ms,
            "right": float(right.mean()),
            "in time": float(in_time.mean()),
            "right in time": float((right & in_time).mean()),
        }
        rows.append(row | {name: shares.get(name) for name in reasons_of(asked)})
    return rows


def reasons_of(asked: Asked) -> list[str]:
    """All that came, the prior first."""
    return sorted({*asked.reasons.ravel().tolist()}, key=lambda name: name == "best")


def by_size(asked: Asked) -> list[dict[str, Any]]:
    """A row for all items and for each third of them by size."""
    order = np.argsort(asked.sizes, kind="stable")
    parts = {"all": order}
    names = ("small", "middle", "large")
    parts |= dict(zip(names, np.array_split(order, len(names)), strict=True))
    rows = []
    for name, items in parts.items():
        some = asked.of(items)
        row = {"items": name, "median ms": some.median_ms, "stretch": some.stretch()}
        rows.append(row | dict(zip(("low", "high"), some.interval(), strict=True)))
    return rows


def images(part: str, folder: Path, quick: bool) -> tuple[Path, list[Item], list[str]]:
    """An index, and images that no model of it was trained on."""
    if part == "scenes":
        kept = prepare("scenes", folder, ITEMS)
        return kept.path, kept.items, kept.labels
    return built(folder, quick), *held_out(project(quick))


def run(given: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """Build, serve and ask, for each part."""
    quick, nice = given.quick, given.neighbour
    count, rounds = (12, 1) if quick else (given.items, given.rounds)
    ladder = LADDER[:: 9 if quick else 1]
    facts: dict[str, Any] = {}
    for part in given.parts:
        path, items, labels = images(part, folder, quick)
        core = 1 if len(report.CORES) > 1 else None
        with contextlib.ExitStack() as stack:
            port = stack.enter_context(serving(path, Settings()))
            if nice is not None:
                stack.enter_context(busy(core=core, nice=nice))
            client = stack.enter_context(Client(port, rests=nice is not None))
            asked = ask_all(client, items[:count], labels[:count], ladder, rounds)
        facts[part] = by_budget(asked)
        facts[f"stretch of {part}"] = by_size(asked)
    return facts


def main(arguments: list[str] | None = None) -> None:
    """Run the benchmark."""
    parser = report.options(__name__, data=True)
    parser.add_argument("--parts", nargs="+", default=PARTS[:1], choices=PARTS)
    parser.add_argument("--neighbour", type=int, metavar="NICE", help="how nice it is")
    parser.add_argument("--items", type=int, default=ITEMS)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--cache", type=Path, help="keep the indexes and caches here")
    given = parser.parse_args(arguments)
    if "scenes" in given.parts:
        report.need(given, "scene15")
    with tempfile.TemporaryDirectory() as folder:
        report.tell(run(given, given.cache or Path(folder)), given)
