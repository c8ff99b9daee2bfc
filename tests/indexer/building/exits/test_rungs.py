"""Candidates that answer with the first base models of another candidate's model."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from polydom.indexer.building.exits.rungs import (
    FEWEST,
    LONG_S,
    Rung,
    add_rungs,
    fallbacks_of,
    is_long,
    least_onwards,
    losses,
    rung_sizes,
)
from polydom.indexer.building.training.quality import Metric
from polydom.indexer.index.package import Package
from polydom.models.early_exit.early_exits import EarlyExit, MarginExit
from polydom.models.early_exit.model_part import ModelPart
from tests.support.indexes.stopping_records import draw_rows, label_rows, make_index


def package_of(classes: int) -> Package:
    package = make_index(classes).package
    assert package is not None
    return package


def exits_of(classes: int) -> EarlyExit | MarginExit:
    exits = package_of(classes).early_exits[2]
    assert exits is not None
    return exits


@pytest.mark.jit
@pytest.mark.parametrize("classes", [2, 3])
def test_rungs_are_parts_that_fall_by_a_constant_share(classes: int) -> None:
    exits = exits_of(classes)
    sizes = rung_sizes(exits)
    assert sizes == ([24] if classes == 2 else [10, 14])
    for size in sizes:
        assert size % exits.step == 0
        assert FEWEST <= size < exits.size


@pytest.mark.parametrize(
    ("model_s", "set_s", "long"),
    [
        (LONG_S, 0.0, True),
        (np.nextafter(LONG_S, 0), 0.0, False),
        (LONG_S, 8.9 * LONG_S, True),
        (LONG_S, 9.1 * LONG_S, False),
    ],
)
def test_a_model_is_long_by_itself_and_beside_its_features(
    model_s: float, set_s: float, long: bool
) -> None:
    assert is_long(model_s, set_s, 1.0) == long
    assert is_long(3 * model_s, 3 * set_s, 3.0) == long
    assert not is_long(model_s, set_s, 0.0)  # costs without time


@pytest.mark.parametrize("classes", [2, 3])
def test_losses_are_those_of_answers_counted_by_hand(classes: int) -> None:
    rows, exits = draw_rows(150, 4), exits_of(classes)
    codes = label_rows(rows, classes)
    whole = package_of(classes).models[2]
    counts = [24] if classes == 2 else [2, 10]
    parts = [ModelPart(exits, count) for count in counts]
    found = losses(Metric("accuracy", classes), whole, parts, (rows, codes))

    def right(model: Any) -> float:
        labels = [model.classes[model.answer(row)[0]] for row in rows]
        return float(np.mean(np.array(labels) == codes))

    for part, (quality, accuracy) in zip(parts, found, strict=True):
        assert quality == accuracy == pytest.approx(right(whole) - right(part))


def rungs_of(*numbers: tuple[int, float, float]) -> list[Rung]:
    """Rungs of the last row: base models, lost quality and cost of each."""
    return [
        Rung(2, ModelPart(exits_of(3), count), lost, lost, cost, cost)
        for count, lost, cost in numbers
    ]


def test_rungs_are_kept_where_more_base_models_are_better() -> None:
    package, qualities = package_of(3), np.array([0.5, 0.7, 0.9])
    given = rungs_of(
        (12, 0.0, 8e-5),  # as good as the whole model
        (4, 0.3, 3e-5),
        (1, 0.4, 1e-5),  # no better than the prior
        (6, 0.35, 4e-5),  # worse than fewer
        (8, 0.3, 5e-5),  # as good as fewer
        (10, -0.05, 6e-5),  # better than the whole model, by luck
        (9, 0.1, 5.5e-5),
    )
    larger, found = add_rungs(package, qualities, given)
    assert larger.base_models == [0, 0, 0, 4, 9, 10]
    assert found[:5] == pytest.approx([0.5, 0.7, 0.9, 0.6, 0.8])
    assert found[5] == np.nextafter(0.9, 0.0)
    assert larger.masks.tolist() == [0, 1, 3, 3, 3, 3]
    assert larger.model_s[3:].tolist() == [3e-5, 5.5e-5, 6e-5]
    assert larger.whole_s[3:].tolist() == [package.whole_s[2]] * 3
    assert larger.fallbacks[3:] == ((0, 0, 3), (0, 0, 4), (0, 0, 5))
    assert larger.ends[3:] == ((0.0, 0.0, 1.0),) * 3


def test_without_rungs_nothing_changes() -> None:
    package, qualities = package_of(2), np.array([0.5, 0.7, 0.9])
    assert add_rungs(package, qualities, []) == (package, qualities)


@given(seed=st.integers(0, 9999))
def test_fallbacks_are_the_best_that_fit(seed: int) -> None:
    draw = np.random.default_rng(seed)
    order = draw.permutation(4).tolist()
    masks = [0, *draw.integers(1, 16, 6).tolist(), 15]
    qualities: NDArray[np.float64] = draw.choice(9, 8, replace=True) / 10
    qualities[0], qualities[7] = 0.0, 0.9
    costs = draw.random(8)
    found = fallbacks_of(7, order, masks, qualities, costs)
    assert len(found) == 5
    assert found[-1] == 7
    done = 0
    for k, row in enumerate(found[:-1]):
        fits = [
            qualities[one]
            for one, mask in enumerate(masks)
            if not mask & ~done
            and (not mask or costs[one] <= costs[7])
            and qualities[one] <= qualities[7]
        ]
        assert qualities[row] == max(fits)
        assert not masks[row] & ~done
        done |= 1 << order[k]


@given(st.lists(st.floats(0, 1), min_size=1, max_size=9))
def test_fewer_base_models_cost_no_more(seconds: list[float]) -> None:
    found = least_onwards(np.array(seconds))
    assert found.tolist() == [min(seconds[k:]) for k in range(len(seconds))]
