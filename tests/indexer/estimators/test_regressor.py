"""BudgetRegressor: scikit-learn's checks, and numbers in place of classes."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.metrics import r2_score
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils.estimator_checks import parametrize_with_checks

from polydom.features.errors import BadInput
from polydom.indexer import BudgetRegressor, Index

# Of scikit-learn's checks, what cannot apply, and why.
UNSUITED = {
    "check_regressors_train": "it takes alpha for a penalty, and makes it 0.01",
    # a frame's columns are 0 and 1, an array's x0 and x1, so costs are measured anew,
    # and of sets that are as accurate the one measured to be cheaper is kept
    "check_regressor_data_not_an_array": "measured costs decide",
    # an item that is there twice may be tested on once, one of weight 2 not; the same
    # is exempted where scikit-learn divides data, as in GridSearchCV
    "check_sample_weight_equivalence_on_dense_data": "a part is held out",
    "check_sample_weight_equivalence_on_sparse_data": "a part is held out",
}
# Checks of the base class that take long, and that the classifier passes, too.
SHARED = {
    "check_dtype_object",
    "check_estimator_sparse_array",
    "check_estimator_sparse_matrix",
    "check_estimator_sparse_tag",
    "check_estimators_dtypes",
    "check_estimators_pickle",
    "check_n_features_in_after_fitting",
    "check_pipeline_consistency",
    "check_positive_only_tag_during_fit",
    "check_supervised_y_2d",
}
ROWS = 400


def tree(**terms: Any) -> BudgetRegressor:
    return BudgetRegressor(**{"learner": "tree", "search_budget_s": 1.0, **terms})


# alpha is such that few sets are trained; with a cache, measured costs are kept
@parametrize_with_checks(  # type: ignore[untyped-decorator]
    [tree(alpha=100.0, search_budget_s=0.3, cache="to be a folder")],
)
def test_scikit_learns_checks_pass(estimator: Any, check: Any, tmp_path: Path) -> None:
    name = check.func.__name__
    if name in SHARED:
        pytest.skip("the classifier passes it")
    if name in UNSUITED:
        pytest.skip(UNSUITED[name])
    check(estimator.set_params(cache=str(tmp_path)))


def houses() -> tuple[pd.DataFrame, NDArray[np.float64]]:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "rooms": rng.integers(1, 8, ROWS),
            "town": rng.choice(["low", "high"], ROWS),
            "age": np.where(rng.random(ROWS) < 0.1, np.nan, rng.random(ROWS) * 90),
        }
    )
    prices = 30.0 * frame["rooms"] + 80.0 * (frame["town"] == "high")
    return frame, np.asarray(prices + rng.normal(size=ROWS))


def test_prices_are_told_and_bounded() -> None:
    frame, prices = houses()
    model = tree().fit(frame[:300], prices[:300])
    assert model.score(frame[300:], prices[300:]) > 0.95
    assert model.predict(frame[300:]) == pytest.approx(
        model.predict(pl.from_pandas(frame[300:]))
    )
    low, high = model.predict_interval(frame[300:]).T
    assert (low <= high).all()
    assert np.mean((low <= prices[300:]) & (prices[300:] <= high)) > 0.8
    narrow = tree(coverage=0.5).fit(frame[:300], prices[:300])
    ends = narrow.predict_interval(frame[300:])
    assert np.diff(ends).mean() < (high - low).mean()
    # nothing fits: the mean
    nothing = model.predict(frame[:3], budget_ms=0)
    assert nothing.tolist() == [nothing[0]] * 3
    assert nothing[0] == pytest.approx(prices[:300].mean())
    assert model.plan(budget_ms=1000)["features"]
    assert model.skyline_[0]["features"] == []


def test_a_regressor_works_where_others_do(tmp_path: Path) -> None:
    frame, prices = houses()
    scores = cross_val_score(tree(), frame, prices, cv=2)
    assert (scores > 0.9).all()
    piped = make_pipeline(FunctionTransformer(), tree(measure="mae"))
    piped.fit(frame, prices)
    assert r2_score(prices, piped.predict(frame)) > 0.95
    assert clone(tree(coverage=0.7)).coverage == 0.7
    piped[-1].save(tmp_path / "a.pdx")
    index = Index.load(tmp_path / "a.pdx")
    assert index.package is not None
    assert index.package.measure == "mae"
    assert index.package.meta["coverage"] == 0.9


@pytest.mark.parametrize(
    ("terms", "message"),
    [
        ({"learner": "logistic"}, "'logistic' is for classes; for numbers there are"),
        ({"measure": "auc"}, "'measure' parameter"),
        ({"coverage": 1.0}, "'coverage' parameter"),
    ],
)
def test_what_is_wrong_is_said(terms: dict[str, Any], message: str) -> None:
    frame, prices = houses()
    with pytest.raises(ValueError, match=message):
        tree(**terms).fit(frame, prices)


def test_labels_that_are_no_numbers_are_refused() -> None:
    frame, prices = houses()
    with pytest.raises(ValueError, match="could not convert"):
        tree().fit(frame, frame["town"])
    with pytest.raises(ValueError, match="contains NaN"):
        tree().fit(frame, np.where(np.arange(ROWS) == 3, np.nan, prices))
    with pytest.raises(BadInput, match="y of 400 samples is 2 throughout"):
        tree().fit(frame, np.full(ROWS, 2.0))
