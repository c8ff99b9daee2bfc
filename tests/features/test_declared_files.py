"""Files that features declare: found beside the code, and the same at the build."""

import functools
import hashlib
import os
from pathlib import Path
from typing import Any

import pytest

from polydom.features.declared_files import checksums_of, files_of, refuse_changed
from polydom.features.errors import BadFeature
from polydom.features.feature import Feature, feature, step
from polydom.features.fingerprint import fingerprint
from polydom.features.loading import load_features
from polydom.features.tables.text_columns import TextOf, feature_on

OWN = """\
from polydom import feature, step

@step(kind="text", files=["words.txt"])
def known(text):
    return text

@feature(needs=[known], files=["sub/more.txt"])
def counted(text):
    return [1]
"""


def own(folder: Path) -> Feature:
    """A feature and a step in a file of their own, with a file each."""
    (folder / "sub").mkdir(parents=True)
    (folder / "words.txt").write_text("free win")
    (folder / "sub" / "more.txt").write_text("more")
    (folder / "mine.py").write_text(OWN)
    (made,) = load_features([], [folder / "mine.py"])
    return made


def sha(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def test_files_lie_beside_the_code_and_those_of_steps_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    made = own(Path("project"))
    monkeypatch.chdir("/")
    assert files_of(made) == {
        "words.txt": tmp_path / "project" / "words.txt",
        "sub/more.txt": tmp_path / "project" / "sub" / "more.txt",
    }
    expected = {"words.txt": sha("free win"), "sub/more.txt": sha("more")}
    assert checksums_of([made, made]) == [expected, expected]
    on_column = feature_on(TextOf("note", 10), made)
    assert checksums_of([on_column]) == [expected]


def test_a_function_of_no_file_declares_paths_from_the_working_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    made = feature(len, kind="text", files=["a.txt", tmp_path / "b.txt"])
    assert [*made.files.values()] == [tmp_path / "a.txt", tmp_path / "b.txt"]
    bound = functools.partial(sha)
    assert feature(bound, kind="text", name="bound", files=["x"]).files == {
        "x": Path(__file__).absolute().parent / "x"
    }


@pytest.mark.parametrize(
    ("stored", "message"),
    [
        ({"words.txt": sha("free win")}, "'sub/more.txt', of which the index has no"),
        (
            {"words.txt": sha("free"), "sub/more.txt": sha("more")},
            "'words.txt' is not the one that .* SHA-256 begins "
            f"{sha('free win')[:12]}, and {sha('free')[:12]} is needed",
        ),
        (
            {
                "words.txt": sha("free win"),
                "sub/more.txt": sha("more"),
                "/etc/passwd": "1",
            },
            "with the file '/etc/passwd', which the feature declares no more",
        ),
    ],
)
def test_a_difference_is_told_and_says_in_which_file(
    stored: dict[str, str], message: str, tmp_path: Path
) -> None:
    made = own(tmp_path / "project")
    refuse_changed([made], checksums_of([made]))
    with pytest.raises(BadFeature, match=f"feature 'counted': .*{message}"):
        refuse_changed([made], [stored])


def test_a_file_that_is_gone_is_told_without_its_folder(tmp_path: Path) -> None:
    made = own(tmp_path / "project")
    (tmp_path / "project" / "words.txt").unlink()
    with pytest.raises(
        BadFeature, match=r"'words.txt', which cannot be read: No such"
    ) as e:
        checksums_of([made])
    assert str(tmp_path) not in str(e.value)


def test_one_name_is_of_one_file(tmp_path: Path) -> None:
    @step(kind="text", files=["a.txt"])
    def prepared(text: str) -> str:
        return text

    class Elsewhere(dict[str, Any]):
        """Scope of a module in another folder."""

    scope = Elsewhere(__file__=os.fspath(tmp_path / "other.py"))
    exec("def length(text): return [len(text)]", scope)
    made = feature(scope["length"], needs=[prepared], files=["a.txt"])
    with pytest.raises(BadFeature, match=r"declare two files 'a.txt'"):
        files_of(made)


def test_a_single_text_is_no_list_of_files() -> None:
    with pytest.raises(BadFeature, match=r"files='a.txt'; a list of paths is needed"):
        feature(len, kind="text", files="a.txt")


class Opaque:
    """An object that shows nothing of itself."""

    __slots__ = ()

    def __call__(self, text: str) -> list[int]:
        return [len(text)]


def test_declared_files_tell_what_an_object_is_made_of() -> None:
    with pytest.raises(BadFeature, match=r'as in @feature\(files=\["model.bin"\]\)'):
        fingerprint(feature(Opaque(), kind="text", name="model"))
    assert fingerprint(feature(Opaque(), kind="text", name="model", files=["m.bin"]))
