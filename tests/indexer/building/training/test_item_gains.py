"""Gains by margin are means of items with about that margin, and fall with it."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from polydom.indexer.building.training.item_gains import fit_gain
from polydom.indexer.index.fetches.item_gains import KNOTS

items = st.lists(
    st.tuples(st.integers(0, 20), st.sampled_from([-1.0, 0.0, 1.0]), st.integers(1, 3)),
    min_size=1,
    max_size=60,
)


def pooled(
    margins: list[float], gains: list[float], weights: list[float]
) -> list[float]:
    """Pool neighbours, by ascending margin, until no mean is above an earlier one."""
    groups: list[list[float]] = []  # margin, weighted sum, weight
    for margin in sorted({*margins}):
        own = [k for k, one in enumerate(margins) if one == margin]
        total = sum(weights[k] * gains[k] for k in own)
        groups.append([total, sum(weights[k] for k in own), 1])
        while len(groups) > 1 and (
            groups[-1][0] / groups[-1][1] > groups[-2][0] / groups[-2][1]
        ):
            last = groups.pop()
            groups[-1] = [a + b for a, b in zip(groups[-1], last, strict=True)]
    return [
        total / weight for total, weight, count in groups for _ in range(int(count))
    ]


@given(items)
def test_a_gain_is_the_isotonic_mean(drawn: list[tuple[int, float, int]]) -> None:
    margins = [margin / 20 for margin, _, _ in drawn]
    gains, weights = [gain for _, gain, _ in drawn], [float(w) for *_, w in drawn]
    knots, found = fit_gain(np.array(margins), np.array(gains), np.array(weights))
    different = sorted({*margins})
    slow = np.interp(knots, different, pooled(margins, gains, weights))
    np.testing.assert_allclose(found, slow, atol=1e-9)
    assert len(knots) == KNOTS
    assert (np.diff(knots) >= 0).all()
    assert (np.diff(found) <= 1e-12).all()


def test_a_sure_model_gains_nothing() -> None:
    rng = np.random.default_rng(0)
    margins = rng.uniform(0, 1, 20_000)
    gains = (rng.uniform(0, 1, 20_000) < 0.4 * (1 - margins)).astype(float)
    knots, found = fit_gain(margins, gains, np.ones(20_000))
    np.testing.assert_allclose(found, 0.4 * (1 - knots), atol=0.03)
