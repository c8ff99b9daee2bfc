"""Make unfitted classifiers and regressors by name; polydom can compile them all."""

import inspect
import re
import warnings
from collections.abc import Mapping
from contextlib import suppress
from importlib import import_module
from typing import Any, Literal

import numpy as np

from polydom.features.errors import BadModel, BadProject
from polydom.features.wording import listed, nearest

from ..importers.compile_model import compilable, is_regressor

Task = Literal["classes", "regression"]
# The estimator, its preparations, and parameters that differ from scikit-learn's
# defaults. "fill" replaces missing values for estimators that refuse missing values.
Recipe = tuple[str, tuple[str, ...], dict[str, Any]]

SCALED = ("fill", "standardise")

CLASSIFIERS: dict[str, Recipe] = {
    "logistic": ("sklearn.linear_model:LogisticRegression", SCALED, {"max_iter": 1000}),
    "sgd": ("sklearn.linear_model:SGDClassifier", SCALED, {"loss": "log_loss"}),
    "linear_svm": ("sklearn.svm:LinearSVC", SCALED, {}),
    "perceptron": ("sklearn.linear_model:Perceptron", SCALED, {}),
    "ridge": ("sklearn.linear_model:RidgeClassifier", SCALED, {}),
    "lda": (
        "sklearn.discriminant_analysis:LinearDiscriminantAnalysis",
        SCALED,
        {"solver": "lsqr", "shrinkage": "auto"},
    ),
    "naive_bayes": (
        "sklearn.naive_bayes:GaussianNB",
        SCALED,
        {"var_smoothing": 0.03},  # as good as 1e-9 or better on all data tried
    ),
    "bernoulli_bayes": ("sklearn.naive_bayes:BernoulliNB", SCALED, {}),
    "multinomial_bayes": ("sklearn.naive_bayes:MultinomialNB", ("fill", "squeeze"), {}),
    "complement_bayes": ("sklearn.naive_bayes:ComplementNB", ("fill", "squeeze"), {}),
    "tree": ("sklearn.tree:DecisionTreeClassifier", (), {"min_samples_leaf": 3}),
    "forest": ("sklearn.ensemble:RandomForestClassifier", (), {}),
    "extra_trees": ("sklearn.ensemble:ExtraTreesClassifier", (), {}),
    "boosting": ("sklearn.ensemble:GradientBoostingClassifier", ("fill",), {}),
    "hist_boosting": ("sklearn.ensemble:HistGradientBoostingClassifier", (), {}),
    "ada_boost": ("sklearn.ensemble:AdaBoostClassifier", ("fill",), {}),
    # One thread, because many trainings run at once; verbosity -1 silences LightGBM.
    "lightgbm": ("lightgbm:LGBMClassifier", (), {"n_jobs": 1, "verbosity": -1}),
    "xgboost": ("xgboost:XGBClassifier", (), {"n_jobs": 1}),
    "lattices": ("polydom.models.lattices.estimator:LatticeEnsembleClassifier", (), {}),
    "prior": ("sklearn.dummy:DummyClassifier", (), {"strategy": "prior"}),
}

REGRESSORS: dict[str, Recipe] = {
    "linear": ("sklearn.linear_model:LinearRegression", SCALED, {}),
    "ridge": ("sklearn.linear_model:Ridge", SCALED, {}),
    # The right penalty depends on the labels' unit, so cross-validation chooses it.
    "lasso": ("sklearn.linear_model:LassoCV", SCALED, {}),
    "elastic_net": ("sklearn.linear_model:ElasticNetCV", SCALED, {}),
    "linear_svm": ("sklearn.svm:LinearSVR", SCALED, {}),
    "sgd": ("sklearn.linear_model:SGDRegressor", SCALED, {}),
    "tree": ("sklearn.tree:DecisionTreeRegressor", (), {"min_samples_leaf": 3}),
    "forest": ("sklearn.ensemble:RandomForestRegressor", (), {}),
    "extra_trees": ("sklearn.ensemble:ExtraTreesRegressor", (), {}),
    "boosting": ("sklearn.ensemble:GradientBoostingRegressor", ("fill",), {}),
    "hist_boosting": ("sklearn.ensemble:HistGradientBoostingRegressor", (), {}),
    "lightgbm": ("lightgbm:LGBMRegressor", (), {"n_jobs": 1, "verbosity": -1}),
    "xgboost": ("xgboost:XGBRegressor", (), {"n_jobs": 1}),
    "mean": ("sklearn.dummy:DummyRegressor", (), {}),
}

