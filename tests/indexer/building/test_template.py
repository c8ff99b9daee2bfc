"""The project file that `polydom init` writes is one, and shows every key."""

import tomllib
from pathlib import Path
from typing import Any

import msgspec
import onnx
import pytest

from polydom.features.errors import BadFeature
from polydom.features.loading import ready_made_features
from polydom.features.networks.described_inputs import SIDES, TOKENS
from polydom.features.networks.terms import NetworkTerms
from polydom.features.ready_made.learned_text import RECIPES
from polydom.indexer.building.project import Project
from polydom.indexer.building.project_tables.fetches import FetchTerms
from polydom.indexer.building.project_tables.search import FOLDS, HELD_OUT
from polydom.indexer.building.template import (
    IMAGENET,
    LEARNERS,
    TEMPLATE,
    network_keys,
    template,
)
from tests.support.networks.small_networks import (
    of_columns,
    of_images,
    of_texts,
    tokenizer,
)


def test_project_template_is_a_valid_project(tmp_path: Path) -> None:
    (tmp_path / "PROJECT.toml").write_text(TEMPLATE)
    project = Project.load(tmp_path / "PROJECT.toml")
    assert project.learner == {"name": "logistic"}
    assert project.path("photos") == tmp_path / "photos"


def test_project_template_shows_every_key_with_its_default() -> None:
    uncommented = "\n".join(
        line[2:]
        if line.startswith("# ") and ("=" in line or line.startswith("# ["))
        else line
        for line in TEMPLATE.splitlines()[2:]
    )
    shown = tomllib.loads(uncommented)
    known = Project.from_mapping({"data": {"images": "photos"}})
    for name in ("data", "features", "quality", "search", "costs"):
        assert set(shown[name]) == set(getattr(known, name).__struct_fields__)
    (network,) = shown["features"]["networks"]
    assert network.keys() == {*NetworkTerms.__struct_fields__}
    fields = msgspec.structs.fields(FetchTerms)
    (fetch,) = shown["fetches"].values()
    assert fetch.keys() == {field.encode_name for field in fields}
    usual = NetworkTerms(network["name"], network["file"], network["kind"])
    for name in ("outputs", "pool", "most_columns", "colours", "resize"):
        assert network[name] == getattr(usual, name)
    assert network["providers"] == [*usual.providers]
    assert (network["sides"], network["tokens"]) == ([*SIDES], [*TOKENS])
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


@pytest.mark.parametrize(
    ("source", "model", "reads_texts", "keys"),
    [
        ("images", of_images(1), False, {"sides": [128, 224], **IMAGENET}),
        ("images", of_images(1, size=(32, 32)), False, IMAGENET),
        ("images", of_images(1, size=(32, 32), colours=1), False, {}),
        ("images", of_images(1, size=(32, 32), dtype="uint8"), False, {}),
        ("texts", of_texts(1), True, {"tokens": [32, 128]}),
        ("texts", of_texts(1, tokens=16), True, {}),
        ("table", of_texts(1), True, {"tokens": [32, 128]}),
        ("table", of_columns(2), False, {"columns": ["rows 1", "rows 2"]}),
    ],
)
def test_template_with_a_network_is_a_valid_project_that_uses_it(
    source: str, model: Any, reads_texts: bool, keys: dict[str, Any], tmp_path: Path
) -> None:
    file, words = tmp_path / "nets" / "my.onnx", tmp_path / "nets" / "tokenizer.json"
    file.parent.mkdir()
    onnx.save(model, file)
    words.write_bytes(tokenizer())
    found = network_keys(source, file, words if reads_texts else None, tmp_path)
    text = template(source, found)
    project = Project.from_mapping(tomllib.loads(text), folder=tmp_path)
    (terms,) = project.features.networks
    needed = {"name": "my", "file": "nets/my.onnx", "outputs": "auto", **keys}
    needed |= {"tokenizer": "nets/tokenizer.json"} if reads_texts else {}
    assert found == needed | {"kind": terms.kind}
    assert [*project.features.use] == tomllib.loads(template(source))["features"].get(
        "use", []
    )
    _, block = text.split("[[features.networks]]")
    block, _ = block.split("[learner]")
    for line in block.splitlines()[1:]:
        assert "#" in line or line == "" or line.startswith(" ")
    other = {"images": "texts:", "texts": "images:", "table": "images:"}[source]
    assert f"# {other}" not in block


def test_a_network_of_other_items_is_no_start_of_a_project(tmp_path: Path) -> None:
    onnx.save(of_images(1), tmp_path / "images.onnx")
    onnx.save(of_texts(1), tmp_path / "texts.onnx")
    for source, name, message in (
        ("table", "images.onnx", "reads images, and a table has records"),
        ("table", "texts.onnx", "no tokenizer came"),
        ("images", "texts.onnx", "a network of images has one"),
    ):
        with pytest.raises(BadFeature, match=message):
            network_keys(source, tmp_path / name, None, tmp_path)
