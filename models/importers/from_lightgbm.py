"""Read LightGBM's models from their text, without LightGBM."""

import json
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polydom.features.errors import BadModel

from ..scoring.classifier import Classifier, Head, labels_of
from ..scoring.fitted_columns import FittedColumns
from ..scoring.kernels.link import EACH, LARGEST_SCORE, LOGISTIC, SOFTMAX
from ..scoring.model import Model
from ..scoring.preparation import Preparation, inputs_of
from ..scoring.regressor import Link, Regressor
from ..trees.nodes import (
    MISSING_LEFT,
    NAN_IS_ZERO,
    SET_LEFT,
    ZERO_IS_MISSING,
    ZERO_LIMIT,
    Tree,
)
from ..trees.trees import Trees, join

VERSIONS = ("v2", "v3", "v4")
CLASSIFICATIONS = ("binary", "cross_entropy", "multiclass", "multiclassova")
MANY = ("multiclass", "multiclassova")
REGRESSIONS: dict[str, Link] = {
    "regression": "identity",
    "regression_l1": "identity",
    "huber": "identity",
    "fair": "identity",
    "quantile": "identity",
    "mape": "identity",
    "poisson": "exp",
    "gamma": "exp",
    "tweedie": "exp",
    "lambdarank": "identity",
    "rank_xendcg": "identity",
}
# Bits of a node's `decision_type`.
CATEGORICAL, DEFAULT_LEFT = 1, 2
MISSING_NONE, MISSING_ZERO = 0, 1

Fields = dict[str, str]


def read_lightgbm(
    text: str,
    preparation: Preparation | None = None,
    classes: Sequence[Any] | None = None,
    objectives: tuple[str, ...] = (*CLASSIFICATIONS, *REGRESSIONS),
) -> Classifier | Regressor:
    """Compile the text that LightGBM's `save_model` or `model_to_string` writes.

    Raw scores equal LightGBM's to the bit, except for a forest (`boosting=rf`): its raw
    scores are means over its trees, whereas LightGBM's `raw_score` returns sums. By
    default, the inputs are the first columns of the full row, and `classes` are the
    numbers from 0 to K - 1. Raises BadModel if the model has no compiled form, or if
    its objective is not in `objectives`.
    """
    objective, options, K, trees = _read(text, preparation, objectives)
    if objective in REGRESSIONS:
        link = "signed square" if "sqrt" in options else REGRESSIONS[objective]
        return Regressor(trees, link, _fitted(text))
    return Classifier(trees, _head(objective, options, K, classes), _fitted(text))


def lightgbm_text(booster: Any) -> str:
    """Return a Booster as text; BadModel if LightGBM cannot write it."""
    try:
        return str(booster.model_to_string())
    except (TypeError, ValueError) as error:  # some categories have no form in JSON
        raise BadModel(
            f"LightGBM cannot write this model as a text: {error}; fit it on "
            "categories that are texts or numbers"
        ) from error


def _fitted(text: str) -> FittedColumns:
    """Read the names and the categories of the columns from a model's text."""
    text = text.replace("\r\n", "\n")
    fields = _fields(text.partition("\nTree=")[0])
    names = tuple(fields.get("feature_names", "").split())
    infos = fields.get("feature_infos", "").split()
    width = _whole(fields, "max_feature_idx") + 1
    line = text.rpartition("\npandas_categorical:")[2].partition("\n")[0]
    found = "\npandas_categorical:" in text
    try:
        lists = (json.loads(line) or ()) if found else ()
        # LightGBM writes a tuple, such as an interval, as a list.
        categories = [
            tuple(tuple(one) if isinstance(one, list) else one for one in known)
            for known in lists
        ]
    except (TypeError, ValueError) as error:
        raise BadModel(
            f"LightGBM model: damaged pandas_categorical: {error}"
        ) from error
    unordered = [j for j, info in enumerate(infos) if info[:1] not in "[n"]
    return FittedColumns(
        "LightGBM",
        width,
        names if len(names) == width else None,
        tuple(categories),
        tuple(unordered) if len(unordered) == len(categories) else None,
    )


