"""The settings of learners that `learner = "auto"` chooses from."""

from collections.abc import Mapping
from importlib.util import find_spec
from typing import Any

from polydom.features.errors import BadInput, BadModel, BadProject

from .learners import Task, make_learner

Setting = dict[str, Any]

# Settings that classifiers and regressors share.
_BOOSTING: Mapping[str, Setting] = {
    "boosting": {"name": "boosting"},
    "boosting, depth 5": {"name": "boosting", "max_depth": 5, "subsample": 0.5},
    "hist boosting": {"name": "hist_boosting"},
    "hist boosting, 300": {
        "name": "hist_boosting",
        "max_iter": 300,
        "learning_rate": 0.05,
    },
    "hist boosting, wide": {"name": "hist_boosting", "max_leaf_nodes": 127},
}

# Settings of classifiers that can be compiled. Of equals the first setting wins, so
# cheap models come first. In a race, the first setting of a class stands for the class.
SERVABLE: Mapping[str, Setting] = {
    "prior": {"name": "prior"},
    "naive bayes": {"name": "naive_bayes"},
    "naive bayes, sharp": {"name": "naive_bayes", "var_smoothing": 1e-9},
    "bernoulli bayes": {"name": "bernoulli_bayes"},
    "multinomial bayes": {"name": "multinomial_bayes"},
    "complement bayes": {"name": "complement_bayes"},
    "lda": {"name": "lda"},
    "ridge": {"name": "ridge"},
    "ridge, strong": {"name": "ridge", "alpha": 100.0},
    "logistic": {"name": "logistic"},
    "logistic, C 0.01": {"name": "logistic", "C": 0.01},
    "logistic, C 100": {"name": "logistic", "C": 100.0},
    "linear svm": {"name": "linear_svm"},
    "linear svm, C 0.01": {"name": "linear_svm", "C": 0.01},
    "perceptron": {"name": "perceptron"},
    "sgd": {"name": "sgd"},
    "sgd, hinge": {"name": "sgd", "loss": "hinge"},
    "sgd, l1": {"name": "sgd", "penalty": "l1", "alpha": 1e-3},
    "sgd, averaged": {"name": "sgd", "average": True, "alpha": 1e-3},
    "tree": {"name": "tree"},
    "tree, depth 5": {"name": "tree", "max_depth": 5},
    "tree, depth 10": {"name": "tree", "max_depth": 10},
    "tree, leaves of 20": {"name": "tree", "min_samples_leaf": 20},
    "tree, entropy": {"name": "tree", "criterion": "entropy"},
    "forest": {"name": "forest"},
    "forest, depth 10": {"name": "forest", "max_depth": 10},
    "forest, leaves of 5": {"name": "forest", "min_samples_leaf": 5},
    "forest, 300": {"name": "forest", "n_estimators": 300},
    "extra trees": {"name": "extra_trees"},
    "extra trees, 300": {"name": "extra_trees", "n_estimators": 300},
    "bagging": {"name": "sklearn.ensemble:BaggingClassifier", "n_estimators": 50},
    "ada boost": {"name": "ada_boost"},
    "ada boost, 200": {"name": "ada_boost", "n_estimators": 200},
    **_BOOSTING,
}

# Settings of regressors, for targets that are numbers.
NUMBERS: Mapping[str, Setting] = {
    "mean": {"name": "mean"},
    "linear": {"name": "linear"},
    "ridge": {"name": "ridge"},
    "ridge, strong": {"name": "ridge", "alpha": 100.0},
    "lasso": {"name": "lasso"},
    "elastic net": {"name": "elastic_net"},
    "linear svm": {"name": "linear_svm"},
    "sgd": {"name": "sgd"},
    "sgd, averaged": {"name": "sgd", "average": True, "alpha": 1e-3},
    "tree": {"name": "tree"},
    "tree, depth 5": {"name": "tree", "max_depth": 5},
    "tree, depth 10": {"name": "tree", "max_depth": 10},
    "tree, leaves of 20": {"name": "tree", "min_samples_leaf": 20},
    "forest": {"name": "forest"},
    "forest, leaves of 5": {"name": "forest", "min_samples_leaf": 5},
    "forest, thirds": {"name": "forest", "max_features": 1 / 3},
    "forest, 300": {"name": "forest", "n_estimators": 300, "max_features": 1 / 3},
    "extra trees": {"name": "extra_trees"},
    "extra trees, leaves of 5": {"name": "extra_trees", "min_samples_leaf": 5},
    "extra trees, 300": {"name": "extra_trees", "n_estimators": 300},
    "bagging": {"name": "sklearn.ensemble:BaggingRegressor", "n_estimators": 50},
    **_BOOSTING,
}


def _of_libraries(kind: str) -> dict[str, Setting]:
    """Return settings that need a library that may be missing.

    All settings use one thread, because a race compares CPU seconds.
    """
    lightgbm = {"name": f"lightgbm:LGBM{kind}", "n_jobs": 1, "verbose": -1}
    return {
        "lightgbm": lightgbm,
        "lightgbm, wide": {**lightgbm, "num_leaves": 127},
        "xgboost": {"name": f"xgboost:XGB{kind}", "n_jobs": 1},
    }


BOOSTED = _of_libraries("Classifier")
BOOSTED_NUMBERS = _of_libraries("Regressor")
_PORTFOLIOS: Mapping[Task, tuple[Mapping[str, Setting], Mapping[str, Setting]]] = {
    "classes": (SERVABLE, BOOSTED),
    "regression": (NUMBERS, BOOSTED_NUMBERS),
}


def installed(task: Task = "classes") -> dict[str, Setting]:
    """Return the settings that `learner = "auto"` can use, by name.

    Settings of libraries that are not installed are left out.
    """
    always, others = _PORTFOLIOS[task]
    boosted = {
        name: setting
        for name, setting in others.items()
        if find_spec(setting["name"].partition(":")[0])
    }
    return {**always, **boosted}


def make_portfolio(
    settings: Mapping[str, Setting], seed: int, task: Task = "classes"
) -> dict[str, Any]:
    """Return an unfitted learner for each setting, by the setting's name.

    Raises BadInput, with the name of the setting, if a setting is invalid.
    """
    if not settings:
        raise BadInput("a portfolio holds no settings; at least 1 is needed")
    learners = {}
    for name, setting in settings.items():
        try:
            learners[name] = make_learner(setting, seed, task)
        except (BadProject, BadModel) as error:
            raise BadInput(f"portfolio, {name!r}: {error}") from error
    return learners
