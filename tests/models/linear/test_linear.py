"""Linear models, discrete naive Bayes and preparations against scikit-learn."""

import re
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.feature_selection import SelectKBest
from sklearn.impute import SimpleImputer
from sklearn.linear_model import (
    LogisticRegression,
    Perceptron,
    RidgeClassifier,
    SGDClassifier,
)
from sklearn.naive_bayes import BernoulliNB, ComplementNB, MultinomialNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    MaxAbsScaler,
    MinMaxScaler,
    Normalizer,
    RobustScaler,
    StandardScaler,
)
from sklearn.svm import LinearSVC

from polydom.features.errors import BadInput, BadModel, BadRow
from polydom.models.importers.compile_model import compile_model
from polydom.models.importers.transformers import compile_preparation
from polydom.models.linear.linear import Linear
from polydom.models.scoring.classifier import Head
from polydom.models.scoring.kernels.link import (
    HUBER,
    LARGEST,
    LARGEST_SCORE,
    LOGISTIC,
    MARGIN,
    NOT_NEGATIVE,
    POSITIVE,
)
from polydom.models.scoring.preparation import Preparation
from tests.support.models.agreement import BUNDLED, assert_agrees, bundled, edge_rows

LEARNERS = {
    "logistic": make_pipeline(StandardScaler(), LogisticRegression(max_iter=200)),
    "liblinear": make_pipeline(MinMaxScaler(clip=True), LinearSVC()),
    "hinge": make_pipeline(RobustScaler(), SGDClassifier(random_state=0)),
    "log loss": make_pipeline(
        MaxAbsScaler(), SGDClassifier(loss="log_loss", random_state=0)
    ),
    "modified huber": make_pipeline(
        StandardScaler(with_mean=False),
        SGDClassifier(loss="modified_huber", random_state=0),
    ),
    "perceptron": make_pipeline(StandardScaler(with_std=False), Perceptron()),
    "ridge": RidgeClassifier(),
    "discriminant": LinearDiscriminantAnalysis(),
    "bernoulli": BernoulliNB(binarize=1.5),
    "multinomial": make_pipeline(MinMaxScaler(clip=True), MultinomialNB()),
    "complement": make_pipeline(MinMaxScaler(clip=True), ComplementNB()),
    "normalised": make_pipeline(
        Normalizer("l1"), MinMaxScaler(), LogisticRegression(max_iter=200)
    ),
    "largest norm": make_pipeline(Normalizer("max"), RidgeClassifier()),
}


@pytest.mark.parametrize("name", BUNDLED)
@pytest.mark.parametrize("learner", LEARNERS)
def test_linear_model_decides_as_scikit_learn(name: str, learner: str) -> None:
    X, y = bundled(name)
    fitted = clone(LEARNERS[learner]).fit(X[::2], y[::2])
    assert_agrees(fitted, X)


@pytest.mark.parametrize("learner", ["logistic", "hinge", "bernoulli", "multinomial"])
def test_linear_model_decides_as_scikit_learn_on_drawn_rows(learner: str) -> None:
    X, y = bundled("wine")
    fitted = clone(LEARNERS[learner]).fit(X, y)
    rows = edge_rows(X, np.array([1.5, 3.0]), 300)
    # Beyond this, sums of products overflow in scikit-learn as in ours.
    assert_agrees(fitted, np.clip(rows, -1e30, 1e30))


def test_margin_of_exactly_zero_chooses_the_first_class_as_scikit_learn() -> None:
    X = np.array([[-1.0], [1.0]])
    fitted = RidgeClassifier(fit_intercept=False).fit(X, [3, 8])
    zero = np.zeros((1, 1))
    assert fitted.predict(zero)[0] == 3
    assert compile_model(fitted).predict(zero)[0] == 3


@pytest.mark.filterwarnings("ignore:Skipping features without any observed values")
def test_imputer_fills_gaps_and_drops_empty_columns_as_scikit_learn() -> None:
    X, y = bundled("wine")
    X[::3, 2] = np.nan
    X[:, 5] = np.nan
    for keep in (False, True):
        learner = make_pipeline(
            SimpleImputer(strategy="median", keep_empty_features=keep),
            StandardScaler(),
            LogisticRegression(),
        )
        assert_agrees(learner.fit(X, y), X)


def test_an_imputer_fitted_on_float32_fills_float32_in() -> None:
    X, y = bundled("iris")
    X = X.astype(np.float32)
    X[::3] = np.nan
    imputer = SimpleImputer().fit(X)
    assert (np.float32(imputer.statistics_) != imputer.statistics_).any()
    made = compile_preparation([imputer], np.arange(4))
    np.testing.assert_array_equal(made.apply(X), imputer.transform(X))
    # a mean becomes 0, where flags and signs change
    learner = make_pipeline(SimpleImputer(), StandardScaler(), BernoulliNB())
    assert_agrees(learner.fit(X, y), X)


def test_imputer_in_a_pipeline_costs_no_operation_of_its_own() -> None:
    X, y = bundled("iris")
    fitted = make_pipeline(SimpleImputer(), StandardScaler(), RidgeClassifier())
    arrays = compile_model(fitted.fit(X, y)).arrays()
    assert arrays["preparation"].shape == (1, 7, 4)


def test_passthrough_step_changes_nothing() -> None:
    X, y = bundled("iris")
    assert_agrees(make_pipeline("passthrough", None, RidgeClassifier()).fit(X, y), X)


def test_raw_scores_in_float64_lie_within_rounding_of_scikit_learn() -> None:
    X, y = bundled("breast_cancer")
    fitted = make_pipeline(StandardScaler(), LogisticRegression()).fit(X, y)
    assert_agrees(fitted, X, tolerance=1e-12)


