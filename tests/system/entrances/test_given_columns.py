"""A record is answered by what it has: the tutorial's tumours, some groups withheld.

Whatever groups of columns came, the answer is by the best set that needs no others, and
claims what that set does; a larger budget buys no worse. So it is at every entrance.
"""

import csv
import http.client
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import msgpack
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import tritonclient.grpc as triton
from pyarrow import parquet

from polydom.indexer import BudgetClassifier, Index
from polydom.server import Client, Scorer, score_items
from polydom.server.batch.batch_plan import BatchPlan
from polydom.server.cli.asking.predict import line_of
from polydom.server.runtime.translator import AtOnce
from polydom.server.runtime.warm_up import open_translator
from polydom.server.schema.wire import Answer, Entry, Terms
from tests.support.builds.tumours import (
    GROUPS,
    PATTERNS,
    held_out,
    make_project,
    record_of,
)
from tests.support.oracles.given import Drawn, best_with_one_more
from tests.support.processes.commands import run
from tests.support.processes.servers import ask, serving

pytestmark = pytest.mark.jit

BUDGETS = (0.0, 1.9, 2.0, 5.0, 7.0, 12.0, 15.0, 17.0, 20.0, 25.0, 35.0, 40.0, 1000.0)
FEW = (0.0, 2.0, 12.0, 40.0)
ALONE = [1 << k for k in range(len(GROUPS))]
NOISE = 0.09  # of a share of 150 rows: more than two standard errors


class Said(NamedTuple):
    """What all entrances say of an answer."""

    label: str | None
    features: tuple[str, ...]
    quality: float
    reason: str | None = None
    best_next: tuple[str, ...] = ()


def said(answer: Answer) -> Said:
    best_next = answer.best_next.columns if answer.best_next else ()
    named = answer.features, answer.expected_quality, answer.reason, best_next
    return Said(answer.label, *named)


def said_of(plain: dict[str, Any]) -> Said:
    best_next = plain.get("best_next") or {"columns": ()}
    assert not plain.get("missing")
    named = plain["features"], best_next["columns"]
    features, columns = (tuple(names) for names in named)
    quality, reason = plain["expected_quality"], plain.get("reason")
    return Said(plain["label"], features, quality, reason, columns)


