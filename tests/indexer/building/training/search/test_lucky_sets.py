"""A smaller set leads a larger one that costs hardly more only by more than luck."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from polydom.indexer.building.training.search.lucky_sets import (
    level_lucky_sets,
    luck_of,
    standard_error,
)

Floats = NDArray[np.float64]
MASKS = [0, 1, 2, 3]


def level(parts: NDArray[np.bool_], costs: list[float], negligible: float) -> Floats:
    """Level the sets of two features."""
    count = parts.shape[1]
    return level_lucky_sets(
        MASKS,
        parts.mean(axis=1),
        np.array(costs),
        lambda masks: parts[masks],
        np.arange(count),
        np.ones(count),
        negligible,
    )


def rights(*counts: int, of: int = 1000) -> NDArray[np.bool_]:
    """Answers of which so many are right; the last set is right of other items."""
    firsts = np.arange(of) < np.array(counts)[:, None]
    firsts[-1] = firsts[-1, ::-1]
    return firsts


def test_a_lead_of_one_item_is_luck_and_one_of_many_is_not() -> None:
    levelled = level(rights(500, 701, 780, 700), [0.0, 1.0, 1.0, 1.5], 1.0)
    assert levelled.tolist() == [0.5, np.nextafter(0.7, 0), 0.78, 0.7]


@pytest.mark.parametrize("negligible", [0.4999, 0.5])
def test_a_larger_set_that_costs_more_is_no_rival(negligible: float) -> None:
    levelled = level(rights(500, 701, 600, 700), [0.0, 1.0, 1.0, 1.5], negligible)
    assert (levelled[1] < 0.7) == (negligible == 0.5)


def test_the_empty_set_and_equal_sets_are_as_measured() -> None:
    levelled = level(rights(700, 700, 600, 700), [0.0, 1.0, 1.0, 1.0], 9.0)
    assert levelled.tolist() == [0.7, np.nextafter(0.7, 0), 0.6, 0.7]


@given(
    draws=st.lists(st.integers(0, 255), min_size=12, max_size=12),
    costs=st.lists(st.integers(0, 3), min_size=4, max_size=4),
)
def test_no_lucky_set_leads_and_no_other_changes(
    draws: list[int], costs: list[int]
) -> None:
    parts = np.array([[d >> s & 1 for d in draws] for s in range(4)], bool)
    found, raw = level(parts, [float(c) for c in costs], 1.0), parts.mean(axis=1)
    assert (found <= raw).all()
    assert found[0] == raw[0]
    assert found[3] == raw[3]
    ahead = [m for m in (1, 2) if costs[3] - costs[m] <= 1 and raw[m] >= raw[3]]
    for mask in (1, 2):
        lead = parts[mask].astype(float) - parts[3]
        if mask in ahead and lead.mean() <= luck_of(len(ahead)) * lead.std() / 12**0.5:
            assert found[mask] == np.nextafter(raw[3], 0)
        else:
            assert found[mask] == raw[mask]


@pytest.mark.parametrize("ahead", [1, 3, 40])
def test_the_best_of_equal_sets_is_lucky_in_five_of_six_cases(ahead: int) -> None:
    rng = np.random.default_rng(ahead)
    leads = rng.standard_normal((4000, 2 * ahead)).max(axis=1)
    assert np.mean(leads > luck_of(ahead)) == pytest.approx(1 / 6, abs=0.03)


def test_the_best_of_many_equal_sets_leads_no_larger_set() -> None:
    rng = np.random.default_rng(0)
    answers = rng.random((41, 2000)) < 0.8
    by_quality = answers.mean(axis=1).argsort()
    answers = answers[np.roll(by_quality, 20)]  # the median is that of the larger set
    masks = [*(1 << k for k in range(40)), (1 << 40) - 1]

    def levelled(parts: NDArray[np.bool_]) -> Floats:
        return level_lucky_sets(
            masks,
            parts.mean(axis=1),
            np.zeros(41),
            lambda own: parts[[masks.index(mask) for mask in own]],
            np.arange(2000),
            np.ones(2000),
            1.0,
        )

    best = answers[:40].mean(axis=1).argmax()
    lead = answers[best].astype(float) - answers[40]
    assert lead.mean() > standard_error(lead, np.arange(2000), np.ones(2000))
    assert levelled(answers).argmax() == 40
    answers[7, :1800] = True  # not by luck
    assert levelled(answers).argmax() == 7


def test_items_of_one_group_are_one_observation() -> None:
    values = np.array([1.0, 1.0, 0.0, 0.0])
    alone = standard_error(values, np.arange(4), np.ones(4))
    assert alone == pytest.approx(values.std() / 2)
    paired = standard_error(values, np.array([0, 0, 1, 1]), np.ones(4))
    assert paired == pytest.approx(alone * math.sqrt(2))
