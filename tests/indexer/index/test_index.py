from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from polydom.features.errors import BadIndexFile, BadInput, NothingFits
from polydom.features.sizes import Size
from polydom.indexer import Candidate, Index
from polydom.indexer.index.file.pdx_file import read_file, write_file
from polydom.indexer.index.machine_speed import MachineFactors
from tests.support.builds.curves import RECTANGLE, Candidates, pair_candidates
from tests.support.indexes import served
from tests.support.oracles.lookups import best_accuracy


# 1 ms at accuracy 0.7; 2 ms + 1 us * n at 0.9
@cache
def small_index() -> Index:
    curves = [[1e-3, 0.0], [2e-3, 1e-6]]
    return Index.from_candidates(curves, [0.7, 0.9], (1, 10_000))


def test_best_takes_the_dearer_candidate_exactly_at_its_cost() -> None:
    cost_s = small_index().cost_s(1, 500)
    assert small_index().best(500, cost_s) == Candidate(1, cost_s, 0.9)
    assert small_index().best(500, np.nextafter(cost_s, 0)).row == 0


def test_best_says_what_the_cheapest_would_cost() -> None:
    with pytest.raises(NothingFits, match="cheapest model's 1,000 us") as caught:
        small_index().best(size=500, budget_s=0.5e-3)
    assert caught.value.cheapest_s == 1e-3


@pytest.mark.parametrize("size", [0, -1, float("nan"), float("inf")])
def test_best_refuses_a_size_that_is_no_size(size: float) -> None:
    with pytest.raises(BadInput, match="size is"):
        small_index().best(size=size, budget_s=1.0)


@pytest.mark.parametrize("budget_s", [-1e-9, float("nan")])
def test_best_refuses_a_budget_that_is_none(budget_s: float) -> None:
    with pytest.raises(BadInput, match="budget_s is"):
        small_index().best(size=1, budget_s=budget_s)


def test_best_gives_the_most_accurate_for_a_budget_without_end() -> None:
    assert small_index().best(size=1, budget_s=float("inf")).row == 1


@pytest.mark.parametrize("size", [0.5, 1e6])
def test_best_keeps_the_budget_outside_the_indexed_sizes(size: float) -> None:
    found = small_index().best(size, 2.5e-3)
    assert found.cost_s == small_index().cost_s(found.row, size) <= 2.5e-3


@given(
    coefficients=st.lists(
        st.lists(st.integers(0, 9), min_size=3, max_size=3), min_size=1, max_size=12
    ),
    data=st.data(),
)
def test_best_agrees_with_trying_every_candidate(
    coefficients: list[list[int]], data: st.DataObject
) -> None:
    accuracies = data.draw(
        st.lists(
            st.integers(0, 10).map(lambda k: k / 10),
            min_size=len(coefficients),
            max_size=len(coefficients),
        )
    )
    index = Index.from_candidates(coefficients, accuracies, (1, 8))
    size = data.draw(st.floats(1, 8))
    budget_s = data.draw(st.one_of(st.floats(0, 900), st.integers(0, 900)))
    expected = best_accuracy(index.coefficients, accuracies, size, budget_s)
    if expected is None:
        with pytest.raises(NothingFits):
            index.best(size, budget_s)
    else:
        found = index.best(size, budget_s)
        assert found.quality == expected
        assert found.cost_s <= budget_s


def test_index_is_the_same_after_saving_and_loading(tmp_path: Path) -> None:
    index = served.make_index()
    index.save(tmp_path / "a.pdx")
    loaded = Index.load(tmp_path / "a.pdx")
    assert loaded.package is not None
    assert index.package is not None
    assert loaded.sizes == index.sizes
    assert loaded.package.orders == index.package.orders
    assert loaded.package.fallbacks == index.package.fallbacks
    assert loaded.package.features == index.package.features
    assert loaded.package.meta == index.package.meta
    for size in (1, 50, 10_000):
        for budget_s in (0.0002, 0.0012, 0.0052, 1.0):
            assert loaded.best(size, budget_s) == index.best(size, budget_s)
    row = np.arange(4, dtype=np.float32)
    for one, other in zip(loaded.package.models, index.package.models, strict=True):
        assert one.answer(row) == other.answer(row)


def test_bare_index_saves_and_loads(tmp_path: Path) -> None:
    small_index().save(tmp_path / "a.pdx")
    loaded = Index.load(tmp_path / "a.pdx")
    assert loaded.package is None
    assert loaded.best(500, 1.0) == small_index().best(500, 1.0)
    assert len(loaded.version) == 64