class Scene:
    """An index, what it says in this process, and a server of it."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.path = folder, make_project(folder)
        self.rows = held_out(folder)
        index = Index.load(self.path)
        assert index.package is not None
        names = [feature.name for feature in index.package.features]
        self.bits = {name: 1 << names.index(name) for name in GROUPS}
        costs = [index.cost_s(row, 1.0) for row in range(len(index.qualities))]
        masks = [int(mask) for mask in index.package.masks]
        self.drawn = Drawn(masks, costs, index.qualities.tolist())
        self.at_once = AtOnce(open_translator(self.path, []))

    def withheld(self, groups: tuple[str, ...]) -> int:
        return sum(bit for name, bit in self.bits.items() if name not in groups)

    def answer(self, groups: tuple[str, ...], budget: float, row: int = 0) -> Answer:
        record = record_of(self.rows[row], groups)
        return self.at_once.answer(Terms(budget=budget), record)

    def accuracy(self, answers: list[Answer]) -> float:
        """Share of the rows that were answered right."""
        labels = (row["label"] for row in self.rows)
        right = [a.label == label for a, label in zip(answers, labels, strict=True)]
        return float(np.mean(right))

    def expected(self, groups: tuple[str, ...], budget: float) -> Said:
        return said(self.answer(groups, budget))


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Scene:
    return Scene(tmp_path_factory.mktemp("tumours"))


@pytest.fixture(scope="module")
def ports(scene: Scene) -> Iterator[tuple[int, int]]:
    """Those of a server, for HTTP and for gRPC."""
    with serving(scene.path, "--grpc-port=0", wait=False) as (process, port):
        found = re.search(r"serving gRPC at .*:(\d+)", process.stdout.readline())
        assert found
        with Client(f"http://127.0.0.1:{port}") as client:
            client.wait_ready()
        yield port, int(found[1])


@pytest.mark.parametrize("groups", PATTERNS, ids="+".join)
def test_the_best_set_of_what_came_answers_and_claims_what_it_does(
    groups: tuple[str, ...], scene: Scene
) -> None:
    """As trying every set says; on rows never seen it is about as good as it claims."""
    withheld = scene.withheld(groups)
    left, reached = scene.drawn.without(withheld), 0.0
    measured = list[float]()
    for budget in BUDGETS:
        answers = [scene.answer(groups, budget, k) for k in range(len(scene.rows))]
        assert len({said(answer)[1:] for answer in answers}) == 1
        first = answers[0]
        claimed = first.expected_quality
        assert claimed == left.best(budget) >= reached
        used = sum(scene.bits[name] for name in first.features)
        assert not used & withheld
        assert isinstance(first.predicted, float)
        assert first.predicted <= budget
        wanted = best_with_one_more(scene.drawn, withheld, budget, ALONE)
        if wanted > claimed:
            assert first.best_next
            assert first.best_next.expected_quality == wanted
            assert first.best_next.columns in map(tuple, GROUPS.values())
        else:
            best = scene.drawn.best(budget)
            assert bool(first.best_next) == (best > claimed)
        right = scene.accuracy(answers)
        assert right == pytest.approx(claimed, abs=NOISE)
        assert right >= max(measured, default=0.0) - NOISE / 2
        measured.append(right)
        reached = claimed


def test_with_the_columns_named_the_same_budget_buys_what_was_said(
    scene: Scene,
) -> None:
    for groups in PATTERNS:
        for budget in BUDGETS:
            best_next = scene.answer(groups, budget).best_next
            if best_next:
                given = [
                    g for g, own in GROUPS.items() if {*own} & {*best_next.columns}
                ]
                more = scene.answer((*groups, *given), budget)
                assert more.expected_quality == best_next.expected_quality


def test_server_says_the_same_over_http(scene: Scene, ports: tuple[int, int]) -> None:
    with Client(f"http://127.0.0.1:{ports[0]}") as client:
        for groups in PATTERNS:
            record = record_of(scene.rows[0], groups)
            for budget in BUDGETS:
                answer = client.predict(record, budget=budget)
                assert said(answer) == scene.expected(groups, budget)
    record = record_of(scene.rows[0], ("outline",))
    body = json.dumps({"record": record, "budget": 40.0}).encode()
    _, plain = ask(ports[0], "POST", "/v1/predict", body)
    assert said_of(plain) == scene.expected(("outline",), 40.0)
    assert plain["reason"] == "missing"


def test_server_says_the_same_over_the_open_inference_protocol(
    scene: Scene, ports: tuple[int, int]
) -> None:
    grpc = triton.InferenceServerClient(f"127.0.0.1:{ports[1]}")
    outputs = ["label", "features", "best_next", "reason", "expected_quality"]
    for groups in PATTERNS[1:]:
        record = record_of(scene.rows[0], groups)
        for budget in FEW:
            expected = scene.expected(groups, budget)
            tensors = [
                {"name": name, "shape": [1], "datatype": "FP64", "data": [value]}
                for name, value in record.items()
            ]
            asked = {"inputs": tensors, "parameters": {"budget": budget}}
            asked["outputs"] = [{"name": name} for name in outputs]
            body = json.dumps(asked).encode()
            _, reply = ask(ports[0], "POST", "/v2/models/rows/infer", body)
            outs: Any = reply["outputs"]
            label, features, best_next, reason, quality = (o["data"][0] for o in outs)
            told = tuple(filter(None, features.split(",")))
            columns = tuple(filter(None, best_next.split(",")))
            assert Said(label, told, quality, reason or None, columns) == expected
            parameters: Any = reply["parameters"]
            assert parameters.get("best_next", "") == ",".join(expected.best_next)
            inputs = [triton.InferInput(name, [1], "FP64") for name in record]
            for tensor, value in zip(inputs, record.values(), strict=True):
                tensor.set_data_from_numpy(np.array([value]))
            wanted = [triton.InferRequestedOutput(name) for name in outputs[:3]]
            found = grpc.infer(
                "rows", inputs, outputs=wanted, parameters={"budget": budget}
            )
            first = [found.as_numpy(name)[0].decode() for name in outputs[:3]]
            assert first == [label, features, best_next]


@pytest.mark.parametrize("packed", [False, True], ids=["json", "msgpack"])
def test_a_batch_is_answered_by_what_each_item_has(
    packed: bool, scene: Scene, ports: tuple[int, int]
) -> None:
    """Within one total; a larger one buys no worse."""
    records = [record_of(scene.rows[0], groups) for groups in PATTERNS]
    reached = 0.0
    for each in FEW:
        items = [{"record": record} for record in records]
        total, query = each * len(records), f"budget={each * len(records)}"
        query += f"&count={len(records)}"
        body = b"".join(map(msgpack.packb, items))
        kind = "application/msgpack" if packed else "application/json"
        if not packed:
            query, body = "", json.dumps({"items": items, "budget": total}).encode()
        entries = batch_of(ports[0], query, body, kind)
        entries, totals = entries[:-1], entries[-1]
        for groups, entry in zip(PATTERNS, entries, strict=True):
            check_sets(scene, groups, entry)
        assert totals["spent"] <= total
        assert totals["expected_quality"] >= reached
        reached = totals["expected_quality"]
    for groups, entry in zip(PATTERNS, entries, strict=True):
        assert said_of(entry)[:3] == scene.expected(groups, 1000.0)[:3]


def batch_of(port: int, query: str, body: bytes, kind: str) -> list[dict[str, Any]]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    headers = {"content-type": kind}
    connection.request("POST", f"/v1/batch?{query}", body, headers)
    reply = connection.getresponse().read()
    connection.close()
    if "json" in kind:
        plain = json.loads(reply)
        return [*plain["answers"], plain["totals"]]
    unpacker = msgpack.Unpacker()
    unpacker.feed(reply)
    return list(unpacker)


def check_sets(scene: Scene, groups: tuple[str, ...], entry: dict[str, Any]) -> None:
    """What answered came, and claims what it is good for."""
    used = sum(scene.bits[name] for name in entry["features"] or ())
    assert not used & scene.withheld(groups)
    quality = scene.drawn.qualities[scene.drawn.masks.index(used)]
    assert entry["expected_quality"] == quality
    assert not entry.get("missing")


def test_clients_batches_are_answered_by_what_each_item_has(
    scene: Scene, ports: tuple[int, int]
) -> None:
    records = [record_of(scene.rows[0], groups) for groups in PATTERNS]
    with Client(f"http://127.0.0.1:{ports[0]}") as client:
        *entries, _ = client.predict_batch(records, total_budget=1e4)
    for groups, entry in zip(PATTERNS, entries, strict=True):
        assert isinstance(entry, Entry)
        assert said(entry)[:3] == scene.expected(groups, 1000.0)[:3]


def test_commands_answer_a_file_by_what_it_has(
    scene: Scene, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    paths = [tmp_path / f"{k}.json" for k in range(len(PATTERNS))]
    for path, groups in zip(paths, PATTERNS, strict=True):
        path.write_text(json.dumps(record_of(scene.rows[0], groups)))
    for budget in FEW:
        options = "--json", "--budget", budget
        code, out, _ = run(capsys, "predict", scene.path, *paths, *options)
        assert code == 0
        for groups, line in zip(PATTERNS, out.splitlines(), strict=True):
            assert said_of(json.loads(line)) == scene.expected(groups, budget)
    package = Index.load(scene.path).package
    assert package is not None
    words = line_of(Path("x"), scene.answer(("outline",), 12), package)
    assert "by outline; expected accuracy 0.87" in words
    assert "columns that are missing would buy a better model" in words
    assert "most would help: smoothness, symmetry (0.9" in words


@pytest.mark.parametrize("groups", PATTERNS[1:-1:4], ids="+".join)
def test_a_table_that_lacks_columns_is_scored_by_what_it_has(
    groups: tuple[str, ...],
    scene: Scene,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A total holds though all items lack the same; that is said once."""
    records = [record_of(row, groups) for row in scene.rows]
    lacking = [n for g, own in GROUPS.items() if g not in groups for n in own]
    table, count = tmp_path / "rows.parquet", len(records)
    parquet.write_table(pa.Table.from_pylist(records), table)
    reached = {"items": 0.0, "parts": 0.0}
    for each in (2.0, 12.0, 1000.0):
        most = scene.drawn.without(scene.withheld(groups)).best(each)
        items = [*score_items(scene.path, records, total_budget=each * count)]
        out = tmp_path / f"out-{each}"
        total = "--total-budget", each * count
        code, _, err = run(
            capsys, "score-parts", scene.path, table, "-o", f"{out}/", *total
        )
        assert code == 0
        assert err.count("in no row looked at") == 1
        assert lacking[0] in err
        parts: list[dict[str, Any]] = parquet.read_table(out).to_pylist()
        plain = [
            {name: getattr(row, name) for name in ("features", *SCORED)}
            for row in items
        ]
        for way, rows in (("items", plain), ("parts", parts)):
            for row in rows:
                check_sets(scene, groups, row)
            assert sum(row["cost"] for row in rows) <= each * count * (1 + 1e-9)
            mean = float(np.mean([row["expected_quality"] for row in rows]))
            assert mean >= reached[way]
            reached[way] = mean
    assert reached["items"] == reached["parts"] == pytest.approx(most)


