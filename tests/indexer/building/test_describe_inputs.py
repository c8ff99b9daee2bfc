"""What a build says of its training items is counted of these items alone."""

import csv
import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from polydom.indexer.building import describe_inputs as module
from polydom.indexer.building.build import build
from polydom.indexer.building.describe_inputs import describe_inputs, shares_of
from polydom.indexer.building.prepare import prepare_data
from polydom.indexer.building.project import Project
from polydom.indexer.building.resources import open_resources
from polydom.indexer.index.index import Index
from polydom.indexer.index.input_reference import (
    MOST_BINS,
    MOST_VALUES,
    Shares,
    inputs_of,
)
from tests.support.examples import few

VALUES = st.one_of(
    st.floats(-1e6, 1e6, width=32), st.sampled_from([0.0, 1.0, float("nan")])
)


@settings(max_examples=few(200), deadline=None)
@given(values=st.lists(VALUES, min_size=1, max_size=80), bins=st.sampled_from([0, 10]))
def test_shares_are_those_of_each_value(values: list[float], bins: int) -> None:
    found = shares_of(np.array(values), bins)
    assert found.fault == ""
    known = [value for value in values if value == value]
    assert found.shares[0] == pytest.approx(1 - len(known) / len(values))
    different = sorted({*known})
    if found.edges:
        assert len(different) > MOST_VALUES
        assert len(found.edges) < MOST_BINS
        assert {*found.edges} <= {*different[:-1]}
        ends = [-np.inf, *found.edges, np.inf]
        for k, share in enumerate(found.shares[1:]):
            own = [value for value in known if ends[k] < value <= ends[k + 1]]
            assert share == pytest.approx(len(own) / len(values))
        return
    assert len(found.values) == min(len(different), MOST_VALUES)
    for value, share in zip(found.values, found.shares[1:], strict=False):
        assert share == pytest.approx(known.count(value) / len(values))
    told = [known.count(value) for value in found.values]
    rest = [known.count(one) for one in different if one not in found.values]
    assert max(rest, default=0) <= min(told, default=0)
    assert found.shares[-1] == pytest.approx(sum(rest) / len(values), abs=1e-9)


@pytest.mark.parametrize("value", [0.0, 100.0])
def test_a_value_that_most_items_have_is_not_in_one_bin_with_all_others(
    value: float,
) -> None:
    values = np.array([*np.linspace(1, 99, 50), *[value] * 950])
    found = shares_of(values)
    assert max(found.shares) == pytest.approx(0.95)
    assert shares_of(np.full(9, np.nan)) == Shares([1.0, 0.0])


PROJECT = """\
workers = 1
learner = "logistic"
costs = { items = 12, repeats = 2, weights = { usd = 1 } }
[data]
table = "people.csv"
label = "flies"
[[features.columns]]
name = "person"
columns = ["age", "job"]
cost = { usd = 1 }
"""