@pytest.mark.parametrize(
    ("step", "message"),
    [
        (FunctionTransformer(), "FunctionTransformer in a Pipeline has no compiled"),
        (SelectKBest(k=2), "SelectKBest in a Pipeline has no compiled form"),
        (SimpleImputer(add_indicator=True), "without add_indicator only"),
        (SimpleImputer(missing_values=-1), "missing_values=NaN"),
    ],
    ids=["function", "selection", "indicator", "number as gap"],
)
def test_unsupported_step_of_a_pipeline_is_named(step: Any, message: str) -> None:
    X, y = bundled("iris")
    with pytest.raises(BadModel, match=message):
        compile_model(make_pipeline(step, RidgeClassifier()).fit(X, y))


def test_infinite_coefficients_are_refused() -> None:
    fitted = MultinomialNB().fit(np.eye(2), [0, 1])
    fitted.feature_log_prob_[0, 1] = -np.inf  # as alpha = 0 would give
    with pytest.raises(BadModel, match="MultinomialNB has NaN or infinite coefficient"):
        compile_model(fitted)


def test_rows_too_narrow_are_refused() -> None:
    X, y = bundled("iris")
    model = compile_model(RidgeClassifier().fit(X, y), np.array([0, 1, 2, 9]))
    with pytest.raises(BadInput, match=r"rows of shape \(150, 4\).*width > 9"):
        model.predict(X)


@pytest.mark.parametrize("seed", range(60))
def test_no_prepared_input_is_beyond_its_reach(seed: int) -> None:
    draw = np.random.default_rng(seed)
    shape = int(draw.integers(0, 4)), 3

    def numbers(largest: int) -> Any:
        return draw.normal(size=shape) * 10.0 ** draw.integers(-9, largest, shape)

    fill = draw.choice([np.nan, 0.0, -1e300], shape)
    ends = np.sort([numbers(300), numbers(300)], axis=0)
    ends[:, draw.random(shape) < 0.5] = np.array([[-np.inf], [np.inf]])
    parts = [fill, numbers(9), numbers(30), numbers(30), numbers(30), *ends]
    operations = draw.integers(0, 5, shape[0])
    columns = np.arange(3, dtype=np.int32)
    made = Preparation(columns, operations, np.stack(parts, axis=1))
    largest = np.finfo(np.float32).max
    odd = np.array([largest, -largest, 0, 1e-45, 3.3, 1e20, np.nan], np.float32)
    with np.errstate(all="ignore"):
        reach, inputs = made.reach(), np.abs(made.apply(draw.choice(odd, (50, 3))))
    assert not np.isnan(reach).any()
    assert not (inputs > reach * (1 + 1e-9)).any()


def drawn(seed: int) -> tuple[Linear, Any]:
    """A linear model with any preparation, and rows with gaps and large numbers."""
    draw = np.random.default_rng(seed)
    steps, d, R = int(draw.integers(0, 4)), int(draw.integers(1, 9)), 1 + seed % 4
    shape = steps, d
    fill = draw.choice([np.nan, 0.0, 2.5], shape)
    ends = [np.full(shape, -np.inf), np.full(shape, 3.0)]
    parts = [fill, *draw.normal(size=(4, *shape)), *ends]
    columns = draw.permutation(12)[:d].astype(np.int32)
    operations = draw.integers(0, 5, steps)
    made = Preparation(columns, operations, np.stack(parts, axis=1))
    rows = draw.normal(size=(40, 13)).astype(np.float32)
    rows[draw.random(rows.shape) < 0.02] = np.nan
    rows[0] = np.finfo(np.float32).max
    return Linear(made, draw.normal(size=(d, R)), draw.normal(size=R)), rows


@pytest.mark.parametrize("seed", range(40))
def test_one_row_has_the_raw_scores_that_many_have_to_the_bit(seed: int) -> None:
    linear, rows = drawn(seed)
    with np.errstate(all="ignore"):
        for row in rows:
            try:
                (expected,) = linear.raw(row[None])
            except BadRow as error:
                with pytest.raises(BadRow, match=re.escape(str(error))):
                    linear.raw_one(row)
                continue
            wide = np.stack([row, row], axis=1)[:, 0]
            for same in (row, row.astype(np.float64), wide, row.tolist()):
                assert linear.raw_one(same).tobytes() == expected.tobytes()
    with pytest.raises(BadInput, match="width >"):
        linear.raw_one(rows[0, : linear.width - 1])


@pytest.mark.parametrize("link", range(5))
@pytest.mark.parametrize("K", [2, 3])
def test_one_row_is_answered_as_many_are_to_the_bit(link: int, K: int) -> None:
    draw = np.random.default_rng(link)
    for rule in (LARGEST, LARGEST_SCORE):
        head = Head(np.arange(K), link, rule, K, 1.5)
        raw = draw.choice([0.0, -0.0, 1.0, np.inf, 700.0, -5.0], (60, K))
        with np.errstate(all="ignore"):
            for one in (*raw, *draw.normal(size=(60, K))):
                code, scores = head.answer(one)
                assert code == head.choose(one[None])[0]
                assert np.array(scores).tobytes() == head.scores(one[None]).tobytes()


@pytest.mark.parametrize("link", [LOGISTIC, HUBER, MARGIN])
def test_a_margin_alone_is_answered_as_many_are(link: int) -> None:
    for rule in (POSITIVE, NOT_NEGATIVE):
        head = Head(np.arange(2), link, rule, 1, 0.7)
        for margin in (-800.0, -1.0, -0.0, 0.0, 1e-300, 0.3, 800.0, np.inf):
            raw = np.array([margin])
            code, scores = head.answer(raw)
            assert code == head.choose_by(margin) == head.choose(raw[None])[0]
            assert (
                scores == head.scores_by(margin) == head.scores(raw[None])[0].tolist()
            )
