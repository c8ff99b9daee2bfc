"""Features that a project names, or has too many of."""

from pathlib import Path
from typing import Any

import pytest

from polydom.features.errors import BadFeature, BadProject
from polydom.indexer import build
from polydom.indexer.building.data.read_items import load_data
from polydom.indexer.building.features.choose_features import choose_features
from polydom.indexer.building.features.column_groups import (
    MANY_COLUMNS,
    MAX_FEATURES,
)
from polydom.indexer.building.project import Project
from polydom.indexer.progress import Silence
from tests.support.builds import projects

NAMES = [f"c{number}" for number in range(70)]


def table(folder: Path, names: list[str]) -> dict[str, Any]:
    """A project of a table with these columns, and two rows."""
    rows = ["0," * len(names) + "no", "1," * len(names) + "yes"]
    text = "\n".join([",".join([*names, "label"]), *rows])
    (folder / "rows.csv").write_text(text)
    return {"data": {"table": "rows.csv"}}


def chosen(folder: Path, content: dict[str, Any]) -> list[str]:
    project = Project.from_mapping(content, folder=folder)
    with Silence().stage("reading", None) as on_progress:
        dataset = load_data(project, on_progress)
    return [feature.name for feature in choose_features(project, dataset).stored]


def group(number: int, columns: list[str]) -> dict[str, Any]:
    return {"name": f"g{number}", "columns": columns}


def test_every_column_is_a_feature_up_to_the_most_there_may_be(tmp_path: Path) -> None:
    most = NAMES[:MAX_FEATURES]
    assert chosen(tmp_path, table(tmp_path, most)) == most
    more = NAMES[: MAX_FEATURES + 1]
    found = chosen(tmp_path, table(tmp_path, more))
    assert len(found) == MANY_COLUMNS
    assert found[0] == f"{more[0]} to {more[3]}"
    assert found[-1] == f"{more[-3]} to {more[-1]}"


def test_what_is_said_of_too_many_columns_helps(tmp_path: Path) -> None:
    content = table(tmp_path, NAMES)
    alone = [group(k, [name]) for k, name in enumerate(NAMES)]
    with pytest.raises(BadProject, match=r"makes 70 features; .* columns in a group"):
        chosen(tmp_path, {**content, "features": {"columns": alone}})
    pairs = [group(k, NAMES[2 * k : 2 * k + 2]) for k in range(35)]
    found = chosen(tmp_path, {**content, "features": {"columns": pairs}})
    assert found == [f"g{k}" for k in range(35)]


@pytest.mark.parametrize("length", [1, 17_000])
def test_a_column_of_more_words_than_an_index_holds_is_refused_at_once(
    tmp_path: Path, length: int
) -> None:
    """So many different ones, or such long ones; before anything is computed."""
    count = 1000 if length > 1 else 530_000
    rows = (f"{k % 7},{'x' * length}{k},{'ab'[k % 2]}" for k in range(count))
    (tmp_path / "rows.csv").write_text("\n".join(["age,note,label", *rows]))
    with pytest.raises(BadProject) as caught:
        chosen(tmp_path, {"data": {"table": "rows.csv"}})
    message = str(caught.value)
    assert f"column 'note' holds {count:,} different words of " in message
    size = " is over 16,777,216" if length > 1 else "over 524,288 entries"
    assert size in message
    assert "[data] ignore leaves the column out" in message
    ignored = {"data": {"table": "rows.csv", "ignore": ["note"]}}
    assert chosen(tmp_path, ignored) == ["age"]


def test_too_many_features_of_ones_own_are_to_be_named(tmp_path: Path) -> None:
    folder = projects.texts(tmp_path)
    code = "from polydom.features import feature\n"
    for number in range(70):
        code += (
            f"\n\n@feature(kind='text')\ndef f{number}(text):\n    return [{number}]\n"
        )
    (folder / "own.py").write_text(code)
    content: dict[str, Any] = {
        "data": {"texts": "mails.jsonl"},
        "features": {"files": ["own.py"]},
    }
    with pytest.raises(BadProject, match=r"70 features; 62 is .* fewer in `use`"):
        chosen(folder, content)
    content["features"]["use"] = ["f3", "f5", "casing"]
    assert chosen(folder, content) == ["f3", "f5", "casing"]


def test_columns_may_have_the_name_of_an_own_feature_that_is_not_used(
    tmp_path: Path,
) -> None:
    code = "from polydom.features import feature\n"
    for name in "ab":
        code += f"\n@feature(kind='record')\ndef {name}(row):\n    return [row['c0']]\n"
    (tmp_path / "mine.py").write_text(code)
    groups = [{"name": "b", "columns": ["c1"]}]
    features = {"use": ["a"], "files": ["mine.py"], "columns": groups}
    content = {**table(tmp_path, NAMES[:2]), "features": features}
    assert chosen(tmp_path, content) == ["a", "b"]


def test_no_features_at_all_are_refused(tmp_path: Path) -> None:
    with pytest.raises(BadProject, match="no columns to make features of"):
        chosen(tmp_path, table(tmp_path, []))
    folder = projects.texts(tmp_path)
    with pytest.raises(BadProject, match=r"no feature; see .*features --kind text"):
        chosen(folder, {"data": {"texts": "mails.jsonl"}})


OWN = """\
import random
from polydom.features import feature
V = {value}

@feature(kind="text")
def own(text):
    return [len(text) + bool(V)]
"""


def test_a_feature_that_is_another_each_time_is_refused_at_the_build(
    tmp_path: Path,
) -> None:
    use = '[features]\nfiles = ["own.py"]\n'
    text = projects.TEXTS.split("[features]")[0] + use
    folder = projects.texts(tmp_path / "project", project=text)
    (folder / "own.py").write_text(OWN.format(value="random.random()"))
    message = "'own' is another whenever its file is loaded: V should"
    with pytest.raises(BadFeature, match=message):
        build(folder / "PROJECT.toml")
    (folder / "own.py").write_text(OWN.format(value="random.Random(1).random()"))
    content: dict[str, Any] = {
        "data": {"texts": "mails.jsonl"},
        "features": {"files": ["own.py"]},
    }
    assert chosen(folder, content) == ["own"]


def test_features_to_be_learned_are_recipes_until_they_are(tmp_path: Path) -> None:
    folder = projects.texts(tmp_path)
    content: dict[str, Any] = {
        "data": {"texts": "mails.jsonl"},
        "features": {"use": ["learned_words"]},
    }
    project = Project.from_mapping(content, folder=folder)
    found = choose_features(project, load_data(project))
    assert found.stored == ()
    assert [recipe.name for recipe in found.recipes] == ["learned_words"]
    for use, message in (
        (["learned_word"], "no feature 'learned_word'; did you mean 'learned_words'"),
        (["learned_words"] * 2, r"\[features\] names 'learned_words' twice"),
    ):
        content["features"]["use"] = use
        with pytest.raises((BadFeature, BadProject), match=message):
            chosen(folder, content)


def test_no_feature_of_ones_own_is_named_like_one_that_is_learned(
    tmp_path: Path,
) -> None:
    folder = projects.texts(tmp_path)
    (folder / "own.py").write_text(
        "from polydom.features import feature\n\n\n"
        "@feature(kind='text')\ndef learned_words(text):\n    return [1]\n"
    )
    content = {
        "data": {"texts": "mails.jsonl"},
        "features": {"files": ["own.py"]},
    }
    with pytest.raises(BadFeature, match="there is another feature 'learned_words'"):
        chosen(folder, content)
