"""Items that are fitted by weight: those of weight 0 are not there."""

from typing import Any

import numpy as np
import pandas as pd
import pytest

from polydom.indexer.estimators.counted import count_items
from polydom.indexer.estimators.items import items_of

X = pd.DataFrame({"age": [3, 4, 5, 6]})
Y = np.array(["a", "b", "a", "b"])


def count(weights: Any, groups: Any = None) -> Any:
    return count_items(items_of(X), Y, groups, weights)


@pytest.mark.parametrize("of", [list, np.array, pd.Series])
def test_items_without_weight_are_left_out(of: Any) -> None:
    counted = count(of([2, 0, 1, 3]), groups=of(["p", "q", "q", "p"]))
    assert [item.payload["age"] for item in counted.items] == [3, 5, 6]
    assert counted.labels.tolist() == ["a", "a", "b"]
    assert counted.groups.tolist() == ["p", "q", "p"]
    assert counted.weights.tolist() == [1.0, 0.5, 1.5]
    assert counted.rows.tolist() == [0, 2, 3]


def test_equal_weights_are_none() -> None:
    assert count([7, 0, 7, 7]).weights is None
    assert count(None).weights is None
    assert count(None).rows.tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize(
    ("weights", "said"),
    [
        ([1, 1, -0.5, 1], "sample_weight of item 2 is -0.5; 0 or more is needed"),
        ([0, 0, 0, 0], "all weights of sample_weight are zero"),
        ([1, 1, np.nan, 1], "sample_weight contains NaN"),
        ([1, 1, np.inf, 1], "sample_weight contains infinity"),
        ([1, 1, 1], "inconsistent numbers of samples"),
        ([[1, 1]] * 4, "1d array"),
    ],
)
def test_weights_that_cannot_be_are_refused(weights: Any, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        count(weights)
