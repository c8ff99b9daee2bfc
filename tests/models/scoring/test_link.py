"""Kernels of class scores: bounds of those of sums that are not whole, and choices."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from polydom.models.scoring.classifier import Head
from polydom.models.scoring.kernels.link import (
    EACH,
    HUBER,
    LARGEST,
    LARGEST_SCORE,
    LOGISTIC,
    MARGIN,
    SOFTMAX,
    bound_scores,
    choose_whole,
)
from tests.support.examples import few
from tests.support.oracles.early_exit import score_ends


@pytest.mark.parametrize(
    ("link", "classes"),
    [(SOFTMAX, 3), (EACH, 3), (HUBER, 3), (LOGISTIC, 3), (MARGIN, 3), (SOFTMAX, 2)],
)
@settings(max_examples=few(100))
@given(data=st.data())
def test_bounds_are_the_ends_of_all_that_may_be_added(
    link: int, classes: int, data: Any
) -> None:
    number = st.floats(-3, 3) | st.sampled_from([0.0, 40.0, -40.0, 800.0, -800.0])
    draw = np.random.default_rng(data.draw(st.integers(0, 999)))
    sums = np.array(data.draw(st.lists(number, min_size=classes, max_size=classes)))
    T, gain = data.draw(st.integers(1, 4)), data.draw(st.sampled_from([1.0, 0.3, 7.0]))
    ends = np.sort(draw.normal(0, data.draw(st.floats(0, 5)), (T, 2, classes)), axis=1)
    rule = LARGEST_SCORE if link in (EACH, SOFTMAX) else LARGEST
    head = Head(np.arange(classes), link, rule, classes, gain)
    low, high = score_ends(lambda raw: head.scores(raw[None])[0], sums, list(ends))
    least, most = ends.sum(axis=0)
    out = np.empty(2 * classes)
    share = link != MARGIN
    rounding = np.array([1e-12, *((0, 1) if share else (-np.inf, np.inf))])
    bound_scores(sums, least[None], most[None], 0, link, gain, rounding, out)
    found = out.reshape(classes, 2)
    assert (found[:, 0] <= low).all()
    assert (found[:, 1] >= high).all()
    # Else all is lost in rounding, or may be 0 together, and nothing is said.
    if np.abs(sums).max() < 30 and link != HUBER:
        np.testing.assert_allclose(found, np.stack([low, high], axis=1), atol=1e-9)


@pytest.mark.parametrize("link", [SOFTMAX, EACH, HUBER, LOGISTIC, MARGIN])
@given(st.lists(st.integers(-3, 3).map(float), min_size=3, max_size=3))
def test_whole_sums_choose_as_the_head_does_or_not_at_all(
    link: int, sums: list[float]
) -> None:
    for rule in (LARGEST, LARGEST_SCORE):
        head, raw, out = Head(np.arange(3), link, rule, 3), np.array(sums), np.empty(3)
        chosen = choose_whole(raw, link, rule, 1.0, out)
        tied = sorted(sums)[1] == sorted(sums)[2]
        assert (chosen == -1) == tied
        if not tied:
            assert chosen == head.choose(raw[None])[0]
            np.testing.assert_array_equal(out, head.scores(raw[None])[0])
        raw[1] = no_number(link)
        assert choose_whole(raw, link, rule, 1.0, out) == -1


def no_number(link: int) -> float:
    return (np.nan, np.inf, -np.inf)[link % 3]
