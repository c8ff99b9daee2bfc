"""Measuring an index anew: `polydom measure`, in process and by its effects."""

import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from fastapi.testclient import TestClient

from polydom.features.costs.machine import Machine
from polydom.features.errors import BadInput, BadProject
from polydom.indexer import Index, build
from polydom.indexer.building.costs.remeasure import (
    carried_items,
    project_items,
    remeasure,
)
from polydom.indexer.building.project import Project
from polydom.indexer.progress import Silence
from polydom.server.__main__ import main
from polydom.server.app import create_app
from tests.support.builds import projects
from tests.support.builds.progresses import Stages
from tests.support.indexes import served


@pytest.fixture(scope="module")
def spoiled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project, and its index with costs a thousand times too high: a bad day's."""
    folder = projects.texts(tmp_path_factory.mktemp("spoiled"))
    index = build(folder / "PROJECT.toml", cache=folder / "cache")
    package = index.package
    assert package is not None
    costs = package.costs
    bad = replace(
        costs,
        feature_coefficients=1000 * costs.feature_coefficients,
        step_coefficients=1000 * costs.step_coefficients,
    )
    meta = package.meta | {
        "measured": {"busy": True, "lost": 0.3, "others": 1.5, "processors": 2}
    }
    spoiled = replace(package, costs=bad, meta=meta)
    Index.from_candidates(
        1000 * index.coefficients, index.qualities, index.sizes, spoiled
    ).save(folder / "my.pdx")
    return folder


