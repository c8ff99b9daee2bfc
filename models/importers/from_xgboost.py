"""Read XGBoost's models from JSON or Universal Binary JSON, without XGBoost."""

import json
import math
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polydom.features.errors import BadModel

from ..linear.linear import Linear
from ..scoring.classifier import Classifier, Head, labels_of
from ..scoring.fitted_columns import FittedColumns
from ..scoring.kernels.link import LARGEST_SCORE, LOGISTIC, MARGIN, POSITIVE, SOFTMAX
from ..scoring.model import Model
from ..scoring.preparation import Preparation, inputs_of
from ..scoring.regressor import Link, Regressor
from ..scoring.scorer import SumOfTerms
from ..trees.nodes import MISSING_LEFT, NOT_BELOW_ZERO, Tree
from ..trees.trees import join
from .ubjson import read_ubj

VERSIONS = (1, 2, 3)
CLASSIFICATIONS = ("binary:logistic", "binary:hinge", "multi:softprob", "multi:softmax")
REGRESSIONS: dict[str, Link] = {
    "reg:squarederror": "identity",
    "reg:linear": "identity",
    "reg:squaredlogerror": "identity",
    "reg:absoluteerror": "identity",
    "reg:pseudohubererror": "identity",
    "reg:quantileerror": "identity",
    "reg:logistic": "logistic",
    "reg:gamma": "exp",
    "reg:tweedie": "exp",
    "count:poisson": "exp",
    "rank:ndcg": "identity",
    "rank:map": "identity",
    "rank:pairwise": "identity",
}
BOOSTERS = ("gbtree", "dart", "gblinear")
# Errors that Python raises if a value in the file has a wrong type or size.
MISFITS = (LookupError, TypeError, ValueError, AttributeError, ArithmeticError)
# XGBoost's own limit on the categories of a column.
MOST_CATEGORIES = 1 << 24


def read_xgboost(
    source: str | bytes,
    preparation: Preparation | None = None,
    classes: Sequence[Any] | None = None,
    objectives: tuple[str, ...] = (*CLASSIFICATIONS, *REGRESSIONS),
    *,
    to_best: bool = True,
) -> Classifier | Regressor:
    """Compile a model that XGBoost's `save_model` wrote: JSON (str) or UBJSON (bytes).

    XGBoost adds leaf values in float32, the compiled model in float64: raw scores agree
    within 1e-5. By default, the inputs are the first columns of the full row, and
    `classes` are 0 to K - 1. After early stopping, the compiled model has the rounds up
    to the best round if `to_best`, as in `XGBClassifier.predict`, else all rounds, as
    in `Booster.predict`. Raises BadModel if the model has no compiled form, or if its
    objective is not in `objectives`.
    """
    objective, K, scorer, fitted = _read(source, preparation, objectives, to_best)
    if objective not in REGRESSIONS:
        return Classifier(scorer, _head(objective, K, classes), fitted)
    if scorer.outputs > 1:
        raise BadModel("XGBoost models of several outputs have no compiled form")
    return Regressor(scorer, REGRESSIONS[objective], fitted)


def _read(
    source: str | bytes,
    preparation: Preparation | None,
    objectives: tuple[str, ...],
    to_best: bool,
) -> tuple[str, int, SumOfTerms, FittedColumns]:
    """Read the objective, the number of sums (1 or K), the scorer, and the columns."""
    try:
        model = read_ubj(source) if isinstance(source, bytes) else json.loads(source)
        if "tree_info" in model:
            raise BadModel("this is LightGBM's dump_model; its save_model can be read")
        _check_version(model)
        learner = model["learner"]
        compiled = _compile(learner, preparation, objectives, to_best)
        return *compiled, _fitted(learner)
    except KeyError as error:
        raise BadModel(f"not an XGBoost model: it has no {error}") from error
    except RecursionError as error:
        raise BadModel("not an XGBoost model: nested too deep") from error
    except MISFITS as error:
        raise BadModel(f"not an XGBoost model: {error!r}") from error


