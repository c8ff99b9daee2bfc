"""What some learners cannot be fitted on becomes what they can."""

import numpy as np
import pytest
from sklearn.ensemble import (
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
)

from polydom.models.selection.arms import DRAWN, FEW, fill_empty

NAN = np.nan
FOREST = RandomForestClassifier()


@pytest.mark.parametrize(
    "boosting", [HistGradientBoostingClassifier(), HistGradientBoostingRegressor()]
)
def test_empty_columns_are_filled_where_a_learner_fails_on_them(
    boosting: object,
) -> None:
    X = np.array([[1.0, NAN, NAN], [2.0, NAN, 5.0]])
    assert fill_empty(boosting, X)[:, 1].tolist() == [0.0, 0.0]
    assert np.isnan(X[:, 1]).all()
    np.testing.assert_array_equal(fill_empty(boosting, X)[:, 2], X[:, 2])
    assert fill_empty(boosting, X[:, [0, 2]]).base is not None  # nothing was copied
    assert fill_empty(FOREST, X) is X
    assert fill_empty(boosting, [[1.0]]) == [[1.0]]


def test_columns_that_a_part_of_the_rows_would_have_empty_are_filled_too() -> None:
    boosting = HistGradientBoostingClassifier(max_iter=2)
    X = np.full((FEW + 1, 3), NAN)
    X[:, 0] = np.arange(len(X))
    X[5, 1], X[:9, 2] = 1.0, np.arange(9)
    filled = fill_empty(boosting, X)
    assert not filled[:, 1].any()
    np.testing.assert_array_equal(filled[:, 2], X[:, 2])
    boosting.fit(filled, np.arange(len(X)) % 2)
    X = np.full((4 * DRAWN, 2), NAN, np.float32)
    X[:23, 0], X[:24, 1] = 1.0, 1.0
    filled = fill_empty(boosting, X)
    assert not filled[:, 0].any()
    assert np.isnan(filled[:, 1]).any()