def _read(
    text: str, preparation: Preparation | None, objectives: tuple[str, ...]
) -> tuple[str, Fields, int, Trees]:
    """Read the objective, its options, the number of classes, and the trees."""
    text = text.replace("\r\n", "\n")
    header, *sections = text.split("\nTree=")
    fields = _fields(header)
    if not header.startswith("tree"):
        raise BadModel("not a LightGBM text model: its first line is not 'tree'")
    if fields.get("version") not in VERSIONS:
        raise BadModel(
            f"LightGBM model of version {fields.get('version')!r}; "
            f"known: {', '.join(VERSIONS)}"
        )
    objective, options = _objective(fields, objectives)
    K = _whole(fields, "num_class")
    per_round = _whole(fields, "num_tree_per_iteration")
    width = _whole(fields, "max_feature_idx") + 1
    if per_round != (max(K, 2) if objective in MANY else 1):
        raise BadModel(f"LightGBM {objective} model with {per_round} trees per round")
    try:
        trees = [_tree(_fields(section), width) for section in sections]
    except (KeyError, ValueError, IndexError) as error:
        raise BadModel(f"damaged LightGBM tree: {error}") from error
    _check_whole(text, fields)
    if not trees or len(trees) % per_round:
        raise BadModel(f"LightGBM model of {len(trees)} trees, {per_round} per round")
    rounds = len(trees) // per_round
    scorer = join(
        trees,
        list(range(per_round)) * rounds,
        inputs_of(width, preparation),
        bias=np.zeros(per_round),
        divisor=rounds if "average_output" in header.split("\n") else 1.0,
        single=False,
    )
    return objective, options, K, scorer


def _check_whole(text: str, fields: Fields) -> None:
    """Raise BadModel unless each tree's text is as long as the header states."""
    if "tree_sizes" not in fields:  # old files do not state sizes
        return
    sizes = fields["tree_sizes"].split()
    body = text.encode()
    at = body.find(b"\nTree=") + 1
    for i, size in enumerate(sizes):
        if not (size.isdecimal() and body.startswith(b"Tree=%d\n" % i, at)):
            raise BadModel(
                f"LightGBM model: tree {i} of {len(sizes)} is not where the header "
                "says; the file was cut or edited"
            )
        at += int(size)
    if not body.startswith(b"end of trees", at):
        raise BadModel(
            f"LightGBM model: no 'end of trees' after {len(sizes)} trees; the file was "
            "cut or edited"
        )


def _head(
    objective: str, options: Fields, K: int, classes: Sequence[Any] | None
) -> Head:
    count = K if objective in MANY else 2
    labels = labels_of(classes, count)
    if objective == "multiclass":
        return Head(labels, SOFTMAX, LARGEST_SCORE, K)
    gain = _gain(options.get("sigmoid", "1"))
    if objective == "multiclassova":
        return Head(labels, EACH, LARGEST_SCORE, K, gain)
    return Head(labels, LOGISTIC, LARGEST_SCORE, 1, gain)


def _gain(text: str) -> float:
    try:
        gain = float(text)
    except ValueError:
        gain = 0.0
    if not (math.isfinite(gain) and gain > 0):
        raise BadModel(f"LightGBM model: sigmoid is {text!r}, it must be above 0")
    return gain


def _fields(section: str) -> Fields:
    lines = (line.partition("=") for line in section.split("\n"))
    return {name: value for name, found, value in lines if found}


def _whole(fields: Fields, name: str) -> int:
    text = fields.get(name, "")
    if not (text.isascii() and text.isdigit()):
        raise BadModel(f"LightGBM model: {name} is {text!r}, it must be a whole number")
    return int(text)


def _objective(fields: Fields, known: tuple[str, ...]) -> tuple[str, Fields]:
    name, *words = fields.get("objective", "").split() or ["(none)"]
    if name not in known:
        raise BadModel(
            f"LightGBM objective {name!r} has no compiled form here; these have: "
            f"{', '.join(known)}"
        )
    pairs = (word.partition(":") for word in words)
    return name, {option: value for option, _, value in pairs}