@pytest.mark.parametrize("size", [1.0, 100.0, 10_000.0])
def test_rescaled_index_has_the_costs_of_each_part_times_its_factor(
    size: float, tmp_path: Path
) -> None:
    served.save_index(tmp_path)
    index = Index.load(tmp_path / "tiny.pdx")
    factors = MachineFactors(2.0, np.array([3.0]), np.array([5.0, 7.0, 0.5]), 11.0)
    rescaled = index.rescaled(factors, [0.0, 0.0, 0.0])
    own_ms = [5.0 * 1, 7.0 * (2 + 0.01 * size), 0.5 * 4]
    sums_ms = [0, own_ms[0], sum(own_ms[:2]) + 3, sum(own_ms) + 3]
    model_ms = 11.0 * 0.1
    for row, sum_ms in enumerate(sums_ms):
        expected_ms = 2.0 * 0.1 + sum_ms + model_ms
        assert rescaled.cost_s(row, size) * 1e3 == pytest.approx(expected_ms)
        found = rescaled.best(size, expected_ms / 1e3 * (1 + 1e-9))
        dearer = [sum_ms] if row == 3 else sums_ms[row + 1 :]
        assert found.row == row or min(dearer) <= sum_ms
    assert rescaled.version == index.version != ""
    assert rescaled.package is not None
    assert rescaled.package.overhead_s == pytest.approx(2e-4)
    np.testing.assert_allclose(rescaled.package.model_s, 1.1e-3)


@pytest.mark.parametrize("times", [0.125, 1.0, 3.0])
def test_index_rescaled_by_one_factor_buys_the_same_for_as_much_more(
    times: float,
) -> None:
    index = served.make_index()
    factors = MachineFactors(times, np.full(1, times), np.full(3, times), times)
    rescaled = index.rescaled(factors, np.zeros(3))
    for size in (1, 50, 10_000):
        for budget_s in (0.00021, 0.0013, 0.0053, 1.0):
            expected = index.best(size, budget_s).row
            assert rescaled.best(size, budget_s * times).row == expected


def test_rescaled_index_leaves_what_is_no_measured_time() -> None:
    index = served.make_index()
    factors = MachineFactors(1.0, np.ones(1), np.full(3, 8.0), 1.0)
    rescaled = index.rescaled(factors, [1e-3, 0.0, 0.0])
    assert rescaled.cost_s(1, 100) == pytest.approx(index.cost_s(1, 100))
    assert rescaled.cost_s(2, 100) == pytest.approx(5.2e-3 + 7 * 3e-3)


def test_bare_index_has_no_parts_to_rescale() -> None:
    with pytest.raises(BadInput, match="no parts"):
        small_index().rescaled(MachineFactors(1.0, np.ones(0), np.ones(0), 1.0), [])


Change = Callable[[dict[str, Any], dict[str, Any]], None]


def array(name: str, at: Any, value: float) -> Change:
    def change(meta: dict[str, Any], arrays: dict[str, Any]) -> None:
        arrays[name] = arrays[name].copy()
        arrays[name][at] = value

    return change


def without(name: str) -> Change:
    return lambda meta, arrays: arrays.pop(name)


def fact(name: str, value: Any) -> Change:
    return lambda meta, arrays: meta["package"].update({name: value})


def unknown_feature(meta: dict[str, Any], arrays: dict[str, Any]) -> None:
    array("masks", 1, 1 << 3)(meta, arrays)
    array("orders", (1, 0), 3)(meta, arrays)


def feature(name: str, value: Any) -> Change:
    return lambda meta, arrays: meta["package"]["features"][0].update({name: value})