@pytest.mark.parametrize("data", [False, True], ids=["samples", "project"])
def test_measure_writes_the_same_candidates_with_what_they_cost_here(
    spoiled: Path, data: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    old, new = spoiled / "my.pdx", spoiled / "new.pdx"
    before = old.read_bytes()
    more = ["--data", str(spoiled / "PROJECT.toml")] if data else []
    assert main(["measure", str(old), "-o", str(new), *more]) == 0
    said = capsys.readouterr()
    assert f"wrote {new}" in said.out
    assert f"measured on {8 if data else 6} items" in said.out
    assert "sets that the build dropped stay dropped" in said.out
    assert "measuring costs" in said.err
    assert "timing samples" in said.err
    assert old.read_bytes() == before
    first, second = Index.load(old), Index.load(new)
    assert first.package is not None
    assert second.package is not None
    assert second.package.masks.tolist() == first.package.masks.tolist()
    assert second.package.orders == first.package.orders
    assert second.package.fallbacks == first.package.fallbacks
    assert second.package.margins == first.package.margins
    assert second.qualities.tolist() == first.qualities.tolist()
    assert second.sizes == first.sizes
    assert second.package.meta["samples"] == first.package.meta["samples"]
    assert second.package.meta["pace"] != first.package.meta["pace"]
    whole = int(np.argmax(second.package.masks))
    middle = float(np.mean(second.sizes))
    assert second.cost_s(whole, middle) < first.cost_s(whole, middle) / 30


def test_measure_may_replace_the_index_itself(
    spoiled: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "my.pdx"
    path.write_bytes((spoiled / "my.pdx").read_bytes())
    before = Index.load(path).version
    assert main(["measure", str(path), "-o", str(path), "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["version"] == Index.load(path).version != before
    assert list(tmp_path.iterdir()) == [path]


def test_costs_of_plans_are_those_of_their_parts(spoiled: Path) -> None:
    """Features, steps and overhead, the model, and the models at early exits."""
    index = Index.load(spoiled / "my.pdx")
    package = index.package
    assert package is not None
    never = [(math.inf,) * len(row) for row in package.fallbacks]
    margins = tuple((0.9, *row[1:]) if row[1:] else row for row in never)
    index = replace(index, package=replace(package, margins=margins))
    stages = Stages()
    found = remeasure(index, carried_items(index), stages)
    new = found.package
    assert new is not None
    assert stages.done["timing models"] == len(new.models)
    assert any(np.isfinite(margins).any() for margins in new.margins)
    for row, mask in enumerate(new.masks.tolist()):
        parts = new.costs.of(mask)
        if mask:
            stops = [k for k, one in enumerate(new.margins[row]) if np.isfinite(one)]
            parts = parts.copy()
            parts[0] += new.model_s[row]
            parts[0] += sum(new.model_s[new.fallbacks[row][k]] for k in stops)
        np.testing.assert_allclose(found.coefficients[row], parts)


def test_what_cannot_be_measured_is_refused(spoiled: Path, tmp_path: Path) -> None:
    index = Index.load(spoiled / "my.pdx")
    package = index.package
    assert package is not None
    items = carried_items(index)
    bare = replace(index, package=None)
    with pytest.raises(BadInput, match="bare candidates have no features"):
        carried_items(bare)
    with pytest.raises(BadInput, match="bare candidates have no features"):
        remeasure(bare, items, Silence())
    without = replace(package, meta=package.meta | {"samples": []})
    with pytest.raises(BadInput, match=r"no samples .* --data PROJECT.toml"):
        carried_items(replace(index, package=without))
    money = replace(package, meta=package.meta | {"weights": {"usd": 1.0}})
    with pytest.raises(BadInput, match="counts no time"):
        remeasure(replace(index, package=money), items, Silence())
    (tmp_path / "rows.csv").write_text("a,label\n1,x\n2,y\n")
    table = Project.from_mapping({"data": {"table": "rows.csv"}}, folder=tmp_path)
    with pytest.raises(BadProject, match=r"items are records .* the index is of texts"):
        project_items(index, table)


def test_measure_finds_features_of_the_users_own(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "own.pdx"
    index = served.make_index()
    index.save(path)
    arguments = ["measure", str(path), "-o", str(tmp_path / "new.pdx")]
    assert main(arguments) == 1
    assert "--features FILE" in capsys.readouterr().err
    assert main([*arguments, "--features", str(served.FEATURES_FILE)]) == 0
    assert (tmp_path / "new.pdx").exists()


def test_an_index_measured_on_a_busy_machine_says_so_everywhere(
    spoiled: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = spoiled / "my.pdx"
    assert main(["inspect", str(path)]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "the machine was busy while costs were measured" in shown
    assert "took 30.0% of the time of what was timed and 1.5 of 2 processors" in shown
    assert "`polydom measure` measures them anew" in shown
    with TestClient(create_app({"my": path})) as client:
        measured = client.get("/v1/index").json()["measured"]
    load = {"busy": True, "lost": 0.3, "others": 1.5, "processors": 2}
    assert measured == {**load, "machines": []}


def test_a_build_says_how_busy_the_machine_was(spoiled: Path) -> None:
    index = build(spoiled / "PROJECT.toml", cache=spoiled / "cache")
    assert index.package is not None
    measured = index.package.meta["measured"]
    assert set(measured) == {"busy", "lost", "others", "processors", "machines"}
    assert 0 <= measured["lost"] <= 1


def test_an_index_says_where_its_costs_were_measured(
    spoiled: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "my.pdx"
    index = build(spoiled / "PROJECT.toml", cache=spoiled / "cache", output=path)
    assert index.package is not None
    (machine,) = index.package.meta["measured"]["machines"]
    assert Machine(**machine)[:2] == Machine.here()[:2]
    where = f"{machine['processor']} ({machine['cores']} cores, {machine['day']})"
    for more, said in (([], "keep to, on"), (["-v"], "costs were measured on")):
        assert main(["inspect", str(path), *more]) == 0
        assert f"{said} {where}" in " ".join(capsys.readouterr().out.split())
    report = tmp_path / "report.html"
    assert main(["inspect", str(path), "--html", str(report)]) == 0
    assert f"keep to, on {where}, without HTTP" in report.read_text()
    with TestClient(create_app({"my": path})) as client:
        assert client.get("/v1/index").json()["measured"]["machines"] == [machine]


def test_an_index_for_known_budgets_keeps_its_sets_when_measured_anew(
    tmp_path: Path,
) -> None:
    project = projects.TEXTS + "[search]\nbudgets = [2e-4, 1e-2]\n"
    folder = projects.texts(tmp_path, project=project)
    index = build(folder / "PROJECT.toml")
    new = remeasure(index, carried_items(index), Silence())
    assert index.package is not None
    assert new.package is not None
    assert new.package.masks.tolist() == index.package.masks.tolist()
    assert new.package.orders == index.package.orders
    assert new.qualities.tolist() == index.qualities.tolist()
    for budget in (1e-3, 1e-2):
        assert new.best(200.0, budget).cost_s <= budget