def _tree(fields: Fields, width: int) -> Tree:
    """Read one tree from its `fields`; inner nodes are numbered before leaves."""
    if fields.get("is_linear", "0") != "0":
        raise BadModel("LightGBM trees with linear leaves have no compiled form")
    leaves = _numbers(fields["leaf_value"])
    count = _whole(fields, "num_leaves")
    inner = count - 1
    if len(leaves) != count:
        raise ValueError(f"{len(leaves)} leaf values for {count} leaves")
    names = ("split_feature", "threshold", "decision_type", "left_child", "right_child")
    split = [_numbers(fields[name] if inner else "") for name in names]
    if any(len(numbers) != inner for numbers in split):
        raise ValueError(f"fields of other lengths than its {inner} splits")
    features, thresholds, decisions, left, right = split
    if not np.isfinite(leaves).all() or np.isnan(thresholds).any():
        raise ValueError("a leaf value or a threshold that is no number")
    if not all(np.isfinite(numbers).all() for numbers in (decisions, left, right)):
        raise ValueError("a child or a decision that is no whole number")
    if not ((features >= 0) & (features < width)).all():
        raise ValueError(f"a split on a feature outside the {width} there are")
    kinds = decisions.astype(np.int64)
    return Tree(
        column=np.concatenate([features, np.full(count, -1)]).astype(np.int64),
        threshold=np.concatenate([_as_compared(thresholds), np.zeros(count)]),
        left=_children(left, inner),
        right=_children(right, inner),
        values=np.concatenate([np.zeros(inner), leaves])[:, None],
        flags=np.concatenate([_flags(kinds), np.zeros(count, np.int64)]),
        sets=_sets(fields, kinds, thresholds),
    )


def _numbers(text: str) -> NDArray[np.float64]:
    return np.array([float(word) for word in text.split()])


def _as_compared(thresholds: NDArray[np.float64]) -> NDArray[np.float64]:
    """Move thresholds near 0, so that inputs go to the same child as in LightGBM.

    LightGBM treats an input as 0 if its magnitude is at most `ZERO_LIMIT`.
    """
    below = np.nextafter(-ZERO_LIMIT, -np.inf)
    where_zero_goes = np.where(thresholds >= 0, ZERO_LIMIT, below)
    return np.where(np.abs(thresholds) <= ZERO_LIMIT, where_zero_goes, thresholds)


def _children(children: NDArray[np.float64], inner: int) -> NDArray[np.int64]:
    """Return children as node numbers; LightGBM writes the k-th leaf as -(k + 1)."""
    whole = children.astype(np.int64)
    placed = np.where(whole < 0, inner - whole - 1, whole)
    return np.concatenate([placed, np.full(inner + 1, -1)])


def _flags(kinds: NDArray[np.int64]) -> NDArray[np.int64]:
    categorical = (kinds & CATEGORICAL) != 0
    missing = kinds >> 2 & 3
    flags = np.where(kinds & DEFAULT_LEFT, MISSING_LEFT, 0)
    flags = np.where(missing == MISSING_NONE, NAN_IS_ZERO, flags)
    zero = NAN_IS_ZERO | ZERO_IS_MISSING
    flags = np.where(missing == MISSING_ZERO, flags | zero, flags)
    return np.where(categorical, SET_LEFT, flags)


def _sets(
    fields: Fields, kinds: NDArray[np.int64], thresholds: NDArray[np.float64]
) -> dict[int, Sequence[int]]:
    nodes = np.flatnonzero(kinds & CATEGORICAL)
    if not nodes.size:
        return {}
    bounds = _numbers(fields["cat_boundaries"]).astype(np.int64)
    words = [int(word) for word in fields["cat_threshold"].split()]
    sets: dict[int, Sequence[int]] = {}
    for node in nodes:
        number = int(thresholds[node])
        own = words[bounds[number] : bounds[number + 1]]
        bits = range(32 * len(own))
        sets[int(node)] = [bit for bit in bits if own[bit // 32] >> bit % 32 & 1]
    return sets


def _classifier(fitted: Any, preparation: Preparation) -> Classifier | Regressor:
    text = lightgbm_text(fitted.booster_)
    return read_lightgbm(text, preparation, fitted.classes_, CLASSIFICATIONS)


def _regressor(fitted: Any, preparation: Preparation) -> Classifier | Regressor:
    text = lightgbm_text(fitted.booster_)
    return read_lightgbm(text, preparation, objectives=tuple(REGRESSIONS))


CLASSIFIERS: dict[str, Callable[[Any, Preparation], Model]] = {
    "lightgbm.LGBMClassifier": _classifier
}
REGRESSORS: dict[str, Callable[[Any, Preparation], Model]] = {
    "lightgbm.LGBMRegressor": _regressor,
    "lightgbm.LGBMRanker": _regressor,
}
