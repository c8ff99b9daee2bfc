"""Learners by name: unfitted classifiers that have a compiled form."""

import inspect
from collections.abc import Mapping
from importlib import import_module
from typing import Any

from polydom.features.errors import BadModel, BadProject
from polydom.features.wording import nearest

from ..importers.classifiers import compilable

# Short name: the classifier, what is put before it, and the parameters that differ
# from scikit-learn's. Missing values are filled where the classifier refuses them.
LEARNERS: dict[str, tuple[str, tuple[str, ...], dict[str, Any]]] = {
    "logistic": (
        "sklearn.linear_model:LogisticRegression",
        ("fill", "standardise"),
        {"max_iter": 1000},
    ),
    "sgd": (
        "sklearn.linear_model:SGDClassifier",
        ("fill", "standardise"),
        {"loss": "log_loss"},
    ),
    "linear_svm": ("sklearn.svm:LinearSVC", ("fill", "standardise"), {}),
    "perceptron": ("sklearn.linear_model:Perceptron", ("fill", "standardise"), {}),
    "ridge": ("sklearn.linear_model:RidgeClassifier", ("fill", "standardise"), {}),
    "lda": (
        "sklearn.discriminant_analysis:LinearDiscriminantAnalysis",
        ("fill", "standardise"),
        {"solver": "lsqr", "shrinkage": "auto"},
    ),
    "naive_bayes": (
        "sklearn.naive_bayes:GaussianNB",
        ("fill", "standardise"),
        {"var_smoothing": 0.03},  # as good or better than 1e-9 on all data tried
    ),
    "bernoulli_bayes": ("sklearn.naive_bayes:BernoulliNB", ("fill", "standardise"), {}),
    "multinomial_bayes": (
        "sklearn.naive_bayes:MultinomialNB",
        ("fill", "squeeze"),
        {},
    ),
    "complement_bayes": ("sklearn.naive_bayes:ComplementNB", ("fill", "squeeze"), {}),
    "tree": ("sklearn.tree:DecisionTreeClassifier", (), {"min_samples_leaf": 3}),
    "forest": ("sklearn.ensemble:RandomForestClassifier", (), {}),
    "extra_trees": ("sklearn.ensemble:ExtraTreesClassifier", (), {}),
    "boosting": ("sklearn.ensemble:GradientBoostingClassifier", ("fill",), {}),
    "hist_boosting": ("sklearn.ensemble:HistGradientBoostingClassifier", (), {}),
    "ada_boost": ("sklearn.ensemble:AdaBoostClassifier", ("fill",), {}),
    # one thread, as trainings are many at a time; and LightGBM else prints
    "lightgbm": ("lightgbm:LGBMClassifier", (), {"n_jobs": 1, "verbosity": -1}),
    "xgboost": ("xgboost:XGBClassifier", (), {"n_jobs": 1}),
    "lattices": ("polydom.models.lattices.estimator:LatticeEnsembleClassifier", (), {}),
    "prior": ("sklearn.dummy:DummyClassifier", (), {"strategy": "prior"}),
}

EXTRAS = {"lightgbm": "boosting", "xgboost": "boosting"}


def make_learner(spec: Mapping[str, Any] | str, seed: int) -> Any:
    """Make the unfitted classifier that a project's `[learner]` table describes.

    Parameters
    ----------
    spec
        A name, or a mapping with `name` and the classifier's parameters. The name is
        one of `LEARNERS` (which scale and fill their inputs as they need it) or
        "module:Class" (which gets its inputs as they are, but for missing values that
        it refuses: those are filled), be it scikit-learn's, LightGBM's or XGBoost's.
    seed
        Becomes `random_state` where there is one and the spec gives none.

    Raises
    ------
    BadProject
        If the name or a parameter is unknown (the nearest known one is named), or a
        parameter's value is refused by the classifier.
    BadModel
        If the classifier has no compiled form; the message lists what has.
    """
    parameters: dict[str, Any] = {"name": spec} if isinstance(spec, str) else dict(spec)
    name = parameters.pop("name", None)
    if not isinstance(name, str):
        raise BadProject(f"learner: name is {name!r}; it must be a text")
    path, preparations, defaults = _known(name)
    classifier = _instance(name, path, {**defaults, **parameters}, seed)
    compilable(classifier)
    if not (preparations or _takes_missing(classifier)):
        preparations = ("fill",)
    return _pipeline(preparations, classifier)


def _known(name: str) -> tuple[str, tuple[str, ...], dict[str, Any]]:
    if name in LEARNERS:
        return LEARNERS[name]
    if ":" in name:
        return name, (), {}
    near = nearest(name, names := _names())
    meant = f"; did you mean {names[near]!r}?" if near else ""
    raise BadProject(
        f"learner {name!r} is unknown{meant}; known: {', '.join(LEARNERS)}, or "
        "'module:Class' of a classifier of scikit-learn, LightGBM or XGBoost"
    )


def _names() -> dict[str, str]:
    """Learners by what they may be called: their name, or that of their class."""
    names = {name: name for name in LEARNERS}
    for name, (path, _, _) in LEARNERS.items():
        own = path.partition(":")[2]
        names |= {own: name, own.removesuffix("Classifier"): name}
    return names


def _instance(name: str, path: str, parameters: dict[str, Any], seed: int) -> Any:
    made = _class(path)
    known = inspect.signature(made).parameters
    # LightGBM and XGBoost take parameters that their classes do not name
    open_ = any(one.kind is one.VAR_KEYWORD for one in known.values())
    for parameter in parameters:
        if parameter not in known and not open_:
            near = nearest(parameter, known, 0.6)
            raise BadProject(
                f"learner {name!r} has no parameter {parameter!r}"
                f"{f'; did you mean {near!r}?' if near else ''}"
            )
    if open_ or "random_state" in known:
        parameters.setdefault("random_state", seed)
    if path.startswith("lightgbm:") and not {"verbose", "verbosity"} & set(parameters):
        parameters["verbose"] = -1  # else it writes lines for every training
    classifier = made(**parameters)
    if not hasattr(classifier, "_parameter_constraints"):
        return classifier
    try:
        classifier._validate_params()
    except ValueError as error:
        raise BadProject(f"learner {name!r}: {error}") from error
    return classifier


def _class(path: str) -> Any:
    module, _, name = path.partition(":")
    try:
        found = getattr(import_module(module), name)
    except ModuleNotFoundError as error:
        extra = EXTRAS.get(module.partition(".")[0])
        cure = f"; install it: pip install 'polydom[{extra}]'" if extra else ""
        raise BadProject(
            f"learner {path!r} cannot be imported: {error}{cure}"
        ) from error
    except (ImportError, AttributeError, ValueError) as error:
        raise BadProject(f"learner {path!r} cannot be imported: {error}") from error
    if not (inspect.isclass(found) and hasattr(found, "_validate_params")):
        raise BadModel(f"learner {path!r} is not a scikit-learn classifier")
    return found


def _takes_missing(classifier: Any) -> bool:
    from sklearn.utils import get_tags

    return bool(get_tags(classifier).input_tags.allow_nan)


def _pipeline(preparations: tuple[str, ...], classifier: Any) -> Any:
    if not preparations:
        return classifier
    from sklearn.impute import SimpleImputer
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import MinMaxScaler, StandardScaler

    makers = {
        "fill": lambda: SimpleImputer(strategy="median", keep_empty_features=True),
        "standardise": StandardScaler,
        "squeeze": lambda: MinMaxScaler(clip=True),
    }
    return make_pipeline(*(makers[name]() for name in preparations), classifier)
