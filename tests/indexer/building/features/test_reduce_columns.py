"""Columns of networks that a build reduces: the textbook's projection, honestly."""

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from polydom.features.errors import BadFeature
from polydom.indexer import Index, Project
from polydom.indexer.building.cache import Cache
from polydom.indexer.building.features import reduce_columns as module
from polydom.indexer.building.features.reduce_columns import (
    fit_reduction,
    projected,
    with_reductions,
)
from polydom.indexer.building.prepare import Prepared
from tests.support.builds import recorded_times
from tests.support.builds.progresses import Stages
from tests.support.builds.staged_build import StagedBuild

COLUMNS, WIDTH, MOST = 4, 9, 3


def drawn(count: int, width: int, varying: int, seed: int = 0) -> NDArray[np.float32]:
    """Rows that vary in a few directions, each half as much as the one before."""
    draw = np.random.default_rng(seed)
    inside = draw.normal(size=(count, varying)) * 0.5 ** np.arange(varying)
    return (inside @ draw.normal(size=(varying, width)) + 3).astype(np.float32)


def textbook(values: NDArray[np.float32], most: int) -> NDArray[np.float64]:
    """Principal components of rows, by the singular values of the centred rows."""
    centred = values.astype(np.float64) - values.mean(axis=0, dtype=np.float64)
    return np.linalg.svd(centred, full_matrices=False)[2][:most].T


@given(st.integers(2, 40), st.integers(2, 12), st.integers(1, 4), st.integers(1, 6))
def test_directions_span_those_of_the_largest_singular_values(
    count: int, width: int, varying: int, most: int
) -> None:
    values = drawn(count, width, varying, seed=count)
    found = fit_reduction(values, most)
    assert found is not None
    components = found.projection.components
    kept = components.shape[1]
    assert kept == min(most, varying, width, count - 1)
    expected = textbook(values, kept)
    # the same space, in which the directions are other ones
    assert components @ components.T == pytest.approx(expected @ expected.T, abs=1e-3)
    assert components.T @ components == pytest.approx(np.eye(kept), abs=1e-5)
    centred = values.astype(np.float64) - values.mean(axis=0, dtype=np.float64)
    share = ((centred @ expected) ** 2).sum() / (centred**2).sum()
    assert found.facts.kept == pytest.approx(share, abs=1e-6)
    assert (found.facts.columns, found.facts.items) == (width, count)


@pytest.mark.parametrize(
    "values",
    [
        np.full((5, 4), 7.3),
        np.ones((1, 4)),
        np.full((6, 4), np.nan),
        np.where(np.arange(6)[:, None] == 2, 5.0, np.nan) * np.ones(4),
    ],
    ids=["constant", "one item", "all missing", "one that is not missing"],
)
def test_what_does_not_vary_is_not_reduced(values: NDArray[np.float64]) -> None:
    assert fit_reduction(values.astype(np.float32), 2) is None


def test_rows_with_missing_values_are_left_out_of_the_fit() -> None:
    values = drawn(40, 6, 6)
    values[::5, 2] = np.nan
    found, rest = (
        fit_reduction(v, 3) for v in (values, np.delete(values, np.s_[::5], 0))
    )
    assert found is not None
    assert rest is not None
    assert found.facts == rest.facts
    np.testing.assert_array_equal(
        found.projection.components, rest.projection.components
    )


def test_columns_vary_about_as_much() -> None:
    values = drawn(400, 60, 8)
    found = fit_reduction(values, 8)
    assert found is not None
    spread = found.projection(values).std(axis=0)
    assert spread.max() < 5 * spread.min()  # of the components, 100 times
    plain = (values - values.mean(axis=0)) @ textbook(values, 8)
    assert plain.std(axis=0).max() > 50 * plain.std(axis=0).min()


def test_directions_of_rounding_errors_are_left_out() -> None:
    values = drawn(200, 6, 2) + np.float32(1000)
    found = fit_reduction(values, 5)
    assert found is not None
    assert found.projection.components.shape == (6, 2)


def write_project(folder: Path, most: int = MOST, **more: Any) -> Project:
    """A project of rows and a network that makes nine columns of their four."""
    draw = np.random.default_rng(5)
    weights = ", ".join(map(str, draw.normal(size=COLUMNS * WIDTH)))
    network = onnx.parser.parse_model(
        f"""<ir_version: 8, opset_import: ["": 17]>
        g (float[n,{COLUMNS}] rows) => (float[n,{WIDTH}] scores)
        <float[{COLUMNS},{WIDTH}] w = {{{weights}}}>
        {{ y = MatMul(rows, w) scores = Tanh(y) }}"""
    )
    onnx.save(network, folder / "net.onnx")
    names = [f"c{k}" for k in range(COLUMNS)]
    rows = draw.normal(size=(80, COLUMNS))
    lines = [
        ",".join([*map(str, row), "high" if row.sum() > 0 else "low"])
        for row in rows.round(3)
    ]
    (folder / "rows.csv").write_text("\n".join([",".join([*names, "label"]), *lines]))
    terms = {"name": "net", "file": "net.onnx", "kind": "record", "columns": names}
    content = {
        "data": {"table": "rows.csv"},
        "features": {
            "columns": [{"name": "first", "columns": ["c0"]}],
            "networks": [terms | {"most_columns": most, "outputs": "end"}],
        },
        "learner": {"name": "lda"},
        "search": {"held_out": 0.25},
        **more,
    }
    return Project.from_mapping(content, folder=folder)


