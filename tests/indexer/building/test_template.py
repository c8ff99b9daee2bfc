"""The project file that `polydom init` writes is one, and shows every key."""

import tomllib
from pathlib import Path

import pytest

from polydom.features.loading import ready_made_features
from polydom.features.ready_made.learned_text import RECIPES
from polydom.indexer.building.project import Project
from polydom.indexer.building.project_tables.search import FOLDS, HELD_OUT
from polydom.indexer.building.template import LEARNERS, TEMPLATE, template


def test_project_template_is_a_valid_project(tmp_path: Path) -> None:
    (tmp_path / "PROJECT.toml").write_text(TEMPLATE)
    project = Project.load(tmp_path / "PROJECT.toml")
    assert project.learner == {"name": "logistic"}
    assert project.path("photos") == tmp_path / "photos"


def test_project_template_shows_every_key_with_its_default() -> None:
    uncommented = "\n".join(
        line[2:] if line.startswith("# ") and ("=" in line or "[[" in line) else line
        for line in TEMPLATE.splitlines()[2:]
    )
    shown = tomllib.loads(uncommented)
    known = Project.from_mapping({"data": {"images": "photos"}})
    for name in ("data", "features", "quality", "search", "costs"):
        assert set(shown[name]) == set(getattr(known, name).__struct_fields__)
    for name in ("method", "alpha_of"):
        assert shown["search"][name] == getattr(known.search, name)
    assert shown["search"]["held_out"] == HELD_OUT
    assert shown["search"]["folds"] == FOLDS
    for name in set(known.costs.__struct_fields__) - {"size"}:
        assert shown["costs"][name] == getattr(known.costs, name)


@pytest.mark.parametrize("source", ["images", "texts", "table"])
def test_project_template_of_each_source_is_a_valid_project(source: str) -> None:
    content = tomllib.loads(template(source))
    project = Project.from_mapping(content)
    assert getattr(project.data, source) is not None
    assert bool(project.features.use) == (source != "table")
    assert project.learner["name"] == LEARNERS[source]
    (line,) = (one for one in template(source).splitlines() if "or linear_svm" in one)
    assert line.index("#") == 25
    known = {feature.name: feature.kind for feature in ready_made_features()}
    known |= {recipe.name: recipe.terms.kind for recipe in RECIPES}
    for name in project.features.use:
        assert known[name] == source.removesuffix("s")