def _check_version(model: dict[str, Any]) -> None:
    version = [int(number) for number in model["version"]]
    if not version or version[0] not in VERSIONS:
        raise BadModel(
            f"XGBoost model of version {'.'.join(map(str, version))}; "
            f"known: {', '.join(f'{major}.x' for major in VERSIONS)}"
        )


def _compile(
    learner: dict[str, Any],
    preparation: Preparation | None,
    objectives: tuple[str, ...],
    to_best: bool,
) -> tuple[str, int, SumOfTerms]:
    objective, booster = learner["objective"]["name"], learner["gradient_booster"]
    _need("objective", objective, objectives)
    _need("booster", booster["name"], BOOSTERS)
    parameters = learner["learner_model_param"]
    if int(parameters.get("num_target", 1)) > 1:
        raise BadModel("XGBoost models of several outputs have no compiled form")
    K = max(int(parameters["num_class"]), 1)
    inputs = inputs_of(int(parameters["num_feature"]), preparation)
    bias = _bias(parameters["base_score"], objective, K)
    if booster["name"] == "gblinear":
        return objective, K, _linear(booster["model"], inputs, bias)
    best = learner.get("attributes", {}).get("best_iteration") if to_best else None
    return objective, K, _trees(booster, inputs, bias, best)


def _fitted(learner: dict[str, Any]) -> FittedColumns:
    booster = learner["gradient_booster"]
    model = booster.get("gbtree", booster).get("model", {})
    encodings = model.get("cats", {}).get("enc", ())  # files before 3.1 have none
    known = [(j, _categories(one)) for j, one in enumerate(encodings)]
    known = [(j, categories) for j, categories in known if categories]
    names = tuple(map(str, learner.get("feature_names", ())))
    width = int(learner["learner_model_param"]["num_feature"])
    return FittedColumns(
        "XGBoost",
        width,
        names if len(names) == width else None,
        tuple(categories for _, categories in known),
        tuple(j for j, _ in known),
    )


def _categories(encoding: dict[str, Any]) -> tuple[Any, ...]:
    """Read a column's categories.

    XGBoost may store texts only in part. If so, what is stored is returned as bytes.
    """
    values = np.asarray(encoding["values"])
    if "offsets" not in encoding:
        return tuple(values.tolist())
    ends, text = np.asarray(encoding["offsets"]).tolist(), values.astype(np.uint8)
    parts = [text[start:end].tobytes() for start, end in pairwise(ends)]
    try:
        texts = tuple(part.decode() for part in parts)
    except UnicodeDecodeError:
        return tuple(parts)
    return texts if len({*texts}) == len(texts) else tuple(parts)


def _head(objective: str, K: int, classes: Sequence[Any] | None) -> Head:
    count = max(K, 2)
    labels = labels_of(classes, count)
    if objective.startswith("multi:"):
        return Head(labels, SOFTMAX, LARGEST_SCORE, K)
    if objective == "binary:hinge":
        return Head(labels, MARGIN, POSITIVE, 1)
    return Head(labels, LOGISTIC, LARGEST_SCORE, 1)


def _need(what: str, name: str, known: Sequence[str]) -> None:
    if name not in known:
        raise BadModel(
            f"XGBoost {what} {name!r} has no compiled form here; these have: "
            f"{', '.join(known)}"
        )


def _bias(base_score: str, objective: str, K: int) -> NDArray[np.float64]:
    """Convert `base_score`, one number or one for each class, to raw scores (K,)."""
    numbers = [float(word) for word in str(base_score).strip("[]").split(",")]
    if objective in ("binary:logistic", "reg:logistic"):
        (share,) = numbers
        if not 0 < share < 1:
            raise BadModel(f"XGBoost base_score is {share:g}; it must be in (0, 1)")
        numbers = [-math.log(1 / share - 1)]
    elif REGRESSIONS.get(objective) == "exp":
        (mean,) = numbers
        if not mean > 0:
            raise BadModel(f"XGBoost base_score is {mean:g}; it must be above 0")
        numbers = [math.log(mean)]
    if not all(map(math.isfinite, numbers)):
        raise BadModel(f"XGBoost base_score is {base_score}; it must be finite")
    return np.broadcast_to(np.array(numbers, np.float32), K).astype(np.float64)


