"""Answers of a real server by an ensemble of many trees, within small budgets."""

import json
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from polydom.indexer.building.project_tables.exits import ExitTerms
from polydom.server.engine.loading import load_index
from polydom.server.evaluation.labelled_items import LabelledItem, read_labelled
from polydom.server.settings import Settings

from .. import report
from ..learners.default_sets import QUICK, SETS, cut
from ..learners.defaults import build_default, write_items
from ..serving.one_by_one import body_of
from ..serving.open_loop import Connection
from ..serving.served import serving

BUDGETS_MS = (0.05, 0.1, 0.2, 0.5)
TREES, QUICK_TREES = 500, 24
WARM = 300  # answers that are not counted
LEARNERS: dict[str, dict[str, Any]] = {
    "forest": {"name": "forest", "n_estimators": TREES},
    "LightGBM": {"name": "lightgbm", "n_estimators": TREES, "learning_rate": 0.05},
}
HEAD = (
    "POST /v1/predict HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n"
    "content-length: {}\r\n\r\n"
)


class Asked(NamedTuple):
    """One answer, and what it took."""

    right: bool
    bought: bool  # Whether it is from a model, and not the prior
    elapsed_ms: float  # From the request's first byte to the answer, by the server
    waited_ms: float  # From sending the request to having the answer, by the client


def ask(port: int, items: Sequence[LabelledItem], budget_ms: float) -> list[Asked]:
    """Ask for each item over one kept connection, one after the other."""
    connection, found = Connection(port), list[Asked]()
    with connection.socket:
        for number, item in enumerate(items):
            body = body_of("record", item.payload, budget_ms)
            connection.send(HEAD.format(len(body)).encode() + body, number, 0.0)
            exchange = None
            while exchange is None:
                exchange = connection.receive()
            answer = json.loads(exchange.body)
            found.append(
                Asked(
                    answer["label"] == item.label,
                    bool(answer["features"]),
                    answer["elapsed_us"] / 1e3,
                    (exchange.done_s - exchange.sent_s) * 1e3,
                )
            )
    return found


def told(answers: Sequence[Asked], budget_ms: float) -> dict[str, float]:
    """What is told of the answers within one budget."""
    right, bought, elapsed_ms, waited_ms = (np.array(own) for own in zip(*answers))  # noqa: B905
    here, there = elapsed_ms <= budget_ms, waited_ms <= budget_ms
    return {
        "budget ms": budget_ms,
        "bought": float(bought.mean()),
        "right": float(right.mean()),
        "in time": float(here.mean()),
        "right, in time": float((right & here).mean()),
        "in time for the client": float(there.mean()),
        "right, for the client": float((right & there).mean()),
        "elapsed us": float(np.median(elapsed_ms)) * 1e3,
        "waited us": float(np.median(waited_ms)) * 1e3,
    }


def over_http(tested: int, folder: Path | None, quick: bool) -> list[dict[str, Any]]:
    """Build indexes of Adult, or of little if `quick`, and ask servers for rows."""
    found: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as made:
        for name, learner in LEARNERS.items():
            place = (folder or Path(made)) / name
            place.mkdir(parents=True, exist_ok=True)
            path, items = _built(learner, place, quick)
            with serving(path, Settings()) as port:
                for budget_ms in BUDGETS_MS:
                    ask(port, items[:WARM], budget_ms)
                    answers = ask(port, items[:tested], budget_ms)
                    found.append({"model": name} | told(answers, budget_ms))
            report.unpin()
    return found


def _built(
    learner: dict[str, Any], place: Path, quick: bool
) -> tuple[Path, list[LabelledItem]]:
    """An index, built unless it is in the folder, and items it has not seen."""
    own, kept = (QUICK if quick else SETS)["tables"][
        "wine" if quick else "adult"
    ].load()
    path, file = place / "own.pdx", place / "kept.csv"
    if quick:
        own, kept = cut(own, 90), cut(kept, 30)
        learner = learner | {"n_estimators": QUICK_TREES}
    if not path.exists():
        (place / "PROJECT.toml").unlink(missing_ok=True)  # of a build that did not end
        exits = ExitTerms(alpha=0.005)
        build_default("tables", own, 0, place, quick, learner=learner, exits=exits)
    write_items("tables", kept, file)
    index, package = load_index(path)
    return path, read_labelled(file, index, package, whole=True).items