def make_project(folder: Path, count: int = 300) -> Project:
    """Write a table of people, of whom a tenth has no age."""
    draw = np.random.default_rng(5)
    with (folder / "people.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["age", "job", "flies"])
        for k in range(count):
            job = draw.choice(["clerk", "nurse", "pilot"])
            age = "" if k % 10 == 0 else f"{draw.normal(40, 10):.1f}"
            flies = (job == "pilot") == (draw.random() < 0.9)
            writer.writerow([age, job, "yes" if flies else "no"])
    (folder / "PROJECT.toml").write_text(PROJECT)
    return Project.load(folder / "PROJECT.toml")


@pytest.mark.jit
def test_an_index_has_distributions_of_training_items(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = make_project(tmp_path)
    resources = open_resources(project, cache=tmp_path / "cache")
    data = prepare_data(project, resources)
    whole = describe_inputs(data)
    rows = np.unique(np.concatenate([train for train, _ in data.splits]))
    assert whole.items == len(rows)
    assert [one.column for one in whole.columns] == [0, 1]
    for told in whole.columns:
        own = shares_of(data.table.values[rows, told.column].astype(float))
        assert (told.shares, told.edges) == (own.shares, own.edges)
    assert whole.columns[0].shares[0] == pytest.approx(0.1, abs=0.03)
    assert whole.columns[1].values == [0.0, 1.0, 2.0]
    assert whole.sizes == []  # all records have the same
    monkeypatch.setattr(module, "MOST_ITEMS", 50)
    sample, again = describe_inputs(data), describe_inputs(data)
    assert sample.items == 50
    assert sample == again  # drawn by the project's seed
    monkeypatch.undo()
    build(project, cache=tmp_path / "cache", output=tmp_path / "people.pdx")
    read = Index.load(tmp_path / "people.pdx")
    assert read.package is not None
    assert inputs_of(read.package.meta) == whole


@pytest.mark.jit
def test_new_items_with_as_many_rare_words_are_no_other_items(tmp_path: Path) -> None:
    draw = np.random.default_rng(7)
    # each of 40 common words, then words of which most occur once
    words = draw.permutation([*range(40)] * 12 + [*(40 + draw.integers(0, 900, 320))])
    known, new = words[:600], words[600:]
    rows = [f"w{word},k{k},{'yn'[word % 2]}\n" for k, word in enumerate(known)]
    (tmp_path / "people.csv").write_text("job,id,flies\n" + "".join(rows))
    plan = PROJECT.split("[[")[0].replace(", weights = { usd = 1 }", "")
    (tmp_path / "PROJECT.toml").write_text(plan)
    project = Project.load(tmp_path / "PROJECT.toml")
    data = prepare_data(project, open_resources(project, cache=tmp_path / "cache"))
    found = describe_inputs(data)
    train = np.unique(np.concatenate([train for train, _ in data.splits]))
    own = known[train].tolist()
    once = sum(own.count(word) == 1 for word in own)
    by_name = {one.feature: one for one in found.columns}
    assert by_name["id"].shares[0] == 1.0
    told = by_name["job"]
    assert len(told.values) == MOST_VALUES
    assert told.edges == []
    assert told.shares[0] == pytest.approx(once / len(own))
    lacking = np.mean([word not in own for word in new.tolist()])
    assert told.shares[0] == pytest.approx(lacking, abs=0.1)


TEXTS = """\
workers = 1
learner = "logistic"
[data]
texts = "texts.jsonl"
[search]
held_out = 0.25
[features]
use = ["text_length", "learned_words"]
[costs]
items = 12
repeats = 2
"""


@pytest.mark.jit
def test_texts_have_sizes_and_unseen_words(tmp_path: Path) -> None:
    draw = np.random.default_rng(6)
    lines = []
    for k in range(240):
        words = [f"w{n}" for n in draw.integers(0, 20, draw.integers(3, 30))]
        # a tenth of the words occurs in no other text
        own = [f"own{k}x{n}" for n in range(max(len(words) // 9, 1))]
        label = ("ham", "spam")["w3" in words]
        lines.append(json.dumps({"text": " ".join(words + own), "label": label}))
    (tmp_path / "texts.jsonl").write_text("\n".join(lines))
    (tmp_path / "PROJECT.toml").write_text(TEXTS)
    project = Project.load(tmp_path / "PROJECT.toml")
    resources = open_resources(project, cache=tmp_path / "cache")
    data = prepare_data(project, resources)
    found = describe_inputs(data)
    assert len(data.splits) == 1
    assert found.vocabulary == "learned_words"
    assert found.unseen_words == pytest.approx(0.12, abs=0.06)
    assert len(found.sizes) == 1
    assert found.labels is not None
    assert found.labels.values == [0.0, 1.0]
    features = {one.feature for one in found.columns}
    assert features == {"text_length", "learned_words"}
    counts = [one.feature for one in found.columns]
    assert counts.count("text_length") == module.FIRST_COLUMNS
