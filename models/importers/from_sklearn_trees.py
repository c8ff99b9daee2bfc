"""Read scikit-learn's trees, forests and boosted trees into flat arrays."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polydom.features.errors import BadModel

from ..scoring.classifier import Classifier, Head
from ..scoring.kernels.link import (
    LARGEST,
    LOGISTIC,
    MARGIN,
    NOT_NEGATIVE,
    POSITIVE,
    SOFTMAX,
)
from ..scoring.preparation import Preparation
from ..scoring.regressor import Link, Regressor
from ..trees.nodes import MISSING_LEFT, SET_LEFT, WHOLE_ONLY, Tree
from ..trees.trees import Trees, join
from .known_classes import find_class, short


def _read_tree(
    fitted: Any, values: NDArray[np.float64], inputs: NDArray[Any] | None = None
) -> Tree:
    """Read a fitted `tree_`; `inputs[k]` is the column of the tree's feature k."""
    column = np.where(fitted.children_left < 0, -1, fitted.feature)
    if inputs is not None:
        column = np.where(column < 0, -1, np.asarray(inputs)[column])
    return Tree(
        column=column,
        threshold=fitted.threshold,
        left=fitted.children_left,
        right=fitted.children_right,
        values=values,
        flags=np.where(fitted.missing_go_to_left, MISSING_LEFT, 0),
    )


def _node_values(tree: Any) -> NDArray[np.float64]:
    """Return the R values of each of a tree's n nodes, shape (n, R).

    Raises BadModel if the tree was fitted on several outputs.
    """
    if tree.n_outputs_ != 1:
        raise BadModel(f"{type(tree).__name__} was fitted on several outputs")
    values: NDArray[np.float64] = tree.tree_.value[:, 0, :]
    return values


def _probabilities(tree: Any, K: int) -> NDArray[np.float64]:
    """Return the class shares (n, K) of the nodes of a classification tree."""
    shares = _node_values(tree)
    if shares.shape[1] == K:
        return shares
    spread = np.zeros((len(shares), K))
    spread[:, tree.classes_.astype(np.int64)] = shares
    return spread


def _fitted_trees(
    estimator: Any, values: Callable[[Any], NDArray[np.float64]]
) -> list[Tree]:
    """Read the trees of a forest, a Bagging estimator, or a single decision tree.

    `values` is a function from one of the trees to the values (n, R) of its nodes.
    """
    if not hasattr(estimator, "estimators_"):
        return [_read_tree(estimator.tree_, values(estimator))]
    trees = estimator.estimators_
    if not hasattr(estimator, "estimators_features_"):
        return [_read_tree(tree.tree_, values(tree)) for tree in trees]
    _need_trees(estimator)
    pairs = zip(trees, estimator.estimators_features_, strict=True)
    return [_read_tree(tree.tree_, values(tree), inputs) for tree, inputs in pairs]


def _need_trees(estimator: Any) -> None:
    kind = type(estimator).__name__
    task = "Regressor" if kind.endswith("Regressor") else "Classifier"
    known = (f"sklearn.tree.DecisionTree{task}", f"sklearn.tree.ExtraTree{task}")
    for base in estimator.estimators_:
        if not find_class(base, known):
            raise BadModel(
                f"{kind} of {type(base).__name__} has no compiled form; of "
                f"{' or '.join(short(known))} it has"
            )


def _boosted_trees(estimator: Any) -> tuple[list[Tree], NDArray[np.float64]]:
    """Read a GradientBoosting's trees, stage by stage.

    Return the trees, and the raw scores (R,) before the first stage.
    """
    init, kind = estimator.init_, type(estimator).__name__
    usual = "sklearn.dummy.DummyClassifier", "sklearn.dummy.DummyRegressor"
    if init != "zero" and not find_class(init, usual):
        raise BadModel(
            f"{kind} with an init estimator of its own has no compiled form; "
            "init=None and init='zero' have"
        )
    empty = np.zeros((1, estimator.n_features_in_), np.float32)
    rate = estimator.learning_rate
    trees = [
        _read_tree(tree.tree_, rate * tree.tree_.value[:, 0, :])
        for stage in estimator.estimators_
        for tree in stage
    ]
    return trees, np.asarray(estimator._raw_predict_init(empty)[0], np.float64)


def _averaged(classifier: Any, preparation: Preparation) -> Classifier:
    """Compile a classifier that averages the class shares of its trees."""
    K = len(classifier.classes_)
    trees = _fitted_trees(classifier, lambda tree: _probabilities(tree, K))
    targets, bias, count = [0] * len(trees), np.zeros(K), len(trees)
    scorer = join(trees, targets, preparation, bias=bias, divisor=count, single=True)
    return Classifier(scorer, Head(classifier.classes_, MARGIN, LARGEST, K))