LEARNERS: dict[Task, dict[str, Recipe]] = {
    "classes": CLASSIFIERS,
    "regression": REGRESSORS,
}
WORDS: dict[Task, tuple[str, str]] = {
    "classes": ("classes", "classifier"),
    "regression": ("numbers", "regressor"),
}
# Parameters that decide which other parameters XGBoost uses.
DECISIVE = ("booster", "objective", "tree_method")
EXTRAS = {"lightgbm": "boosting", "xgboost": "boosting"}


def make_learner(
    spec: Mapping[str, Any] | str, seed: int, task: Task = "classes"
) -> Any:
    """Make the unfitted estimator that a project's `[learner]` table describes.

    Parameters
    ----------
    spec
        A name, or a mapping with `name` and parameters of the estimator. The name is
        one of `LEARNERS[task]`, or "module:Class" of scikit-learn, LightGBM or XGBoost.
        The former come with the steps that fill or scale their inputs, where needed.
        The latter get their inputs unchanged, except that missing values are filled if
        the class refuses them.
    seed
        `random_state` of the estimator, unless `spec` gives one.
    task
        "classes" for a classifier, "regression" for a regressor.

    Raises
    ------
    BadProject
        If the name or a parameter is unknown (the message names the nearest known one),
        the learner is for the other task, or the estimator refuses the value of a
        parameter.
    BadModel
        If the estimator has no compiled form; the message lists the classes that have
        one.
    """
    parameters: dict[str, Any] = {"name": spec} if isinstance(spec, str) else dict(spec)
    name = parameters.pop("name", None)
    if not isinstance(name, str):
        raise BadProject(f"learner: name is {name!r}; it must be a text")
    path, preparations, defaults = _known(name, task)
    estimator = _instance(name, path, {**defaults, **parameters}, seed)
    compilable(estimator)
    _check_task(name, estimator, task)
    if not (preparations or _takes_missing(estimator)):
        preparations = ("fill",)
    return _pipeline(preparations, estimator)


def _known(name: str, task: Task) -> Recipe:
    known = LEARNERS[task]
    if name in known:
        return known[name]
    if ":" in name:
        return name, (), {}
    if any(name in others for others in LEARNERS.values()):
        raise _of_the_other(name, task)
    near = nearest(name, names := _names(known))
    meant = f"; did you mean {names[near]!r}?" if near else ""
    raise BadProject(
        f"learner {name!r} is unknown{meant}; known: {', '.join(known)}, or "
        f"'module:Class' of a {WORDS[task][1]} of scikit-learn, LightGBM or XGBoost"
    )


def _check_task(name: str, estimator: Any, task: Task) -> None:
    from sklearn.base import ClassifierMixin

    numbers = is_regressor(estimator)
    if not (numbers or isinstance(estimator, ClassifierMixin)):
        raise BadModel(f"learner {name!r} is neither a classifier nor a regressor")
    if numbers != (task == "regression"):
        raise _of_the_other(name, task)


def _of_the_other(name: str, task: Task) -> BadProject:
    wanted, kind = WORDS[task]
    other = WORDS["classes" if task == "regression" else "regression"][0]
    return BadProject(
        f"learner {name!r} is for {other}; for {wanted} there are: "
        f"{', '.join(LEARNERS[task])}, or 'module:Class' of a {kind}"
    )


def _names(known: Mapping[str, Recipe]) -> dict[str, str]:
    """Map each text that may name a learner, such as its class, to its own name."""
    names = {name: name for name in known}
    for name, (path, _, _) in known.items():
        own = path.partition(":")[2]
        bare = own.removesuffix("Classifier").removesuffix("Regressor")
        names |= {own: name, bare.removesuffix("CV"): name}
    return names


def describe_learner(estimator: Any) -> dict[str, Any]:
    """Return the project's `[learner]` table for an unfitted estimator.

    The table has "module:Class" as `name`, and all parameters that differ from their
    defaults. Raises BadModel if the estimator is a Pipeline or has no compiled form,
    and BadProject if a parameter is not a number, a text or a list of numbers and
    texts.
    """
    path = compilable(estimator)
    if path is None:
        raise BadModel(
            "a Pipeline came as learner: give the estimator at its end, or one of "
            f"{listed([*CLASSIFIERS])} by name, which fill gaps and scale as they need"
        )
    module, _, name = path.rpartition(".")
    usual = type(estimator)().get_params(deep=False)
    given = estimator.get_params(deep=False)
    own = {key: one for key, one in given.items() if repr(one) != repr(usual.get(key))}
    return {"name": f"{module}:{name}", **{key: _plain(key, own[key]) for key in own}}


