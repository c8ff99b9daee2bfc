"""Features found by name and in files."""

import re
from pathlib import Path

import pytest
from joblib import Parallel, delayed

from polydom.features.errors import BadFeature
from polydom.features.feature import Feature
from polydom.features.loading import load_features
from polydom.features.ready_made.image import FEATURES as IMAGE_FEATURES
from polydom.features.ready_made.image import gabor, hog
from polydom.features.ready_made.text import FEATURES as TEXT_FEATURES
from tests.support.builds.own_features import MINE


def test_ready_made_features_have_different_names() -> None:
    names = [made.name for made in IMAGE_FEATURES + TEXT_FEATURES]
    assert len(set(names)) == len(names)


def test_load_features_finds_ready_made_ones_in_the_order_asked_for() -> None:
    assert load_features(["hog", "gabor", "hog"]) == (hog, gabor)


def test_load_features_names_the_nearest_for_an_unknown_name() -> None:
    with pytest.raises(BadFeature, match=r"no feature 'hogg'; did you mean 'hog'\?"):
        load_features(["hogg"])


def test_load_features_lists_all_where_none_is_near() -> None:
    with pytest.raises(BadFeature, match=r"no feature 'xyzzy'; there are .*hog"):
        load_features(["xyzzy"])


def test_load_features_adds_what_a_file_defines(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text(MINE)
    found = load_features(["punctuation"], [file])
    assert [made.name for made in found] == ["punctuation", "longest", "vowels"]
    assert found[1].function([3, 5]) == [10]


def test_load_features_finds_a_file_s_features_by_name(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text(MINE)
    found = load_features(["vowels"], [file])
    assert [made.name for made in found] == ["vowels", "longest"]


def test_load_features_refuses_two_of_a_name(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text(MINE.replace('"vowels"', '"hog"'))
    with pytest.raises(BadFeature, match=r"mine\.py: there is another feature 'hog'"):
        load_features([], [file])


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("x = 1\nimport nowhere_at_all", "line 2: ModuleNotFoundError: No module"),
        ("x = 1\n\nx = = 2", "line 3: SyntaxError: invalid syntax"),
        ("def f():\n  return 1 / 0\nf()", "line 2: ZeroDivisionError: division by"),
    ],
    ids=["an import fails", "the syntax is wrong", "a function called raises"],
)
def test_load_features_names_the_line_of_a_file_that_fails(
    tmp_path: Path, source: str, message: str
) -> None:
    file = tmp_path / "mine.py"
    file.write_text(source)
    with pytest.raises(BadFeature, match=f"{re.escape(str(file))}, {message}"):
        load_features([], [file])


def test_load_features_blames_the_line_that_imports_a_broken_module(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "broken_module.py").write_text("x = = 1")
    monkeypatch.syspath_prepend(tmp_path)
    file = tmp_path / "mine.py"
    file.write_text("\n\nimport broken_module")
    with pytest.raises(BadFeature, match=r"mine\.py, line 3: SyntaxError"):
        load_features([], [file])


def test_load_features_runs_what_the_file_says_now(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    for scale in (2, 3, 4):  # as long, and as old in seconds
        file.write_text(MINE.replace("SCALE = 2", f"SCALE = {scale}"))
        assert load_features([], [file])[0]([5]) == [5 * scale]
    assert not (tmp_path / "__pycache__").exists()


def test_load_features_says_that_a_file_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(BadFeature, match=r"gone\.py: No such file or directory; a Py"):
        load_features([], [tmp_path / "gone.py"])


def run(made: Feature, value: object) -> object:
    return made(value)


def test_features_of_a_file_travel_to_workers_that_cannot_import_it(
    tmp_path: Path,
) -> None:
    file = tmp_path / "mine.py"
    file.write_text(MINE)
    (longest, _) = load_features([], [file])
    assert Parallel(n_jobs=2)([delayed(run)(longest, [4])] * 2) == [[8], [8]]