def _ada_boost(classifier: Any, preparation: Preparation) -> Classifier:
    """Compile AdaBoost: each tree votes for one class and against all others."""
    K = len(classifier.classes_)
    _need_trees(classifier)
    weights = classifier.estimator_weights_[: len(classifier.estimators_)]
    trees = []
    for tree, weight in zip(classifier.estimators_, weights, strict=True):
        labels = tree.classes_[tree.tree_.value[:, 0, :].argmax(axis=1)]
        chosen = labels[:, None] == classifier.classes_
        votes = np.where(chosen, weight, -1 / max(K - 1, 1) * weight)
        # With two classes scikit-learn takes the difference of two opposite sums.
        trees.append(_read_tree(tree.tree_, 2 * votes[:, 1:] if K == 2 else votes))
    R = 1 if K == 2 else K
    scorer = join(
        trees,
        [0] * len(trees),
        preparation,
        bias=np.zeros(R),
        divisor=classifier.estimator_weights_.sum(),
        single=True,
    )
    if K == 2:
        return Classifier(scorer, Head(classifier.classes_, LOGISTIC, POSITIVE, 1))
    gain = 1 / max(K - 1, 1)
    return Classifier(scorer, Head(classifier.classes_, SOFTMAX, LARGEST, K, gain))


def _boosting(classifier: Any, preparation: Preparation) -> Classifier:
    trees, bias = _boosted_trees(classifier)
    scorer = join(trees, _targets(trees, bias), preparation, bias=bias, single=True)
    gain = 2.0 if classifier.loss == "exponential" else 1.0
    return _boosted(classifier, scorer, NOT_NEGATIVE, gain)


def _hist_boosting(classifier: Any, preparation: Preparation) -> Classifier:
    trees = _hist_trees(classifier)
    bias = np.asarray(classifier._baseline_prediction, np.float64).reshape(-1)
    scorer = join(trees, _targets(trees, bias), preparation, bias=bias, single=False)
    return _boosted(classifier, scorer, POSITIVE)


def _targets(trees: list[Tree], bias: NDArray[np.float64]) -> list[int]:
    """Return the position of the raw score to which each tree adds."""
    return [i % len(bias) for i in range(len(trees))]


def _boosted(
    classifier: Any, scorer: Trees, rule: int, gain: float = 1.0
) -> Classifier:
    classes, R = classifier.classes_, scorer.outputs
    if R > 1:
        return Classifier(scorer, Head(classes, SOFTMAX, LARGEST, R))
    return Classifier(scorer, Head(classes, LOGISTIC, rule, 1, gain))


def _hist_trees(estimator: Any) -> list[Tree]:
    inputs, categories = _encoded(estimator)
    return [
        _hist_tree(predictor, inputs, categories)
        for stage in estimator._predictors
        for predictor in stage
    ]


def _encoded(estimator: Any) -> tuple[NDArray[np.int64], dict[int, NDArray[np.int64]]]:
    """Return the columns (d,) of the trees' features, and categories by feature.

    The trees of HistGradientBoosting number categorical features first, then the
    others.
    """
    d = estimator.n_features_in_
    if estimator._preprocessor is None:
        return np.arange(d), {}
    marked = np.asarray(estimator.is_categorical_, bool)
    inputs = np.concatenate([np.flatnonzero(marked), np.flatnonzero(~marked)])
    encoder = estimator._preprocessor.named_transformers_["encoder"]
    texts, categories = text_categories(estimator), {}
    for feature, values in enumerate(encoder.categories_):
        if (place := int(inputs[feature])) in texts:
            categories[feature] = np.arange(len(texts[place]))
            continue
        try:
            known = np.asarray(values, np.float64)
        except (TypeError, ValueError):  # categories such as intervals
            known = np.array([-1.0])
        known = known[~np.isnan(known)]
        if not ((known >= 0) & (known < 2**20) & (known == np.floor(known))).all():
            names = getattr(estimator, "feature_names_in_", range(d))
            raise BadModel(
                f"{type(estimator).__name__}: column {names[place]!r} has categories "
                "that are neither texts nor whole numbers from 0 on, and no compiled "
                "form: fit it on texts, by astype(str)"
            )
        categories[feature] = known.astype(np.int64)
    return inputs, categories


