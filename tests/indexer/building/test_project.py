import math
import re
from pathlib import Path
from typing import Any

import pytest

from polydom.features.errors import BadProject
from polydom.features.items import make_item
from polydom.indexer.building.build import build
from polydom.indexer.building.data.dataset import make_dataset
from polydom.indexer.building.project import Project

MINIMAL: dict[str, Any] = {"data": {"images": "photos"}}
NETWORK = {"name": "net", "file": "net.onnx", "kind": "image"}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"costs": {"size": "bytes"}}, "costs.size is 'bytes'; one of 'pixels', ['wid"),
        ({"costs": {"size": ["height", "width"]}}, "one of 'pixels', ['width', 'heigh"),
        (
            {"search": {"sizes": [[1, 2], [3, 4]]}},
            "as many numbers as costs.size has: 1",
        ),
        ({"search": {"sizes": [1, 2, 3]}}, "a smallest and a largest size are needed"),
        (
            {"search": {"sizes": [1, 2]}, "costs": {"size": ["width", "height"]}},
            "as many numbers as costs.size has: 2",
        ),
        (
            {
                "search": {"sizes": [[1, 2], [3, 1]]},
                "costs": {"size": ["width", "height"]},
            },
            "search.sizes is [[1.0, 2.0], [3.0, 1.0]]: empty range",
        ),
        ({"search": {"sizes": [0, 1]}}, "search.sizes[0]: expected float > 0"),
        ({"serch": {}}, "unknown key 'serch'; did you mean 'search'?"),
        ({"search": {"alfa": 1}}, "unknown key 'search.alfa'; did you mean 'alpha'?"),
        (
            {"features": {"networks": [{"name": "n", "colors": "bgr"}]}},
            "unknown key 'features.networks.colors'; did you mean 'colours'?",
        ),
        ({"folder": "/"}, "unknown key 'folder'"),
        (
            {"cluster": {"retries": 3}},
            "key 'cluster.retries' was removed: a call whose worker is lost is tried "
            "again twice; take it out",
        ),
        ({"features": {"columns": [{"nam": "x"}]}}, "'features.columns.nam'; did you"),
        ({"search": {"alpha": 0.5}}, "search.alpha: expected float >= 1"),
        ({"search": {"held_out": 1}}, "search.held_out: expected float < 1"),
        (
            {"search": {"folds": "5"}},
            "search.folds: expected int",
        ),
        ({"search": {"sizes": [5, 1]}}, "empty range"),
        (
            {"search": {"budgets": [0.05]}},
            "search.budgets is [0.05]; a smallest and a largest are needed",
        ),
        ({"search": {"budgets": [2, 1]}}, "a smallest and a largest are needed"),
        ({"search": {"budgets": [1, math.inf]}}, "a smallest and a largest"),
        ({"search": {"budgets": [0, 1]}}, "search.budgets[0]: expected float > 0"),
        ({"search": {"budgets": 1}}, "search.budgets: expected array, got int"),
        (
            {"search": {"budgets": [1, 2]}, "costs": {"size": ["width", "height"]}},
            "search.budgets is for sizes of one number; costs.size has two",
        ),
        (
            {"search": {"method": "greedy", "budgets": [1, 2]}},
            "search.budgets is for 'progressive' and 'poly-dom'",
        ),
        ({"search": {"trainings": 9}}, "search.trainings is for method = 'poly-dom'"),
        (
            {"search": {"method": "gredy"}},
            "search.method: 'gredy' came; one of 'progressive', 'poly-dom', ",
        ),
        (
            {"search": {"method": "greedy", "alpha": 1.0}},
            "search.alpha is for 'progressive' and 'poly-dom', which try sets",
        ),
        (
            {"search": {"method": "greedy-cost", "budget_s": 9}},
            "search.budget_s is for 'progressive' and 'poly-dom'",
        ),
        ({"data": {"images": "a", "texts": "b"}}, "exactly one of"),
        ({"learner": {"C": 1}}, "needs a name"),
        ({"learner": {"name": "auto", "C": 1}}, "no keys but limit_s"),
        ({"learner": {"name": "auto", "limit_s": "9"}}, "limit_s is '9'; it must be"),
        ({"learner": {"name": "auto", "limit_s": True}}, "limit_s is True; it must"),
        (
            {"learner": {"name": "auto", "limit_s": 0}},
            "limit_s is 0; it must be seconds above 0",
        ),
        ({"learner": {"name": "auto", "limit_s": math.nan}}, "limit_s is nan"),
        ({"learner": {"name": "auto", "per_level": True}}, "no keys but limit_s"),
        ({"learner": {"name": "tree", "tune_s": 0}}, "tune_s is 0; it must be seconds"),
        ({"learner": {"name": "auto", "tune_s": "9"}}, "tune_s is '9'; it must be"),
        ({"costs": {"weights": {"s": 0}}}, "counts nothing"),
        ({"costs": {"weights": {"s": -1}}}, "expected float >= 0"),
        ({"seed": -1}, "seed: expected int >= 0"),
        ({"data": 3}, "data: expected table, got int"),
        ({"features": {"networks": [NETWORK | {"side": 32}]}}, "did you mean 'sides'?"),
        (
            {"features": {"networks": [NETWORK, NETWORK]}},
            "[[features.networks]] has the name 'net' twice; ",
        ),
        (
            {"features": {"networks": [NETWORK | {"file": "http://a/b"}]}},
            "'net' has file = 'http://a/b'; a path, or an address that begins with htt",
        ),
        (
            {"features": {"networks": [NETWORK | {"file": "https://a/b"}]}},
            "'net' names an address and no sha256",
        ),
        (
            {
                "features": {
                    "columns": [{"name": "x", "columns": ["a"], "cost": {"e": 1}}]
                }
            },
            "'x' costs 'e', for which costs.weights has no weight",
        ),
    ],
)
def test_project_says_what_is_wrong_and_where(
    change: dict[str, Any], message: str
) -> None:
    with pytest.raises(BadProject, match=re.escape(message)):
        Project.from_mapping(MINIMAL | change)