SCORED = ("label", "expected_quality", "cost", "missing")


def test_a_scorer_answers_each_row_by_what_it_has(scene: Scene) -> None:
    records = [record_of(scene.rows[0], groups) for groups in PATTERNS]
    plan = BatchPlan.of(scene.path, [1.0], count=len(records), total_cost=1e4)
    for scorer in (
        Scorer(scene.path, plan=plan),
        Scorer(scene.path, item_budget=1000.0),
    ):
        for groups, row in zip(PATTERNS, scorer(records), strict=True):
            features, quality = tuple(row["features"]), row["expected_quality"]
            found = Said(row["label"], features, quality)
            assert found[:3] == scene.expected(groups, 1000.0)[:3]


@pytest.mark.parametrize("groups", PATTERNS[1:-1:2], ids="+".join)
def test_a_plan_for_some_columns_keeps_to_its_total(
    groups: tuple[str, ...], scene: Scene
) -> None:
    """A frame is answered by it wherever, and costs what was planned."""
    records = [record_of(row, groups) for row in scene.rows]
    columns = ["id", *records[0]]
    for each in (2.0, 6.0, 12.0, 1000.0):
        total = each * len(records)
        plan = BatchPlan.of(
            scene.path, [1.0], count=len(records), total_cost=total, columns=columns
        )
        rows = Scorer(scene.path, plan=plan)(records)
        spent, quality = (
            float(np.mean([row[name] for row in rows]))
            for name in ("cost", "expected_quality")
        )
        # who takes a step worth just the price, of 20 usd at most, is drawn
        assert spent == pytest.approx(plan.expected_cost, abs=30 / len(rows) ** 0.5)
        assert quality == pytest.approx(plan.expected_quality, abs=0.04)
        assert plan.expected_cost <= each