def prepared(
    folder: Path, most: int = MOST, stages: Stages | None = None, **more: Any
) -> Prepared:
    project = write_project(folder, most, **more)
    return StagedBuild(project, folder / "cache", stages).data


def test_a_feature_is_reduced_by_its_training_items_alone(tmp_path: Path) -> None:
    whole, data = prepared(tmp_path, 0), prepared(tmp_path)
    ((train, test),) = data.splits
    raw, stored = whole.table.features.stored[0], data.table.features.stored[0]
    assert (raw.width, stored.width) == (WIDTH, MOST)
    expected = fit_reduction(whole.table.values[train, :WIDTH], MOST)
    assert expected is not None
    assert stored.reduced == expected.facts
    projection = data.table.features.learned["net_1"]
    for name, array in expected.projection.arrays().items():
        np.testing.assert_array_equal(projection.arrays()[name], array)
    other = fit_reduction(whole.table.values[:, :WIDTH], MOST)
    assert other is not None
    assert other.facts.items == len(train) + len(test)
    assert data.final is data.table  # models of all items read the same columns


def test_values_are_those_of_the_feature(tmp_path: Path) -> None:
    data = prepared(tmp_path)
    extractor, dataset = data.table.features.extractor, data.table.dataset
    for row, item in enumerate(dataset.items):
        assert extractor.extract(item) == pytest.approx(
            data.table.values[row], abs=1e-5
        )


def test_values_and_analyses_are_computed_once(tmp_path: Path) -> None:
    first, again, wider = Stages(), Stages(), Stages()
    data = prepared(tmp_path, MOST, first)
    assert first.done[module.STAGE] == 1
    same = prepared(tmp_path, MOST, again)
    assert module.STAGE in again.done
    assert again.done[module.STAGE] == 0
    assert same.table.features.stored == data.table.features.stored
    np.testing.assert_array_equal(same.table.values, data.table.values)
    entries = {*(tmp_path / "cache" / "values").rglob("*.pdx")}
    prepared(tmp_path, MOST + 1, wider)
    assert wider.done[module.STAGE] == 1
    assert {*(tmp_path / "cache" / "values").rglob("*.pdx")} == entries


def test_features_without_their_reductions_are_the_network_s(tmp_path: Path) -> None:
    whole, data = prepared(tmp_path, 0), prepared(tmp_path)
    bare = with_reductions(data.table.features, {})
    assert bare.stored == whole.table.features.stored
    assert not bare.learned
    assert with_reductions(bare, {}) is bare


def test_a_reduction_that_overflows_is_refused(tmp_path: Path) -> None:
    whole, data = prepared(tmp_path, 0), prepared(tmp_path)
    huge = whole.table._replace(values=np.full_like(whole.table.values, 3e38))
    with pytest.raises(BadFeature, match=r"'net_1' go up to 3e\+38.*most_columns = 0"):
        projected(huge, data.table.features)
    missing = whole.table._replace(values=np.full_like(whole.table.values, np.nan))
    assert np.isnan(projected(missing, data.table.features).values).all()


def test_an_index_has_the_reduction_and_answers_with_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorded_times.use(monkeypatch)
    search = {"folds": 2, "budget_s": 0.1, "refit": False}
    costs = {"items": 3, "repeats": 1}
    project = write_project(tmp_path, search=search, costs=costs)
    build = StagedBuild(project, tmp_path / "cache")
    build.index().save(tmp_path / "net.pdx")
    package = Index.load(tmp_path / "net.pdx").package
    assert package is not None
    stored = package.features[0]
    assert stored.reduced
    assert stored.reduced.items == 80
    assert stored.width == MOST
    row = package.extractor().extract(build.table.dataset.items[0])
    assert row == pytest.approx(build.table.values[0], abs=1e-5)


def test_workers_get_the_reduction(tmp_path: Path) -> None:
    data = prepared(tmp_path)
    cache = Cache(tmp_path / "cache")
    sent = pickle.loads(pickle.dumps(data.table.features.shared(cache)))
    row = sent.extractor.extract(data.table.dataset.items[0])
    assert row == pytest.approx(data.table.values[0], abs=1e-5)
