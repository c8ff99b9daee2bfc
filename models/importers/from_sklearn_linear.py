"""Read scikit-learn's linear models, naive Bayes and dummies into flat arrays."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polydom.features.errors import BadModel

from ..linear.linear import Linear
from ..linear.naive_bayes import Gaussian
from ..scoring.classifier import Classifier, Head
from ..scoring.kernels.link import HUBER, LARGEST, LOGISTIC, MARGIN, POSITIVE, SOFTMAX
from ..scoring.model import Model
from ..scoring.preparation import Preparation
from ..scoring.prior import Mean, Prior
from ..scoring.regressor import Link, Regressor


def _linear(classifier: Any, preparation: Preparation) -> Model:
    binary = len(classifier.classes_) == 2
    link = LINKS.get(_loss(classifier), MARGIN)
    if link == SOFTMAX and binary:
        link = LOGISTIC
    weights = np.atleast_2d(np.asarray(classifier.coef_, np.float64))
    intercepts = np.broadcast_to(
        np.asarray(classifier.intercept_, np.float64).reshape(-1), len(weights)
    )
    rule = POSITIVE if binary else LARGEST
    return _sums(classifier, preparation, weights, intercepts, link=link, rule=rule)


def _loss(classifier: Any) -> str:
    if type(classifier).__name__ == "SGDClassifier":
        return str(classifier.loss)
    # liblinear fits each class against the rest, also with LogisticRegression.
    if getattr(classifier, "solver", None) == "liblinear":
        return "log_loss"
    return type(classifier).__name__


LINKS = {
    "LogisticRegression": SOFTMAX,
    "LogisticRegressionCV": SOFTMAX,
    "LinearDiscriminantAnalysis": SOFTMAX,
    "log_loss": LOGISTIC,
    "modified_huber": HUBER,
}


def _bernoulli(classifier: Any, preparation: Preparation) -> Model:
    if classifier.binarize is not None:
        preparation = preparation.then_binarise(classifier.binarize)
    log_on = classifier.feature_log_prob_
    log_off = np.log(1 - np.exp(log_on))
    constants = classifier.class_log_prior_ + log_off.sum(axis=1)
    return _sums(classifier, preparation, log_on - log_off, constants)


def _multinomial(classifier: Any, preparation: Preparation) -> Model:
    log_shares = classifier.feature_log_prob_
    return _sums(classifier, preparation, log_shares, classifier.class_log_prior_)


def _complement(classifier: Any, preparation: Preparation) -> Model:
    constants = np.zeros(len(classifier.classes_))
    # ComplementNB uses the prior only if there is a single class.
    if len(constants) == 1:
        constants = classifier.class_log_prior_
    return _sums(classifier, preparation, classifier.feature_log_prob_, constants)


def _sums(
    classifier: Any,
    preparation: Preparation,
    weights: NDArray[np.float64],
    intercepts: NDArray[np.float64],
    link: int = SOFTMAX,
    rule: int = LARGEST,
) -> Model:
    if not (np.isfinite(weights).all() and np.isfinite(intercepts).all()):
        raise BadModel(
            f"{type(classifier).__name__} has NaN or infinite coefficients; "
            "more smoothing or regularisation avoids them"
        )
    by_input = np.ascontiguousarray(weights.T, np.float64)
    scorer = Linear(preparation, by_input, np.ascontiguousarray(intercepts, np.float64))
    return Classifier(scorer, Head(classifier.classes_, link, rule, scorer.outputs))


def _gaussian(classifier: Any, preparation: Preparation) -> Model:
    variances = np.ascontiguousarray(classifier.var_, np.float64)
    if not ((variances > 0).all() and (classifier.class_prior_ > 0).all()):
        raise BadModel(
            "GaussianNB has an input without variance, or a class of prior 0"
        )
    constants = np.log(classifier.class_prior_)
    constants = constants + -0.5 * np.log(2.0 * np.pi * variances).sum(axis=1)
    means = np.ascontiguousarray(classifier.theta_, np.float64)
    scorer = Gaussian(preparation, means, variances, constants)
    head = Head(classifier.classes_, SOFTMAX, LARGEST, scorer.outputs)
    return Classifier(scorer, head)


def _dummy(classifier: Any, preparation: Preparation) -> Model:
    shares = np.asarray(classifier.class_prior_, np.float64)
    if classifier.strategy == "most_frequent":
        shares = np.eye(len(shares))[shares.argmax()]
    elif classifier.strategy != "prior":
        raise BadModel(
            f"DummyClassifier(strategy={classifier.strategy!r}) has no compiled form; "
            "'prior' and 'most_frequent' have"
        )
    return Prior(classifier.classes_, shares)


def _regression(regressor: Any, preparation: Preparation) -> Model:
    return _weighted(regressor, preparation, "identity")


def _generalised(regressor: Any, preparation: Preparation) -> Model:
    link = type(regressor._base_loss.link).__name__
    if link not in REGRESSION_LINKS:
        raise BadModel(f"{type(regressor).__name__} with a {link} has no compiled form")
    return _weighted(regressor, preparation, REGRESSION_LINKS[link])


REGRESSION_LINKS: dict[str, Link] = {"IdentityLink": "identity", "LogLink": "exp"}


def _weighted(regressor: Any, preparation: Preparation, link: Link) -> Model:
    weights = np.asarray(regressor.coef_, np.float64)
    if weights.ndim > 1 and len(weights) != 1:
        raise BadModel(f"{type(regressor).__name__} was fitted on several outputs")
    intercepts = np.asarray(regressor.intercept_, np.float64).reshape(-1)
    if not (np.isfinite(weights).all() and np.isfinite(intercepts).all()):
        raise BadModel(
            f"{type(regressor).__name__} has NaN or infinite coefficients; more "
            "regularisation, or inputs of like size, avoid them"
        )
    by_input = np.ascontiguousarray(weights.reshape(-1, 1))
    return Regressor(Linear(preparation, by_input, intercepts.copy()), link)


def _dummy_regression(regressor: Any, preparation: Preparation) -> Model:
    return Mean(float(np.asarray(regressor.constant_).reshape(())))


CLASSIFIERS: dict[str, Callable[[Any, Preparation], Model]] = {
    "sklearn.dummy.DummyClassifier": _dummy,
    "sklearn.linear_model.LogisticRegression": _linear,
    "sklearn.linear_model.LogisticRegressionCV": _linear,
    "sklearn.linear_model.SGDClassifier": _linear,
    "sklearn.svm.LinearSVC": _linear,
    "sklearn.linear_model.Perceptron": _linear,
    "sklearn.linear_model.PassiveAggressiveClassifier": _linear,
    "sklearn.linear_model.RidgeClassifier": _linear,
    "sklearn.linear_model.RidgeClassifierCV": _linear,
    "sklearn.discriminant_analysis.LinearDiscriminantAnalysis": _linear,
    "sklearn.naive_bayes.GaussianNB": _gaussian,
    "sklearn.naive_bayes.BernoulliNB": _bernoulli,
    "sklearn.naive_bayes.MultinomialNB": _multinomial,
    "sklearn.naive_bayes.ComplementNB": _complement,
}
REGRESSORS: dict[str, Callable[[Any, Preparation], Model]] = {
    "sklearn.dummy.DummyRegressor": _dummy_regression,
    "sklearn.linear_model.LinearRegression": _regression,
    "sklearn.linear_model.Ridge": _regression,
    "sklearn.linear_model.RidgeCV": _regression,
    "sklearn.linear_model.Lasso": _regression,
    "sklearn.linear_model.LassoCV": _regression,
    "sklearn.linear_model.ElasticNet": _regression,
    "sklearn.linear_model.ElasticNetCV": _regression,
    "sklearn.linear_model.SGDRegressor": _regression,
    "sklearn.linear_model.HuberRegressor": _regression,
    "sklearn.linear_model.PoissonRegressor": _generalised,
    "sklearn.linear_model.GammaRegressor": _generalised,
    "sklearn.linear_model.TweedieRegressor": _generalised,
    "sklearn.svm.LinearSVR": _regression,
}
