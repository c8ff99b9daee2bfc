"""Columns of free text beside others, from a table to answers at every entrance."""

import csv
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from polydom.features.errors import BadFeature, BadIndexFile, BadInput
from polydom.features.items import record_item
from polydom.indexer import BudgetClassifier, Index, build
from polydom.indexer.index.file.pdx_file import read_file
from polydom.indexer.index.machine_speed import MachineFactors
from polydom.server import Scorer, score_items
from tests.support.edited_files.edits import sealed
from tests.support.processes.commands import run
from tests.support.processes.servers import ask, serving

pytestmark = pytest.mark.jit

WORDS = {"work": ["report", "budget", "project"], "home": ["party", "garden", "dog"]}
COMMON = ["the", "a", "to", "and", "we", "of", "it", "is"]
USE = [
    f"{column}: {name}"
    for column in ("subject", "body")
    for name in ("text_length", "learned_words", "mine")
]
PROJECT = f"""\
seed = 1
workers = 1
exits = "off"

[data]
table = "mail.csv"

[features]
use = {json.dumps(USE)}
files = ["mine.py"]
others = true

[learner]
name = "tree"
max_depth = 6

[search]
budget_s = 0.3

[costs]
items = 10
repeats = 2
"""
MINE = """\
from polydom.features import feature

@feature(kind="text")
def mine(text):
    return [text.count("!"), text.count("?")]
"""


def make_mails(count: int) -> list[dict[str, str]]:
    """Labels that the body tells in part, the subject and the files in part."""
    rng = np.random.default_rng(5)

    def some(label: str, share: float, length: int) -> str:
        own = rng.choice(WORDS[label], length)
        return " ".join(
            np.where(rng.random(length) < share, own, rng.choice(COMMON, length))
        )

    rows = []
    for number in range(count):
        label = ("work", "home")[number % 2]
        rows.append(
            {
                "subject": "" if number % 9 == 0 else some(label, 0.2, 6),
                "body": some(label, 0.1, int(rng.integers(6, 30))),
                "sender": f"s{rng.integers(3)}",
                "files": str(rng.integers(3) + (label == "work")),
                "label": label,
            }
        )
    return rows


class Scene(NamedTuple):
    """An index of mails, and those that it was built from."""

    folder: Path
    rows: list[dict[str, str]]

    @property
    def path(self) -> Path:
        return self.folder / "mail.pdx"

    @property
    def mine(self) -> list[Path]:
        return [self.folder / "mine.py"]

    def records(self, count: int) -> list[dict[str, Any]]:
        return [
            {
                "subject": row["subject"] or None,
                "body": row["body"],
                "sender": row["sender"],
                "files": float(row["files"]),
            }
            for row in self.rows[:count]
        ]


def write(path: Path, rows: list[dict[str, str]]) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        writer.writerows(rows)


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Scene:
    folder = tmp_path_factory.mktemp("mail")
    rows = make_mails(240)
    write(folder / "mail.csv", rows)
    (folder / "PROJECT.toml").write_text(PROJECT)
    (folder / "mine.py").write_text(MINE)
    build(folder / "PROJECT.toml", output=folder / "mail.pdx")
    return Scene(folder, rows)


@pytest.fixture(scope="module")
def port(scene: Scene) -> Iterator[int]:
    with serving(scene.path, f"--features={scene.mine[0]}") as (_, found):
        yield found


def asked(port: int, record: dict[str, Any], **terms: Any) -> tuple[int, Any]:
    body = json.dumps({"record": record, "budget_ms": 5000, **terms}).encode()
    return ask(port, "POST", "/v1/predict", body)


def expected(scene: Scene, records: list[dict[str, Any]]) -> list[str]:
    """What the best model says, of features that are computed directly."""
    index = Index.load(scene.path)
    package = index.package
    assert package is not None
    extractor = package.extractor(scene.mine)
    rows = np.array([extractor.extract(record_item(record)) for record in records])
    model = package.models[index.best(1.0, 1e9).row]
    return [package.labels[code] for code in model.predict(rows)]


def test_an_index_over_texts_and_columns_says_what_both_tell(scene: Scene) -> None:
    index = Index.load(scene.path)
    assert index.package is not None
    features = {one.name: one for one in index.package.features}
    assert {*features} == {*USE, "sender", "files"}
    text = features["body: learned_words"].text
    assert text
    assert text.most == max(len(row["body"]) for row in scene.rows)
    used = index.package.names(index.best(1.0, 1e9).row)
    assert any(": " in name for name in used)
    gaps = index.package.meta["gaps"]
    assert 0.1 < gaps["columns"]["subject"] < 0.13
    assert "body" not in gaps["columns"]


