"""Every index has a name of its own that can be in a URL."""

from pathlib import Path

import pytest

from polydom.features.errors import BadInput
from polydom.server.runtime.model_names import (
    name_candidates,
    name_files,
    name_paths,
)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["x/a.pdx", "y/a.pdx"], "would both be called 'a'; give one of them a name"),
        (["=a.pdx"], "'' cannot be a model's name"),
        (["a\tb=a.pdx"], "cannot be a model's name"),
        ([], "no index file"),
    ],
)
def test_names_that_cannot_be_told_apart_are_refused(
    arguments: list[str], message: str
) -> None:
    with pytest.raises(BadInput, match=message):
        name_files(arguments)


def test_names_are_the_files_by_their_stems_or_as_told() -> None:
    assert name_files(["x/a.pdx", "b=x/a.pdx", "./c=d.pdx"]) == {
        "a": Path("x/a.pdx"),
        "b": Path("x/a.pdx"),
        "c=d": Path("c=d.pdx"),
    }
    with pytest.raises(BadInput, match="'a/b' cannot be a model's name"):
        name_paths({"a/b": "a.pdx"})
    assert name_paths({"a": "b.pdx"}) == {"a": Path("b.pdx")}
    assert name_paths([Path("x/c.pdx")]) == {"c": Path("x/c.pdx")}


def test_a_folder_stands_for_the_one_index_in_it(tmp_path: Path) -> None:
    for other in (".my.pdx.7.tmp", ".hidden.pdx", "README.md"):
        (tmp_path / other).touch()
    (tmp_path / "deeper").mkdir()
    (tmp_path / "deeper" / "other.pdx").touch()
    with pytest.raises(BadInput, match=r"one \.pdx file is needed in it, found none"):
        name_files([str(tmp_path)])
    index = tmp_path / "my.pdx"
    index.touch()
    assert name_files([str(tmp_path)]) == {"my": index}
    assert name_files([f"mails={tmp_path}"]) == {"mails": index}
    for letter in "abc":
        (tmp_path / f"{letter}.pdx").touch()
    with pytest.raises(BadInput, match=r"found a\.pdx, b\.pdx, c\.pdx, \.\.\."):
        name_files([f"mails={tmp_path}"])


def test_candidates_are_of_served_models_and_have_files_of_their_own(
    tmp_path: Path,
) -> None:
    (tmp_path / "links").symlink_to(tmp_path)
    (tmp_path / "deeper").mkdir()
    files = {"a": tmp_path / "a.pdx", "b": tmp_path / "b.pdx"}
    mine, theirs = tmp_path / "mine.pdx", tmp_path / "theirs.pdx"
    found = name_candidates([str(mine), f"b={theirs}"], files)
    assert found == {"a": mine, "b": theirs}
    for arguments, message in {
        (f"c={mine}",): "no model is called 'c'; served: a, b",
        (str(mine), f"a={theirs}"): "model 'a' has two candidates",
        (str(tmp_path / "none" / "a.pdx"),): "there is no folder",
        (f"b={tmp_path}/deeper/../a.pdx",): "is served already",
        (f"b={tmp_path}/links/b.pdx",): "is served already",
        (str(mine), f"b={tmp_path}/links/mine.pdx"): "is another model's candidate",
    }.items():
        with pytest.raises(BadInput, match=message):
            name_candidates(arguments, files)