@pytest.mark.parametrize(
    "change",
    [
        array("coefficients", (1, 0), np.nan),
        array("qualities", 0, 1.5),
        array("qualities", 0, np.nan),
        array("masks", 0, 1),
        array("masks", 3, 15),
        array("orders", (3, 0), 2),
        array("orders", (3, 0), 100),
        unknown_feature,
        array("fallbacks", (3, 0), 3),
        array("fallbacks", (3, 0), 100),
        array("fallbacks", (3, 3), -1),
        array("model_s", 0, -1.0),
        lambda meta, arrays: arrays.update({"costs/typical": np.full(4, 1.5)}),
        lambda meta, arrays: arrays.update({"costs/typical": np.full(4, 0.0)}),
        lambda meta, arrays: arrays.update({"costs/typical": np.full(3, 0.5)}),
        array("costs/features", (0, 0), -1.0),
        array("costs/steps", (0, 0), np.inf),
        array("models/1/classes", 1, 2),
        without("masks"),
        without("coefficients"),
        without("models/1/classes"),
        fact("labels", ["ham", "ham"]),
        fact("labels", []),
        fact("kind", "song"),
        fact("needs", [[0], [0]]),
        fact("needs", [[5], [0], [0]]),
        fact("features", []),
        fact("overhead_s", -1.0),
        fact("overhead_s", float("nan")),
        fact("model_kinds", ["prior"] * 3),
        fact("model_kinds", ["unheard of"] * 4),
        fact("surprise", 1),
        fact("meta", {"unit": None}),
        fact("meta", {"weights": {"s": "one"}}),
        fact("meta", {"quantile": 1}),
        fact("meta", {"quantile": float("nan")}),
        fact("meta", {"samples": None}),
        fact("meta", {"exits": "many"}),
        feature("width", 1 << 24),
        feature("columns", {}),
        feature("columns", {"columns": ["a"], "vocabularies": {"a": [[]]}}),
        feature("columns", {"columns": ["a"], "declared": {"s": "much"}}),
        lambda meta, arrays: meta.update(sizes=[5, 1]),
        lambda meta, arrays: meta.update(sizes=[0, 1]),
        lambda meta, arrays: meta.update(sizes="large"),
        lambda meta, arrays: arrays.update({"models/9/x": np.zeros(1)}),
        lambda meta, arrays: arrays.update(masks=arrays["masks"][:3]),
    ],
)
def test_index_file_that_contradicts_itself_is_refused(
    tmp_path: Path, change: Change
) -> None:
    meta, arrays, _ = read_file(served.save_index(tmp_path))
    change(meta, arrays)
    write_file(tmp_path / "bad.pdx", meta, arrays)
    with pytest.raises(BadIndexFile, match=r"bad\.pdx: "):
        Index.load(tmp_path / "bad.pdx")


