"""Every index has a name of its own that can be in a URL."""

from pathlib import Path

import pytest

from polydom.features.errors import BadInput
from polydom.server.runtime.model_names import name_files, name_paths


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
