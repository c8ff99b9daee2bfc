"""Whether answers take as long as predicted, and how fast a budget too small is.

python -m benchmarks predicted                 builds five indexes, asks; some minutes
python -m benchmarks predicted --cache FOLDER  keeps the indexes there

Items that no build has seen are sent to a real server, one at a time over one
connection. `kept` is the share of answers of which `actual_us` is at most
`predicted_us`; `x` is the median of predicted over actual: how much is predicted more
than is needed. Then the same items are answered in this process within budgets that buy
nothing, and within one that buys the best, by the same clock. The last table has the
early exits of each build: how many plans have some, and what the best ones save of a
call by the most accurate plan, in the mean, kept or not.

What is built: what `polydom init` writes for Adult, and the same with LightGBM and with
a forest; what it writes for messages; and ICSP's scenes, as by `headline`.
"""

import argparse
import json
import tempfile
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from polydom.indexer.index.built_facts import exits_of
from polydom.server.engine.loading import load_index
from polydom.server.evaluation.labelled_items import read_labelled
from polydom.server.runtime.translator import AtOnce
from polydom.server.runtime.warm_up import open_translator
from polydom.server.schema.wire import Terms
from polydom.server.settings import Settings

from .. import report
from ..learners.default_sets import QUICK, SETS, DefaultSet, Items, cut
from ..learners.defaults import ENDINGS, Kind, build_default, write_items
from .indexes.image_sets import prepare
from .one_by_one import body_of
from .open_loop import Connection
from .served import serving

ASKED, WARM, QUICK_ASKED = 3000, 300, 20
QUICK_ITEMS = 90
TOO_SMALL_MS = (0.0, 0.01, 0.02)
ENOUGH_MS = 50.0


class Case(NamedTuple):
    """An index, payloads that its build has not seen, and budgets to ask within."""

    path: Path
    kind: str
    payloads: list[Any]
    budgets_ms: tuple[float, ...]


class Table(NamedTuple):
    """A project that `polydom init` writes, and what is changed in it."""

    kind: Kind
    given: DefaultSet
    learner: dict[str, Any] | None
    budgets_ms: tuple[float, ...]


ADULT, MESSAGES = SETS["tables"]["adult"], SETS["texts"]["messages"]
TABLES = {
    "table": Table("tables", ADULT, None, (1.0, 50.0)),
    "lightgbm": Table(
        "tables", ADULT, {"name": "lightgbm", "n_estimators": 500}, (1.0, 50.0)
    ),
    "forest": Table(
        "tables", ADULT, {"name": "forest", "n_estimators": 200}, (1.0, 50.0)
    ),
    "texts": Table("texts", MESSAGES, None, (0.5, 1.0, 50.0)),
}
WINE = Table("tables", QUICK["tables"]["wine"], {"name": "naive_bayes"}, (50.0,))
IMAGES_MS = (3.0, 5.0, 50.0)


