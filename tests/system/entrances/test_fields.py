"""Which fields an answer has: the same ones, whatever plan answers, at every way out.

One rule: `label`, `scores` and `reason` are in every answer. `threshold` is in every
answer of an index that decides by one, and of a request that brings its own, and in no
other. `early` is true of an early answer and of no other; answers in JSON leave it out
where it is false, columns and tensors have it.
"""

import csv
import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgpack
import numpy as np
import pytest

from polydom.features.items import record_item
from polydom.indexer.index.index import Index
from polydom.server.batch.batch_budget import Answered
from polydom.server.client.messages import read_answer
from polydom.server.engine.budget import MoneyBudget
from polydom.server.engine.executions.execution import execute
from polydom.server.engine.executions.plan_execution import PlanExecution
from polydom.server.engine.planning.planner import Planner
from polydom.server.engine.request import Outcome, Request
from polydom.server.offline_scoring.output_file import PartialOutput
from polydom.server.offline_scoring.output_row import row_of
from polydom.server.oip.service import _facts
from polydom.server.oip.tensor_items import Items, Requested
from polydom.server.runtime.translator import Translator
from polydom.server.schema.wire import Answer, encode, encode_msgpack
from polydom.server.settings import Settings
from polydom.server.v1.batch_reply import entry_of
from tests.support.indexes.stopping_records import (
    draw_rows,
    make_ladder_index,
    record_of,
)

THRESHOLD = 0.375
PRIOR, CHEAP, BEST, RUNG = range(4)
ROWS = draw_rows(300, 2)


class Case:
    """An index, and what became of a request to it."""

    def __init__(self, index: Index, kind: str) -> None:
        package = index.package
        assert package is not None
        follower = package.early_exits[BEST]
        assert follower is not None
        self.planner = Planner(index, package.extractor(), corrects=False)
        self.translator = Translator(self.planner, Settings())
        _, used = follower.choices(ROWS)
        at = used < follower.size
        row = ROWS[np.flatnonzero(at if kind in ("early", "exact") else ~at)[0]]
        terms: Any = {
            "exact": {"exact": True},
            "own": {"exact": True, "threshold": 0.25},
        }
        self.request = Request(
            record_item(record_of(row)), MoneyBudget(1.0), **terms.get(kind, {})
        )
        self.outcome = self._carry_out(kind)
        self.answer = self.translator.answer(self.request, self.outcome)

    def _carry_out(self, kind: str) -> Outcome:
        planner, request, now_s = self.planner, self.request, self.planner.now()
        if kind in ("early", "whole", "exact", "own"):
            return execute(planner, request)
        rows = {"prior": PRIOR, "cheap": CHEAP, "rung": RUNG}
        choice = planner.choose_row(rows[kind], request, now_s)
        return PlanExecution(planner, request, choice, now_s).run()


def in_json(case: Case, folder: Path) -> Any:
    return json.loads(encode(case.answer))


def in_msgpack(case: Case, folder: Path) -> Any:
    return msgpack.unpackb(encode_msgpack(case.answer))


def in_batches(case: Case, folder: Path) -> Any:
    return json.loads(encode(entry_of(7, case.answer)))


def by_clients(case: Case, folder: Path) -> Any:
    answer = read_answer(200, encode(case.answer))
    assert isinstance(answer, Answer)
    return json.loads(encode(answer))


def in_parameters(case: Case, folder: Path) -> Any:
    """Of the Open Inference Protocol, which has label and scores as tensors."""
    facts: Any = _facts([case.answer], True, {})
    plain = json.loads(encode(case.answer))
    facts |= {name: plain[name] for name in ("label", "scores")}
    facts.setdefault("reason", None)  # a parameter cannot be null
    if "threshold" in facts:
        facts["threshold"] = {"yes": facts["threshold"]}
    return facts


def in_tensors(case: Case, folder: Path) -> Any:
    items = Items(case.planner.package)
    names = [facts.name for facts in items.outputs]
    wanted = [Requested(name) for name in names]
    tensors = items.write([case.answer], True, wanted)
    facts: Any = {tensor.name: tensor.values[0] for tensor in tensors}
    facts["scores"] = dict(zip(("no", "yes"), tensors[1].values, strict=True))
    facts["reason"] = facts["reason"] or None
    if "threshold" in facts:
        facts["threshold"] = {"yes": facts["threshold"]}
    return facts


def scored(case: Case, folder: Path, ending: str) -> Path:
    result = Answered(0, case.request.item, case.outcome)
    row = row_of(case.translator, result)
    row.item = "0"
    with PartialOutput(folder / f"out{ending}", {}, resume=False) as partial:
        partial.add(row)
        partial.finish()
    return folder / f"out{ending}"


def in_lines(case: Case, folder: Path) -> Any:
    return json.loads(scored(case, folder, ".jsonl").read_text())


def in_csv(case: Case, folder: Path) -> Any:
    text = scored(case, folder, ".csv").read_text()
    (row,) = csv.DictReader(io.StringIO(text))
    facts: Any = row | {"reason": row["reason"] or None}
    facts |= {name: json.loads(row[name] or "null") for name in ("scores", "threshold")}
    return facts | {"early": {"True": True, "False": False}[row["early"]]}


def in_parquet(case: Case, folder: Path) -> Any:
    parquet = pytest.importorskip("pyarrow.parquet")
    (row,) = parquet.read_table(scored(case, folder, ".parquet")).to_pylist()
    maps = ("scores", "threshold")
    return row | {name: row[name] and dict(row[name]) for name in maps}


WAYS: list[Callable[[Case, Path], Any]] = [
    in_json,
    in_msgpack,
    in_batches,
    by_clients,
    in_parameters,
    in_tensors,
    in_lines,
    in_csv,
    in_parquet,
]
KINDS = {
    "early": (BEST, "sure", True),
    "whole": (BEST, None, False),
    "exact": (BEST, None, False),
    "prior": (PRIOR, "budget", False),
    "cheap": (CHEAP, "budget", None),  # may be early, too
    "rung": (RUNG, "budget", None),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("kind", KINDS)
def test_fields_do_not_depend_on_what_answers(
    kind: str, way: Callable[[Case, Path], Any], tmp_path: Path
) -> None:
    row, reason, early = KINDS[kind]
    for threshold in (None, THRESHOLD):
        case = Case(make_ladder_index(2, threshold), kind)
        assert case.outcome.row == row
        facts = way(case, tmp_path)
        assert facts["label"] == case.outcome.label
        assert facts["scores"] == case.outcome.scores
        assert facts["scores"].keys() == {"no", "yes"}
        assert facts["reason"] == reason
        assert facts.get("early", False) == case.outcome.early
        if early is not None:
            assert case.outcome.early == early
        own = facts.get("threshold")
        assert (own is None) == (threshold is None)
        if own is not None:
            # the prior chooses its larger share
            assert own == {"yes": 0.5 if row == PRIOR else threshold}
            assert (facts["scores"]["yes"] >= own["yes"]) == (facts["label"] == "yes")


@pytest.mark.parametrize("way", [in_json, in_msgpack, in_batches, by_clients])
@pytest.mark.parametrize("threshold", [None, THRESHOLD])
def test_a_threshold_of_a_request_is_told(
    threshold: float | None, way: Callable[[Case, Path], Any], tmp_path: Path
) -> None:
    facts = way(Case(make_ladder_index(2, threshold), "own"), tmp_path)
    assert facts["threshold"] == {"yes": 0.25}
