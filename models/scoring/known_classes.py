"""Where the classes live that have a compiled form: a name alone says too little."""

import sys
from collections.abc import Iterable
from typing import Any

HOMES = {
    "sklearn.pipeline": ("Pipeline",),
    "sklearn.frozen": ("FrozenEstimator",),
    "sklearn.preprocessing": (
        "StandardScaler",
        "MinMaxScaler",
        "MaxAbsScaler",
        "RobustScaler",
        "Normalizer",
    ),
    "sklearn.impute": ("SimpleImputer",),
    "sklearn.dummy": ("DummyClassifier", "DummyRegressor"),
    "sklearn.linear_model": (
        "LogisticRegression",
        "LogisticRegressionCV",
        "SGDClassifier",
        "Perceptron",
        "PassiveAggressiveClassifier",
        "RidgeClassifier",
        "RidgeClassifierCV",
    ),
    "sklearn.svm": ("LinearSVC",),
    "sklearn.discriminant_analysis": ("LinearDiscriminantAnalysis",),
    "sklearn.naive_bayes": (
        "GaussianNB",
        "BernoulliNB",
        "MultinomialNB",
        "ComplementNB",
    ),
    "sklearn.tree": (
        "DecisionTreeClassifier",
        "ExtraTreeClassifier",
        "DecisionTreeRegressor",
        "ExtraTreeRegressor",
    ),
    "sklearn.ensemble": (
        "RandomForestClassifier",
        "ExtraTreesClassifier",
        "GradientBoostingClassifier",
        "HistGradientBoostingClassifier",
        "AdaBoostClassifier",
        "BaggingClassifier",
        "RandomForestRegressor",
        "ExtraTreesRegressor",
        "GradientBoostingRegressor",
        "HistGradientBoostingRegressor",
        "BaggingRegressor",
    ),
    "lightgbm": ("LGBMClassifier", "LGBMRegressor", "LGBMRanker"),
    "xgboost": (
        "XGBClassifier",
        "XGBRFClassifier",
        "XGBRegressor",
        "XGBRFRegressor",
        "XGBRanker",
    ),
    "polydom.models.lattices.estimator": ("LatticeEnsembleClassifier",),
}
HOME_OF = {name: home for home, names in HOMES.items() for name in names}


def is_one_of(thing: Any, names: Iterable[str]) -> bool:
    """Say if a thing's class is a library's own of one of these names.

    A class of the user's may have any name, and a subclass may decide otherwise.
    """
    kind = type(thing)
    name = kind.__name__
    if name not in names or name not in HOME_OF:
        return False
    # There is no object of a class whose module has not been imported.
    return getattr(sys.modules.get(HOME_OF[name]), name, None) is kind


def named(thing: Any, names: Iterable[str]) -> str:
    """Name a thing's class with its module; and the one that it is not, if alike."""
    kind = type(thing)
    full = f"{kind.__module__}.{kind.__name__}"
    if kind.__name__ in names and kind.__name__ in HOME_OF:
        return f"{full}, which is not {HOME_OF[kind.__name__]}.{kind.__name__},"
    return full
