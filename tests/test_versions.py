"""What a feature's file imports, and the versions of that."""

import functools
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from polydom.features.feature import Feature
from polydom.features.loading import load_features
from polydom.features.record import columns
from polydom.indexer.versions import (
    feature_versions,
    imports_of,
    learner_versions,
    versions_of,
)
from polydom.models.portfolio import SERVABLE

ALWAYS = {"numpy", "polydom", "python"}


@pytest.mark.parametrize(
    ("line", "packages"),
    [
        ("import numpy", {"numpy"}),
        ("import numpy.linalg as la, re", {"numpy", "re"}),
        ("from PIL import Image", {"PIL"}),
        ("def f():\n    from skimage.feature import hog", {"skimage"}),
        ("import importlib\nimportlib.import_module('scipy.fft')", {"scipy"}),
        ("from importlib import import_module as i\n__import__('PIL')", {"PIL"}),
        ("def f(m):\n    return import_module(f'skimage.{m}')", {"skimage"}),
        ("def f(m):\n    return import_module(m), import_module(f'{m}.x')", set()),
        ("import_module()\nimport_module(f'')\nx().y(1)", set()),
        ("from . import near\nfrom .other import thing", set()),
        ("", set()),
    ],
)
def test_imports_are_found_wherever_they_are(
    tmp_path: Path, line: str, packages: set[str]
) -> None:
    path = tmp_path / "mine.py"
    path.write_text(line)
    assert imports_of(path).packages - {"importlib"} == packages


def test_imports_name_the_modules_beside_a_file_and_polydoms(tmp_path: Path) -> None:
    path = tmp_path / "folder" / "mine.py"
    path.parent.mkdir()
    path.write_text(
        "from . import near\nfrom .other import thing\nfrom ..above.it import one\n"
        "from polydom.features.picture import open_picture\n"
        "from polydom.features import feature\nimport polydom.none\n"
    )
    own = {file for file in imports_of(path).files if tmp_path in file.parents}
    assert own == {
        path.with_name("near.py"),
        path.with_name("other.py"),
        tmp_path / "above" / "it.py",
    }
    (others,) = imports_of(path).files - own
    assert others.name == "picture.py"
    path.write_text("import scipy")  # read again, since it is another
    assert imports_of(path).packages == {"scipy"}


def own_feature(path: Path, code: str) -> Feature:
    path.write_text("from polydom.features import feature, step\n" + code)
    (found,) = load_features([], [path])
    return found


def test_versions_are_those_of_all_that_a_features_files_import(tmp_path: Path) -> None:
    (hog,) = load_features(["hog"])
    assert set(feature_versions(hog)) == {*ALWAYS, "pillow", "scikit-image", "scipy"}
    (casing,) = load_features(["casing"])
    assert set(feature_versions(casing)) == ALWAYS
    assert feature_versions(casing)["numpy"] == version("numpy")
    record = columns("c", ["a"], vocabularies={}, declared={})
    assert set(feature_versions(record)) >= ALWAYS
    of_step = own_feature(
        tmp_path / "mine.py",
        "from polydom.features.image import grey\n"
        "@feature(needs=[grey])\ndef mean(grey):\n    return [grey.mean()]\n",
    )
    assert {"pillow", "scikit-image"} <= set(feature_versions(of_step))
    beside = own_feature(
        tmp_path / "mine.py",
        "import joblib\n@feature(kind='text')\ndef one(text):\n    return [1]\n",
    )
    assert set(feature_versions(beside)) == {*ALWAYS, "joblib"}


def test_versions_are_also_of_what_modules_of_the_users_own_import(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "nearby.py").write_text("import further\n\ndef f():\n    pass\n")
    (tmp_path / "further.py").write_text("import nearby\nimport scipy\n")
    found = own_feature(
        tmp_path / "mine.py",
        "@feature(kind='text')\ndef one(text):\n    import nearby\n    return [1]\n",
    )
    assert set(feature_versions(found)) == {*ALWAYS, "scipy"}


class Counter:
    def __call__(self, text: str) -> list[int]:
        return [len(text)]


@pytest.mark.parametrize(
    "function",
    [Counter(), functools.partial(max, ""), functools.partial(Counter()), np.mean],
    ids=["an object", "a builtin", "part of an object", "a library's"],
)
def test_versions_are_found_whatever_a_feature_is_made_of(
    function: Callable[..., Any],
) -> None:
    made = Feature("made", "text", (), function)
    assert set(feature_versions(made)) >= ALWAYS


def test_versions_of_learners_name_their_library() -> None:
    base = {*ALWAYS, "scikit-learn", "scipy"}
    assert set(learner_versions(SERVABLE.values())) == base
    assert set(learner_versions([{"name": "lattices"}])) == base
    named = {"name": "sklearn.tree:DecisionTreeClassifier"}
    assert set(learner_versions([named])) == base
    boosted = learner_versions([{"name": "lightgbm:LGBMClassifier"}])
    assert boosted.get("lightgbm") == version("lightgbm")
    assert learner_versions([]) == learner_versions([{"name": "lda"}])


def test_versions_of_what_is_in_no_distribution_are_pythons() -> None:
    assert set(versions_of(["json", "no_such_package"])) == ALWAYS