@pytest.mark.parametrize("groups", [("outline",), ("texture", "shape")], ids="+".join)
def test_evaluate_says_how_good_a_file_is_answered_that_lacks_columns(
    groups: tuple[str, ...],
    scene: Scene,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    test = tmp_path / "test.csv"
    names = [name for group in groups for name in GROUPS[group]]
    with test.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow([*names, "label"])
        writer.writerows(
            [row[name] for name in (*names, "label")] for row in scene.rows
        )
    options = "--budgets", "2,12,40", "--json"
    code, out, err = run(capsys, "evaluate", scene.path, test, *options)
    assert code == 0
    assert "the index knows, in no row" in err
    plain = json.loads(out)
    for found, budget in zip(plain["budgets"], (2.0, 12.0, 40.0), strict=True):
        answers = [scene.answer(groups, budget, k) for k in range(len(scene.rows))]
        assert found["accuracy"] == pytest.approx(scene.accuracy(answers))
        assert found["expected_quality"] == pytest.approx(answers[0].expected_quality)
    fixed = {one["name"]: one["features"] for one in plain["beside"]}
    for name in ("cheapest plan", "largest plan"):
        if name in fixed:
            assert {*fixed[name]} <= {*groups}


def test_who_wants_an_error_is_told_which_features_lack_columns(
    scene: Scene, ports: tuple[int, int]
) -> None:
    asked = {"record": {"radius": 17.6}, "budget": 40.0, "on_infeasible": "error"}
    body = json.dumps(asked).encode()
    status, reply = ask(ports[0], "POST", "/v1/predict", body)
    assert (status, reply["code"]) == (400, "bad_item")
    assert str(reply["error"]).endswith("answered: give those of shape")
    for terms in ({"on_infeasible": "cheapest"}, {"on_infeasible": "prior"}):
        body = json.dumps(asked | terms | {"min_quality": 0.9}).encode()
        _, reply = ask(ports[0], "POST", "/v1/predict", body)
        assert (reply["features"], reply["reason"]) == ([], "missing")
    # nothing at all is a matter of the budget, whatever came
    body = json.dumps(asked | {"budget": 1.0}).encode()
    status, reply = ask(ports[0], "POST", "/v1/predict", body)
    assert (status, reply["code"]) == (504, "nothing_fits")
    assert "below the cheapest model's 2 usd" in str(reply["error"])


def test_a_group_of_which_a_column_is_missing_is_not_there(scene: Scene) -> None:
    """No model knows what it is: none was trained on such a row."""
    record = record_of(scene.rows[0], ("outline", "texture"))
    del record["radius"]
    answer = scene.at_once.answer(Terms(budget=40.0), record)
    assert answer.features == ("texture",)
    answer = scene.at_once.answer(Terms(budget=4.0), record)
    assert (answer.features, answer.reason) == ((), "missing")
    assert answer.best_next
    assert answer.best_next.columns == ("radius",)


def test_estimators_answer_each_row_by_what_it_has(scene: Scene) -> None:
    """As a server of the same index does, whatever the rows come in."""
    costs = {"radius": 2, "texture": 5, "smoothness": 10, "concavity": 20}
    names = [*costs]
    rows = np.array([[float(row[name]) for name in names] for row in scene.rows])
    labels = [row["label"] for row in scene.rows]
    fitted = BudgetClassifier(
        costs=costs, learner="logistic", search_budget_s=0.3, random_state=0
    ).fit(pd.DataFrame(rows, columns=names), labels)
    at_once = AtOnce(open_translator(fitted.index_, []))
    draw = np.random.default_rng(0)
    rows[draw.random(rows.shape) < 0.4] = np.nan
    records: list[dict[str, Any]] = [
        {n: value for n, value in zip(names, row, strict=True) if value == value}
        for row in rows.tolist()
    ]
    given = [record or {"radius": None} for record in records]
    for budget in (1.0, 8.0, 15.0, 1000.0):
        terms = Terms(budget=budget)
        expected = [at_once.answer(terms, record).label for record in given]
        frame = pd.DataFrame(rows, columns=names)
        assert fitted.predict(frame, budget=budget).tolist() == expected
        assert fitted.predict(given, budget=budget).tolist() == expected