def test_project_that_is_absent_or_no_toml_is_named(tmp_path: Path) -> None:
    with pytest.raises(BadProject, match=r"none\.toml: No such file"):
        Project.load(tmp_path / "none.toml")
    (tmp_path / "a.toml").write_text("[data\n")
    with pytest.raises(BadProject, match=r"a\.toml: no valid TOML"):
        Project.load(tmp_path / "a.toml")


def test_project_may_name_sizes_of_two_numbers() -> None:
    costs = {"size": ["width", "height"]}
    content = {**MINIMAL, "costs": costs, "search": {"sizes": [[8, 16], [640, 480]]}}
    project = Project.from_mapping(content)
    assert project.costs.pair
    assert project.search.bounds == ((8.0, 16.0), (640.0, 480.0))
    project.costs.check_size("image")
    with pytest.raises(
        BadProject, match=r"\['words', 'sentences'\] is what there is of"
    ):
        project.costs.check_size("text")
    with pytest.raises(BadProject, match="'records' is what there is of a record"):
        project.costs.check_size("record")


def test_project_file_says_where_its_items_are(tmp_path: Path) -> None:
    path = tmp_path / "PROJECT.toml"
    path.write_text("[data]\n")
    with pytest.raises(BadProject, match="exactly one of images, table, texts, items"):
        Project.load(path)
    with pytest.raises(BadProject, match="exactly one of images, table, texts, items"):
        build(Project.from_mapping({}), cache=tmp_path / "cache")
    items = [make_item(str(i)) for i in range(8)]
    names = [item.kind for item in items]
    dataset = make_dataset(items, names, ["a", "b"] * 4, range(8))
    with pytest.raises(BadProject, match="and a data set came, too"):
        build(Project.from_mapping(MINIMAL), dataset=dataset, cache=tmp_path / "cache")