def _trees(
    booster: dict[str, Any],
    inputs: Preparation,
    bias: NDArray[np.float64],
    best: str | int | None,
) -> SumOfTerms:
    K, dart = len(bias), booster["name"] == "dart"
    model = (booster["gbtree"] if dart else booster)["model"]
    targets = [int(target) for target in model["tree_info"]]
    if not all(0 <= target < K for target in targets):
        raise BadModel(f"an XGBoost tree for a class outside the {K} there are")
    trees = model["trees"]
    weights = np.ones(len(trees), np.float32)
    if dart:
        weights = np.asarray(booster["weight_drop"], np.float32)
    if not len(trees) == len(targets) == len(weights):
        raise BadModel(
            f"{len(trees)} XGBoost trees for {len(targets)} classes, "
            f"with {len(weights)} weights"
        )
    if not np.isfinite(weights).all():
        raise BadModel("the weight of an XGBoost tree is not finite")
    used, width = _used(model, K, best), len(inputs.columns)
    pairs = zip(trees[:used], weights, strict=False)
    read = [_tree(tree, width, weight) for tree, weight in pairs]
    return join(read, targets[:used], inputs, bias=bias, single=True)


def _used(model: dict[str, Any], K: int, best: str | int | None) -> int:
    """Return the number of trees in the rounds up to the best round.

    Without early stopping `best` is None, and all trees are used.
    """
    count = len(model["trees"])
    if best is None:
        return count
    best = int(best)
    ends = model.get("iteration_indptr")  # files of 1.x have none
    if ends is None:
        abreast = int(model["gbtree_model_param"].get("num_parallel_tree", 1))
        used = (best + 1) * max(abreast, 1) * K
    else:
        used = int(ends[best + 1]) if 0 <= best < len(ends) - 1 else -1
    if not 0 < used <= count:
        raise BadModel(f"an XGBoost model whose best round, {best}, does not exist")
    return used


def _tree(tree: dict[str, Any], width: int, weight: np.float32) -> Tree:
    left, right = _whole(tree, "left_children"), _whole(tree, "right_children")
    features = _whole(tree, "split_indices")
    defaults = _whole(tree, "default_left")
    with np.errstate(over="ignore"):
        conditions = np.asarray(tree["split_conditions"], np.float64).astype("f4")
    fields = left, right, features, defaults, conditions
    if len({field.shape for field in fields}) != 1 or left.ndim != 1:
        raise BadModel("an XGBoost tree with fields of different lengths")
    if int(tree["tree_param"].get("size_leaf_vector", 1)) > 1:
        raise BadModel("XGBoost trees with vector leaves have no compiled form")
    leaf = left < 0
    if not ((features >= 0) & (features < width))[~leaf].all():
        raise BadModel(f"an XGBoost split on a feature outside the {width} there are")
    if not np.isfinite(conditions[leaf]).all() or np.isnan(conditions).any():
        raise BadModel("an XGBoost tree with a leaf or a threshold that is no number")
    sets = _sets(tree, leaf)
    flags = np.where(defaults != 0, MISSING_LEFT, 0)
    flags[list(sets)] |= NOT_BELOW_ZERO
    return Tree(
        column=np.where(leaf, -1, features),
        # XGBoost goes left if value < condition, polydom if value <= threshold.
        threshold=np.nextafter(conditions, np.float32(-np.inf)).astype(np.float64),
        left=left,
        right=right,
        values=np.where(leaf, conditions * weight, 0.0).astype(np.float64)[:, None],
        flags=flags,
        sets=sets,
    )