def test_a_server_answers_as_its_features_and_models_do(
    scene: Scene, port: int
) -> None:
    records = scene.records(30)
    records[3]["body"] = "\N{SNOWMAN} report! budget? " * 3
    replies = [asked(port, record) for record in records]
    assert {status for status, _ in replies} == {200}
    assert [answer["label"] for _, answer in replies] == expected(scene, records)
    items = [{"record": record} for record in records]
    body = json.dumps({"items": items, "budget_ms": 60_000, "exact": True}).encode()
    status, batch = ask(
        port, "POST", "/v1/batch", body, content_type="application/json"
    )
    assert status == 200, batch
    answers: Any = batch["answers"]
    assert [one["label"] for one in answers] == expected(scene, records)


def test_metadata_name_the_columns_and_what_they_hold(port: int) -> None:
    _, facts = ask(port, "GET", "/v2/models/mail")
    inputs = facts["inputs"]
    assert isinstance(inputs, list)
    kinds = {one["name"]: one["datatype"] for one in inputs}
    assert kinds == {
        "subject": "BYTES",
        "body": "BYTES",
        "sender": "BYTES",
        "files": "FP64",
    }
    _, index = ask(port, "GET", "/v1/index")
    features: Any = index["features"]
    columns = {one["name"]: one["columns"] for one in features}
    assert columns["body: mine"] == [{"name": "body", "kind": "text"}]
    given = {"subject": "the report", "body": "a project", "sender": "s1", "files": 1.0}
    tensors = [
        {"name": name, "datatype": kinds[name], "shape": [1], "data": [value]}
        for name, value in given.items()
    ]
    body = json.dumps({"inputs": tensors, "parameters": {"budget_ms": 5000}}).encode()
    status, answer = ask(port, "POST", "/v2/models/mail/infer", body)
    assert status == 200, answer


def test_a_text_that_is_not_given_withholds_what_reads_it(
    port: int, scene: Scene
) -> None:
    (record,) = scene.records(2)[1:]
    # no body was ever empty; some subjects were, so models know what that is
    without_body = {k: v for k, v in record.items() if k != "body"}
    for given in (without_body, {**record, "body": None}):
        status, answer = asked(port, given)
        assert status == 200
        assert not any(name.startswith("body: ") for name in answer["features"])
    status, answer = asked(port, {k: v for k, v in record.items() if k != "subject"})
    assert status == 200
    _, whole = asked(port, record)
    assert answer["features"] == whole["features"]
    reads_subject = any(n.startswith("subject: ") for n in whole["features"])
    assert answer.get("missing", 0) == int(reads_subject)
    # an empty text is one
    status, answer = asked(port, {**record, "body": ""})
    assert status == 200
    assert answer["features"] == whole["features"]
    assert "missing" not in answer


@pytest.mark.parametrize(("value", "came"), [(5, "a number"), (True, "a boolean")])
def test_a_number_for_a_text_is_refused_by_name(
    port: int, scene: Scene, value: Any, came: str
) -> None:
    record = {**scene.records(1)[0], "body": value}
    for budget_ms in (0.001, 5000):
        status, answer = asked(port, record, budget_ms=budget_ms)
        assert status in (400, 422)
        assert answer["error"] == f"column 'body' holds {came}; a text is needed"
    status, answer = asked(port, {**record, "body": "x", "bodi": "y"})
    assert "did you mean 'body'?" in answer["error"]


def test_any_string_is_a_text(port: int, scene: Scene) -> None:
    record = scene.records(1)[0]
    texts = ["", " ", "never seen", "\0", "\U0001f600", "report " * 100_000]
    for text in texts:
        status, answer = asked(port, {**record, "body": text})
        assert status == 200, answer
        assert "unknown" not in answer
        cut = {**record, "body": text[:2000]}
        assert answer["label"] == expected(scene, [cut])[0]


