"""A build counts what was empty, and gaps that models know are taken for values."""

import csv
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from polydom.indexer import Index, build
from polydom.indexer.index.built_facts import gaps_of
from polydom.server.runtime.translator import AtOnce
from polydom.server.runtime.warm_up import open_translator
from polydom.server.schema.wire import Answer, Terms

pytestmark = pytest.mark.jit

COUNT = 400
PROJECT = """\
workers = 1
learner = "logistic"
costs = { items = 12, repeats = 2, weights = { usd = 1 } }
[data]
table = "rows.csv"
[[features.columns]]
name = "first"
columns = ["a"]
cost = { usd = 1 }
[[features.columns]]
name = "pair"
columns = ["b", "c"]
cost = { usd = 2 }
[[features.columns]]
name = "word"
columns = ["d"]
cost = { usd = 3 }
"""


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three noisy views of the label; half of b, some of c, a few of d are empty."""
    folder = tmp_path_factory.mktemp("gaps")
    draw = np.random.default_rng(0)
    labels = np.arange(COUNT) % 2
    rows = []
    for k, label in enumerate(labels.tolist()):
        a, b, c = (label + draw.normal(0, noise) for noise in (1.2, 0.5, 0.9))
        word = ("no", "yes")[int(label ^ (draw.random() < 0.2))]
        cells = [a, "" if k % 4 < 2 else b, "" if k % 10 == 3 else c]
        rows.append([*cells, "" if k % 100 == 0 else word, label])
    with (folder / "rows.csv").open("w", newline="") as file:
        csv.writer(file).writerows([["a", "b", "c", "d", "label"], *rows])
    (folder / "PROJECT.toml").write_text(PROJECT)
    build(folder / "PROJECT.toml", output=folder / "rows.pdx")
    return folder / "rows.pdx"


def test_what_was_empty_is_counted(path: Path) -> None:
    package = Index.load(path).package
    assert package is not None
    gaps = gaps_of(package.meta)
    assert gaps is not None
    assert gaps.columns == {"b": 0.5, "c": 0.1, "d": 0.01}
    both = np.mean([k % 4 < 2 and k % 10 == 3 for k in range(COUNT)])
    assert gaps.features == {"pair": both, "word": 0.01}


@pytest.mark.parametrize(
    ("record", "features", "missing", "best_next"),
    [
        pytest.param(
            {"a": 1, "b": 1, "c": 1, "d": "yes"},
            {"first", "pair", "word"},
            None,
            None,
            id="whole",
        ),
        pytest.param(
            {"b": 1, "c": 1, "d": "yes"}, {"pair", "word"}, None, "a", id="never empty"
        ),
        pytest.param(
            {"a": 1, "c": 1, "d": "yes"},
            {"first", "pair", "word"},
            1,
            None,
            id="often empty",
        ),
        pytest.param(
            {"a": 1, "d": "yes"},
            {"first", "pair", "word"},
            2,
            None,
            id="both are, at times",
        ),
        pytest.param(
            {"a": 1, "b": 1, "c": 1}, {"first", "pair"}, None, "d", id="seldom empty"
        ),
        pytest.param({"a": 1}, {"first", "pair"}, 2, "d", id="one came"),
        pytest.param({"d": "maybe"}, {"pair", "word"}, 2, "a", id="a new word came"),
    ],
)
def test_gaps_that_models_know_are_values(
    record: dict[str, Any],
    features: set[str],
    missing: int | None,
    best_next: str | None,
    path: Path,
) -> None:
    nulls = dict.fromkeys(("a", "b", "c", "d")) | record
    for asked in (record, nulls):
        answer = ask(path, asked)
        assert {*answer.features} == features
        assert (answer.missing or None) == missing
        told = answer.best_next.columns if answer.best_next else (None,)
        assert told == (best_next,)


def ask(path: Path, record: dict[str, Any]) -> Answer:
    at_once = AtOnce(open_translator(path, []))
    return at_once.answer(Terms(budget=100.0), record)
