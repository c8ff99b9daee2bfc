"""Models on a whole network answer as scikit-learn does, and the cascade is tuned."""

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from benchmarks.peers.whole_network import Linear, threshold

pytestmark = pytest.mark.jit  # of no kernel


def shares(draw: np.random.Generator, codes: NDArray[np.int64]) -> NDArray[np.float64]:
    """Draw probabilities of three classes, often highest for the right one."""
    found = draw.dirichlet(np.ones(3), len(codes)).round(1)
    rows = draw.random(len(codes)) < 0.4
    found[rows, codes[rows]] = found[rows].max(axis=1) + 0.1
    return found


def right(
    first: NDArray[np.float64],
    second: NDArray[np.float64],
    codes: NDArray[np.int64],
    least: float,
) -> int:
    """Count right answers of a cascade, one item after the other."""
    count = 0
    for one, other, code in zip(first, second, codes, strict=True):
        count += int((one if one.max() >= least else other).argmax()) == code
    return count


@pytest.mark.parametrize("seed", range(20))
def test_the_threshold_is_the_least_with_the_second_models_accuracy(seed: int) -> None:
    draw = np.random.default_rng(seed)
    codes = draw.integers(3, size=draw.integers(1, 30))
    first, second = shares(draw, codes), shares(draw, codes)
    found = threshold(first, second, codes)
    tried = [0.0, *sorted({*first.max(axis=1).tolist()}), np.inf]
    counts = [right(first, second, codes, least) for least in tried]
    goal = min(max(counts), int((second.argmax(axis=1) == codes).sum()))
    expected = next(n for n, count in zip(tried, counts, strict=True) if count >= goal)
    assert right(first, second, codes, found) == right(first, second, codes, expected)
    asked = [int((first.max(axis=1) < least).sum()) for least in (found, expected)]
    assert asked[0] == asked[1]


def test_one_product_answers_as_scikit_learn_does() -> None:
    draw = np.random.default_rng(0)
    columns = draw.normal(3, 2, (60, 5)).astype(np.float32)
    codes = (columns @ draw.normal(size=(5, 3))).argmax(axis=1)
    model = make_pipeline(StandardScaler(), LogisticRegression()).fit(columns, codes)
    linear, expected = Linear.of(model), model.predict_proba(columns)
    for row, probabilities in zip(columns, expected, strict=True):
        best, sure = linear(row)
        assert best == probabilities.argmax()
        assert sure == pytest.approx(probabilities.max(), abs=1e-4)