def test_scores_and_evaluations_are_the_servers(
    scene: Scene, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    records = scene.records(40)
    labels = expected(scene, records)
    scored = score_items(scene.path, records, 60.0, features=scene.mine, exact=True)
    assert [one.label for one in scored] == labels
    write(tmp_path / "more.csv", scene.rows[:40])
    out = tmp_path / "out.jsonl"
    options = ("--total-budget", "60s", "--features", scene.mine[0], "--exact")
    code, _, error = run(
        capsys, "score", scene.path, tmp_path / "more.csv", "-o", out, *options
    )
    assert code == 0, error
    assert [
        json.loads(line)["label"] for line in out.read_text().splitlines()
    ] == labels
    scorer = Scorer(scene.path, item_budget_s=1.0, features=scene.mine, exact=True)
    table = pa.Table.from_pylist(records)
    assert scorer.table(table).column("label").to_pylist() == labels
    code, said, error = run(
        capsys,
        *("evaluate", scene.path, tmp_path / "more.csv", "--label", "label"),
        *("--budgets", "50", "--features", scene.mine[0]),
    )
    assert code == 0, error
    assert "body: " in said or "subject: " in said


def test_an_estimator_takes_a_frame_with_a_column_of_text(scene: Scene) -> None:
    frame = pd.DataFrame(scene.rows).astype({"files": float})
    X, y = frame.drop(columns="label"), frame["label"].to_numpy()
    names = ["body: learned_words", "body: text_length", "subject: learned_words"]
    model = BudgetClassifier(features=names, learner="tree", random_state=0, n_jobs=1)
    model.fit(X[:200], y[:200])
    said = model.predict(X[200:])
    assert (said == y[200:]).mean() > 0.7
    assert {*model.plan()["features"]} <= {*names}
    # a row alone looks like a word, and its text is the same; so is a mapping's
    assert model.predict(X[200:201]).tolist() == said[:1].tolist()
    records = X[200:].to_dict("records")
    assert model.predict(records).tolist() == said.tolist()
    with pytest.raises(BadInput, match="'body' holds a number; a text"):
        model.predict([{**records[0], "body": 5}])


def test_a_text_that_costs_something_is_paid_once(scene: Scene) -> None:
    frame = pd.DataFrame(scene.rows).astype({"files": float})
    X, y = frame.drop(columns=["label", "subject"]), frame["label"]
    costs = {"body": 3.0, "sender": 1.0}
    model = BudgetClassifier(learner="tree", costs=costs, random_state=0, n_jobs=1)
    model.set_params(search_budget_s=0.3).fit(X, y)
    assert not any(n.startswith("body") for n in model.plan(budget=2.9)["features"])
    index = model.index_
    package = index.package
    assert package is not None
    assert len(package.features) == 2 + 8
    for row, mask in enumerate(package.masks.tolist()):
        names = {package.features[k].name for k in range(10) if mask >> k & 1}
        expected = 3 * any(n.startswith("body") for n in names) + ("sender" in names)
        assert index.cost_s(row, 1.0) == expected, names
    # elsewhere it costs the same, however fast the machine is
    extractor = package.extractor()
    twice = MachineFactors(
        2.0, np.full(len(extractor.steps), 2.0), np.full(10, 2.0), 2.0
    )
    nodes = [*extractor.features, *extractor.steps]
    declared = [node.declared.get("cost", 0.0) for node in nodes]
    slower = index.rescaled(twice, declared)
    assert sorted(slower.coefficients[:, 0]) == sorted(index.coefficients[:, 0])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"text": {"column": "bdy", "most": 9}}, "no feature of texts on column 'bdy'"),
        ({"text": {"column": "body", "most": 9}}, "is not what the index was built w"),
        ({"name": "body: lerned_words"}, "no recipe .* 'lerned_words'"),
        ({"columns": {"columns": ["body"]}}, "no feature of texts on column 'body'"),
    ],
)
def test_a_file_that_names_other_texts_is_refused(
    scene: Scene, tmp_path: Path, change: dict[str, Any], message: str
) -> None:
    package = reloaded(scene, tmp_path, change).package
    assert package is not None
    with pytest.raises(BadFeature, match=message):
        package.extractor(scene.mine)


@pytest.mark.parametrize(
    "change",
    [
        {"text": {"column": "body", "most": 0}},
        {"text": {"column": "body"}},
        {"text": {"column": 3, "most": 9}},
        {"text": {"column": "body", "most": 9, "code": "print()"}},
    ],
)
def test_a_file_whose_texts_have_another_form_is_damaged(
    scene: Scene, tmp_path: Path, change: dict[str, Any]
) -> None:
    with pytest.raises(BadIndexFile, match="damaged"):
        reloaded(scene, tmp_path, change)


def reloaded(scene: Scene, folder: Path, change: dict[str, Any]) -> Index:
    meta, arrays, _ = read_file(scene.path)
    features = meta["package"]["features"]
    (own,) = (one for one in features if one["name"] == "body: learned_words")
    own.update(change)
    facts = meta["package"]["meta"]
    for one, key in (
        *((curve, "name") for curve in facts["curves"]),
        *((column, "feature") for column in facts["inputs"]["columns"]),
        (facts["inputs"], "vocabulary"),
    ):
        if one[key] == "body: learned_words":
            one[key] = own["name"]
    path = folder / "edited.pdx"
    path.write_bytes(sealed(meta, dict(arrays)))
    return Index.load(path)