def _plain(name: str, value: Any) -> Any:
    if isinstance(value, np.generic | np.ndarray):
        value = value.tolist()
    if isinstance(value, list | tuple):
        return [_plain(name, one) for one in value]
    if isinstance(value, str | int | float | None):
        return value
    raise BadProject(
        f"learner: {name} is {value!r}; an index is built with numbers, texts and "
        "lists of these as parameters"
    )


def _instance(name: str, path: str, parameters: dict[str, Any], seed: int) -> Any:
    made = _class(path)
    known = inspect.signature(made).parameters
    # LightGBM and XGBoost accept parameters that their constructors do not name.
    open_ = any(one.kind is one.VAR_KEYWORD for one in known.values())
    names = _more_names(made) if open_ else {*known}
    unknown = [parameter for parameter in parameters if parameter not in names]
    rest = ""
    if unknown and path.startswith("xgboost:"):
        unknown = _unused(made, parameters, names)
        rest = ", or not with this booster and objective"
    for parameter in unknown:
        near = nearest(parameter, sorted(names), 0.6)
        raise BadProject(
            f"learner {name!r} has no parameter {parameter!r}{rest}"
            f"{f'; did you mean {near!r}?' if near else ''}"
        )
    if "random_state" in names:
        parameters.setdefault("random_state", seed)
    if path.startswith("lightgbm:") and not {"verbose", "verbosity"} & set(parameters):
        parameters["verbose"] = -1  # otherwise LightGBM prints for every training
    estimator = made(**parameters)
    if not hasattr(estimator, "_parameter_constraints"):
        return estimator
    try:
        estimator._validate_params()
    except ValueError as error:
        raise BadProject(f"learner {name!r}: {error}") from error
    return estimator


def _more_names(made: Any) -> set[str]:
    names = {*made().get_params()}
    if made.__module__.startswith("lightgbm."):
        from lightgbm.basic import _ConfigAliases

        for name, others in _ConfigAliases._get_all_param_aliases().items():
            names |= {name, *others}
    return names


def _unused(made: Any, parameters: Mapping[str, Any], names: set[str]) -> list[str]:
    """Return the names of the parameters that XGBoost ignores, by fitting two rows."""
    more = {key: one for key, one in parameters.items() if key not in names}
    # Parameters are tried together with the ones that decide about their use.
    more |= {key: parameters[key] for key in DECISIVE if key in parameters}
    probe = made(**more, n_estimators=1, verbosity=1, n_jobs=1)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        # A wrong value makes the real training fail, with a better error.
        with suppress(ValueError, TypeError):
            probe.fit([[0.0], [1.0]], [0, 1])
    texts = " ".join(str(one.message) for one in said)
    unused = re.findall(r"Parameters: \{ (.*?) \} are not used", texts)
    return re.findall(r'"(.*?)"', " ".join(unused))


def _class(path: str) -> Any:
    module, _, name = path.partition(":")
    try:
        found = getattr(import_module(module), name)
    except (ImportError, AttributeError, ValueError) as error:
        cure, extra = "", EXTRAS.get(module.partition(".")[0])
        if extra and isinstance(error, ModuleNotFoundError):
            cure = f"; install it: pip install 'polydom[{extra}]'"
        raise BadProject(
            f"learner {path!r} cannot be imported: {error}{cure}"
        ) from error
    if not (inspect.isclass(found) and hasattr(found, "_validate_params")):
        raise BadModel(f"learner {path!r} is not an estimator of scikit-learn's form")
    return found


def _takes_missing(estimator: Any) -> bool:
    from sklearn.utils import get_tags

    return bool(get_tags(estimator).input_tags.allow_nan)


def _pipeline(preparations: tuple[str, ...], estimator: Any) -> Any:
    if not preparations:
        return estimator
    from sklearn.impute import SimpleImputer
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import MinMaxScaler, StandardScaler

    makers = {
        "fill": lambda: SimpleImputer(strategy="median", keep_empty_features=True),
        "standardise": StandardScaler,
        "squeeze": lambda: MinMaxScaler(clip=True),
    }
    return make_pipeline(*(makers[name]() for name in preparations), estimator)