@given(st.data())
def test_index_file_with_numbers_changed_is_refused_or_answers(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    folder = tmp_path_factory.mktemp("changed")
    pairs = data.draw(st.booleans())
    (served.make_pair_index() if pairs else served.make_index()).save(folder / "a.pdx")
    meta, arrays, _ = read_file(folder / "a.pdx")
    name = data.draw(st.sampled_from(sorted(arrays)))
    content = bytearray(arrays[name].tobytes())
    for _ in range(data.draw(st.integers(1, 4)) if content else 0):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(
            st.integers(0, 255)
        )
    kind, shape = arrays[name].dtype, arrays[name].shape
    arrays[name] = np.frombuffer(bytes(content), kind).reshape(shape)
    write_file(folder / "a.pdx", meta, arrays)
    try:
        index = Index.load(folder / "a.pdx")
    except BadIndexFile:
        return
    assert index.package is not None
    row = np.ones(sum(served.WIDTHS), np.float32)
    sizes: list[Size] = [1.0, 100.0, 10_000.0]
    for size in [(n, n / 9) for n in (1.0, 100.0, 1e4)] if pairs else sizes:
        for budget_s in (0.0, 0.002, 1.0):
            try:
                found = index.best(size, budget_s)
            except NothingFits:
                continue
            assert found.cost_s <= budget_s
            assert 0 <= found.row < len(index.qualities)
    for model in index.package.models:
        assert len(model.answer(row)[1]) == len(model.classes)


# by height alone; by width times height
@cache
def pair_index() -> Index:
    curves = [[0, 0, 1e-6, 0, 0, 0], [1e-3, 0, 0, 0, 2e-8, 0]]
    return Index.from_candidates(curves, [0.7, 0.9], ((8, 8), (4e3, 4e3)))


@given(
    drawn=pair_candidates(),
    size=st.tuples(st.floats(1, 8), st.floats(0.5, 32)),
    budget_s=st.floats(0, 900),
)
def test_best_of_pairs_agrees_with_trying_every_candidate(
    drawn: Candidates, size: tuple[float, float], budget_s: float
) -> None:
    coefficients, accuracies = drawn
    index = Index.from_candidates(coefficients, accuracies, RECTANGLE)
    costs_s = [index.cost_s(row, size) for row in range(len(accuracies))]
    fits = [a for a, s in zip(accuracies, costs_s, strict=True) if s <= budget_s]
    if not fits:
        with pytest.raises(NothingFits) as caught:
            index.best(size, budget_s)
        assert caught.value.cheapest_s == pytest.approx(min(costs_s))
        return
    found = index.best(size, budget_s)
    assert found.quality == max(fits)
    assert found.cost_s == costs_s[found.row] <= budget_s


def test_index_of_pairs_saves_and_loads(tmp_path: Path) -> None:
    index = served.make_pair_index()
    index.save(tmp_path / "a.pdx")
    loaded = Index.load(tmp_path / "a.pdx")
    assert loaded.sizes == index.sizes == ((1.0, 1.0), (2000.0, 100.0))
    assert loaded.pairs
    for size in ((1.0, 1.0), (700.0, 3.0), (5.0, 90.0)):
        assert loaded.skyline(size).tolist() == index.skyline(size).tolist()
        for budget_s in (0.0002, 0.0052, 0.02, 1.0):
            assert loaded.best(size, budget_s) == index.best(size, budget_s)


def test_nothing_fits_names_both_numbers_of_a_size() -> None:
    with pytest.raises(NothingFits, match="for an item of size 640 x 480"):
        pair_index().best((640.0, 480.0), 1e-6)


@pytest.mark.parametrize("size", [640.0, (0.0, 1.0), (1.0, float("nan")), (1, 2, 3)])
def test_best_of_pairs_refuses_a_size_that_is_no_pair(size: Any) -> None:
    with pytest.raises(
        BadInput, match=r"size is .* 2 numbers, finite and greater than 0,"
    ):
        pair_index().best(size, 1.0)


def test_best_refuses_a_pair_where_sizes_are_numbers() -> None:
    with pytest.raises(BadInput, match=r"size is \(1, 2\); 1 number, finite"):
        small_index().best((1, 2), 1.0)


@pytest.mark.parametrize("sizes", [(0, 9), ((0, 1), (9, 9))])
def test_sizes_that_no_file_could_hold_are_refused(sizes: Any) -> None:
    with pytest.raises(BadInput, match="sizes are"):
        Index.from_candidates([[1.0]], [0.5], sizes)


def test_sizes_must_both_be_numbers_or_both_pairs() -> None:
    with pytest.raises(BadInput, match="both of one number or of two"):
        Index.from_candidates([[1.0]], [0.5], (1, (2, 2)))


@pytest.mark.parametrize(
    "change",
    [
        array("coefficients", (1, 0), np.nan),
        lambda meta, arrays: meta.update(sizes=[1, 9]),
        lambda meta, arrays: meta.update(sizes=[[1, 1], 9]),
        lambda meta, arrays: meta.update(sizes=[[1, 2], [9, 1]]),
        lambda meta, arrays: meta.update(sizes=[[1, 2, 3], [4, 5, 6]]),
        lambda meta, arrays: arrays.update(coefficients=np.ones((4, 2))),
        lambda meta, arrays: arrays.update({"costs/overhead": np.ones(2)}),
        lambda meta, arrays: arrays.update(
            {
                f"costs/{part}": arrays[f"costs/{part}"][..., :2].copy()
                for part in ("features", "steps", "overhead")
            }
        ),
        without("lookup/nodes"),
    ],
)
def test_index_file_of_pairs_that_contradicts_itself_is_refused(
    tmp_path: Path, change: Change
) -> None:
    served.make_pair_index().save(tmp_path / "a.pdx")
    meta, arrays, _ = read_file(tmp_path / "a.pdx")
    change(meta, arrays)
    write_file(tmp_path / "bad.pdx", meta, arrays)
    with pytest.raises(BadIndexFile, match=r"bad\.pdx: "):
        Index.load(tmp_path / "bad.pdx")


def test_index_is_shown_short() -> None:
    index = served.make_index()
    assert len(repr(index)) < 100
    assert repr(small_index()) == "<Index of 2 candidates, sizes 1 to 10000>"


def test_index_cannot_be_changed_and_changes_nothing_of_its_caller() -> None:
    costs, accuracies = np.array([[1e-3, 0.0], [2e-3, 1e-6]]), np.array([0.7, 0.9])
    index = Index.from_candidates(costs, accuracies, (1, 10_000))
    for array in (index.coefficients, index.qualities):
        with pytest.raises(ValueError, match="read-only"):
            array[...] = 0
    costs[0] = 9.0
    assert index.best(5, 1e-3).quality == 0.7