def text_categories(estimator: Any) -> dict[int, tuple[str, ...]]:
    """Map the position of each text column to its categories, in order of code."""
    if getattr(estimator, "_preprocessor", None) is None:
        return {}
    encoder = estimator._preprocessor.named_transformers_["encoder"]
    marked = np.flatnonzero(np.asarray(estimator.is_categorical_, bool)).tolist()
    columns = zip(marked, map(list, encoder.categories_), strict=True)
    # A missing value comes last, as None or NaN.
    return {
        place: tuple(value for value in values if isinstance(value, str))
        for place, values in columns
        if any(isinstance(value, str) for value in values)
    }


def _hist_tree(
    predictor: Any, inputs: NDArray[np.int64], categories: dict[int, NDArray[np.int64]]
) -> Tree:
    nodes = predictor.nodes
    leaf = nodes["is_leaf"].astype(bool)
    missing_left = nodes["missing_go_to_left"].astype(bool)
    flags = np.where(missing_left, MISSING_LEFT, 0)
    sets = {}
    for node in np.flatnonzero(~leaf & nodes["is_categorical"].astype(bool)):
        known = categories[int(nodes["feature_idx"][node])]
        words = predictor.raw_left_cat_bitsets[nodes["bitset_idx"][node]]
        codes = np.arange(len(known))
        goes_left = (words[codes // 32] >> (codes % 32).astype(np.uint32)) & 1 == 1
        # An unknown category takes the way of a missing value, so the set holds the
        # categories that go to the other side.
        flags[node] |= WHOLE_ONLY
        if missing_left[node]:
            sets[int(node)] = known[~goes_left].tolist()
        else:
            sets[int(node)] = known[goes_left].tolist()
            flags[node] |= SET_LEFT
    return Tree(
        column=np.where(leaf, -1, inputs[np.where(leaf, 0, nodes["feature_idx"])]),
        threshold=np.where(np.isnan(nodes["num_threshold"]), 0, nodes["num_threshold"]),
        left=nodes["left"],
        right=nodes["right"],
        values=nodes["value"][:, None].astype(np.float64),
        flags=flags,
        sets=sets,
    )


def _regressor(
    trees: Sequence[Tree],
    preparation: Preparation,
    bias: float = 0.0,
    *,
    divisor: float = 1.0,
    single: bool = True,
    link: Link = "identity",
) -> Regressor:
    targets, start = [0] * len(trees), np.array([bias])
    sums = join(trees, targets, preparation, bias=start, divisor=divisor, single=single)
    return Regressor(sums, link)


def _mean_regression(regressor: Any, preparation: Preparation) -> Regressor:
    trees = _fitted_trees(regressor, _node_values)
    return _regressor(trees, preparation, divisor=len(trees))


def _boosted_regression(regressor: Any, preparation: Preparation) -> Regressor:
    trees, bias = _boosted_trees(regressor)
    return _regressor(trees, preparation, float(bias[0]))


def _hist_regression(regressor: Any, preparation: Preparation) -> Regressor:
    bias = float(np.asarray(regressor._baseline_prediction).reshape(()))
    link: Link = "exp" if regressor.loss in ("poisson", "gamma") else "identity"
    return _regressor(
        _hist_trees(regressor), preparation, bias, single=False, link=link
    )


CLASSIFIERS: dict[str, Callable[[Any, Preparation], Classifier]] = {
    "sklearn.tree.DecisionTreeClassifier": _averaged,
    "sklearn.tree.ExtraTreeClassifier": _averaged,
    "sklearn.ensemble.RandomForestClassifier": _averaged,
    "sklearn.ensemble.ExtraTreesClassifier": _averaged,
    "sklearn.ensemble.BaggingClassifier": _averaged,
    "sklearn.ensemble.GradientBoostingClassifier": _boosting,
    "sklearn.ensemble.HistGradientBoostingClassifier": _hist_boosting,
    "sklearn.ensemble.AdaBoostClassifier": _ada_boost,
}
REGRESSORS: dict[str, Callable[[Any, Preparation], Regressor]] = {
    "sklearn.tree.DecisionTreeRegressor": _mean_regression,
    "sklearn.tree.ExtraTreeRegressor": _mean_regression,
    "sklearn.ensemble.RandomForestRegressor": _mean_regression,
    "sklearn.ensemble.ExtraTreesRegressor": _mean_regression,
    "sklearn.ensemble.BaggingRegressor": _mean_regression,
    "sklearn.ensemble.GradientBoostingRegressor": _boosted_regression,
    "sklearn.ensemble.HistGradientBoostingRegressor": _hist_regression,
}