def build_table(name: str, table: Table, folder: Path, quick: bool) -> Case:
    """Build the index of a table or of texts, if it is not in the folder."""
    own, kept = table.given.load()
    if quick:
        own, kept = cut(own, QUICK_ITEMS), cut(kept, QUICK_ITEMS // 3)
    place = folder / name
    place.mkdir(exist_ok=True)
    path = place / "own.pdx"
    if not path.exists():
        (place / "PROJECT.toml").unlink(missing_ok=True)  # of a build that did not end
        build_default(table.kind, own, 0, place, quick, learner=table.learner)
    return Case(path, *_payloads(path, table.kind, kept, place), table.budgets_ms)


def _payloads(
    path: Path, kind: Kind, kept: Items, folder: Path
) -> tuple[str, list[Any]]:
    """Items as the index takes them; its kind of items comes first."""
    file = folder / f"kept{ENDINGS[kind]}"
    write_items(kind, kept, file)
    index, package = load_index(path)
    items = read_labelled(file, index, package, whole=True).items
    return package.kind, [one.payload for one in items]


def build_images(folder: Path, asked: int, quick: bool) -> Case:
    """Build the index of scenes; of a few digits if `quick`."""
    images = prepare("few" if quick else "scenes", folder, asked)
    payloads = [item.payload for item in images.items]
    return Case(images.path, "image", payloads, IMAGES_MS[:: 3 if quick else 1])


def requests_of(case: Case, budget_ms: float) -> list[bytes]:
    """Whole requests for all payloads: images as they are, other items as JSON."""
    requests = []
    for payload in case.payloads:
        query, kind, body = "", "application/json", payload
        if case.kind == "image":
            query, kind = f"?budget_ms={budget_ms}", "application/octet-stream"
        else:
            body = body_of(case.kind, payload, budget_ms)
        head = (
            f"POST /v1/predict{query} HTTP/1.1\r\nhost: x\r\ncontent-type: {kind}\r\n"
            f"content-length: {len(body)}\r\n\r\n"
        )
        requests.append(head.encode() + body)
    return requests


def ask(port: int, requests: Sequence[bytes], count: int) -> list[dict[str, Any]]:
    """Send so many requests, one after the other; their answers."""
    connection, answers = Connection(port), []
    with connection.socket:
        for number in range(count):
            connection.send(requests[number % len(requests)], number, 0.0)
            exchange = None
            while exchange is None:
                exchange = connection.receive()
            answers.append(json.loads(exchange.body))
    return answers


def line(answers: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """What is told of the answers within one budget."""
    actual, predicted = (
        np.array([answer[key] for answer in answers])
        for key in ("actual_us", "predicted_us")
    )
    return {
        "answers": len(answers),
        "kept": float((actual <= predicted).mean()),
        "x": float(np.median(predicted / actual)),
        "predicted us": float(np.median(predicted)),
        "actual us": float(np.median(actual)),
        "p98 us": float(np.quantile(actual, 0.98)),
        "prior": float(np.mean([not answer["features"] for answer in answers])),
    }


def over_http(case: Case, asked: int) -> dict[float, dict[str, Any]]:
    """Ask a server within each of the case's budgets."""
    found = {}
    with serving(case.path, Settings()) as port:
        for budget_ms in case.budgets_ms:
            requests = requests_of(case, budget_ms)
            ask(port, requests, min(WARM, asked))
            found[budget_ms] = line(ask(port, requests, asked))
    report.unpin()
    return found


def too_small(case: Case, asked: int) -> dict[str, Any]:
    """Microseconds of answers in this process, within budgets too small and enough."""
    translator = open_translator(case.path, [])
    at_once, now = AtOnce(translator), translator.planner.now
    found: dict[str, Any] = {}
    for budget_ms in (*TOO_SMALL_MS, ENOUGH_MS):
        terms, took_s = Terms(budget_ms=budget_ms), []
        for number in range(asked + min(WARM, asked)):
            payload = case.payloads[number % len(case.payloads)]
            began_s = now()
            at_once.answer(terms, payload)
            took_s.append(now() - began_s)
        found[f"{budget_ms:g} ms"] = float(np.median(took_s[-asked:])) * 1e6
    return found


def exits(path: Path) -> dict[str, Any]:
    """What a build says of its exits."""
    index, package = load_index(path)
    told = exits_of(package.meta)
    if told is None:
        return {"plans": len(package.masks), "with exits": 0}
    best = told.plans[int(index.qualities.argmax())]
    facts: dict[str, Any] = {
        "plans": len(told.plans),
        "with exits": sum(bool(plan.schedule or plan.early) for plan in told.plans),
    }
    if best.call is not None and best.gain is not None:
        facts["a call, us"] = best.call * 1e6
        facts["saved, us"] = best.gain * 1e6
        facts["share"] = best.gain / best.call
    return facts


def main(arguments: list[str] | None = None) -> None:
    """Run the benchmark."""
    parser = report.options(__name__, data=True)
    parser.add_argument("--asked", type=int, default=ASKED, help="answers per budget")
    parser.add_argument("--cache", type=Path, help="keep the indexes here")
    parser.add_argument("--only", nargs="+", metavar="NAME", help="leave others out")
    given = parser.parse_args(arguments)
    asked = QUICK_ASKED if given.quick else given.asked
    if not given.quick:
        report.need(given, "adult", "sms_spam", "scene15")
    kept: list[dict[str, Any]] = []
    small: dict[str, dict[str, Any]] = {}
    stops: dict[str, dict[str, Any]] = {}
    with tempfile.TemporaryDirectory() as made:
        folder = given.cache or Path(made)
        folder.mkdir(parents=True, exist_ok=True)
        for name, make in cases(given, folder, asked).items():
            if name in (given.only or [name]):
                case = make()
                for budget_ms, told in over_http(case, asked).items():
                    kept.append({"index": name, "budget ms": budget_ms, **told})
                small[name] = too_small(case, asked)
                stops[name] = exits(case.path)
    facts = {"predicted": kept, "in this process, us": small, "exits": stops}
    report.tell(facts, given)


def cases(
    given: argparse.Namespace, folder: Path, asked: int
) -> dict[str, Callable[[], Case]]:
    """Functions that build each case, by its name."""
    quick = given.quick
    tables = {"table": WINE} if quick else TABLES
    made: dict[str, Callable[[], Case]] = {
        name: partial(build_table, name, table, folder, quick)
        for name, table in tables.items()
    }
    return made | {"images": partial(build_images, folder, asked, quick)}