def _whole(tree: dict[str, Any], name: str) -> NDArray[np.int64]:
    with np.errstate(invalid="ignore"):  # too large numbers are refused later
        return np.asarray(tree[name]).astype(np.int64)


def _sets(tree: dict[str, Any], leaf: NDArray[np.bool_]) -> dict[int, Sequence[int]]:
    """Map each node that splits by categories to the categories that go right."""
    types = _whole(tree, "split_type") if "split_type" in tree else np.zeros(len(leaf))
    if types.shape != leaf.shape:
        raise BadModel("an XGBoost tree with fields of different lengths")
    nodes = np.flatnonzero((types == 1) & ~leaf).tolist()
    names = ("nodes", "segments", "sizes")
    placed = [_whole(tree, f"categories_{name}").tolist() for name in names if nodes]
    found = dict(_cut_sets(tree, *placed)) if nodes else {}
    if set(nodes) != set(found):
        raise BadModel("an XGBoost split on categories without a set of them")
    return found


def _cut_sets(
    tree: dict[str, Any], nodes: list[int], starts: list[int], sizes: list[int]
) -> list[tuple[int, Sequence[int]]]:
    members = _whole(tree, "categories")
    if not ((members >= 0) & (members < MOST_CATEGORIES)).all():
        raise BadModel(f"an XGBoost category outside 0 to {MOST_CATEGORIES - 1}")
    ends = [start + size for start, size in zip(starts, sizes, strict=True)]
    if min([*starts, *sizes], default=0) < 0 or max(ends, default=0) > len(members):
        raise BadModel("an XGBoost set of categories that does not exist")
    spans = zip(nodes, starts, ends, strict=True)
    return [(node, members[start:end].tolist()) for node, start, end in spans]


def _linear(
    model: dict[str, Any], inputs: Preparation, bias: NDArray[np.float64]
) -> SumOfTerms:
    """Compile a linear booster; missing inputs count as 0."""
    d, K = len(inputs.columns), len(bias)
    weights = np.asarray(model["weights"], np.float32).astype(np.float64)
    if weights.shape != ((d + 1) * K,):
        raise BadModel(
            f"{weights.size} weights in a linear XGBoost model; "
            f"{d} inputs and {K} sums need {(d + 1) * K}"
        )
    if not np.isfinite(weights).all():
        raise BadModel("a weight in a linear XGBoost model is not finite")
    table = weights.reshape(d + 1, K)
    # XGBoost's linear booster adds the base score of the first class to all sums.
    intercepts = table[d] + bias[0]
    return Linear(inputs.then_fill(0.0), np.ascontiguousarray(table[:d]), intercepts)


def _classifier(fitted: Any, preparation: Preparation) -> Classifier | Regressor:
    return read_xgboost(_ubj_of(fitted), preparation, fitted.classes_, CLASSIFICATIONS)


def _regressor(fitted: Any, preparation: Preparation) -> Classifier | Regressor:
    return read_xgboost(_ubj_of(fitted), preparation, objectives=tuple(REGRESSIONS))


def _ubj_of(estimator: Any) -> bytes:
    """Return a fitted estimator as UBJSON.

    Raises BadModel if the estimator treats a number, instead of NaN, as missing.
    """
    if not np.isnan(estimator.missing):
        raise BadModel(
            f"{type(estimator).__name__}(missing={estimator.missing!r}) has no "
            "compiled form; missing=nan has"
        )
    return bytes(estimator.get_booster().save_raw("ubj"))


CLASSIFIERS: dict[str, Callable[[Any, Preparation], Model]] = {
    "xgboost.XGBClassifier": _classifier,
    "xgboost.XGBRFClassifier": _classifier,
}
REGRESSORS: dict[str, Callable[[Any, Preparation], Model]] = {
    "xgboost.XGBRegressor": _regressor,
    "xgboost.XGBRFRegressor": _regressor,
    "xgboost.XGBRanker": _regressor,
}
