"""OBMS: choose a model class under a budget of computation.

A model class is a family of models, such as trees up to a depth. One quantum of
computation trains class i on n_i more examples. The best class is the one that would
have the smallest training loss plus penalty if the whole budget of T quanta were spent
on it. A penalty bounds the difference between empirical and true risk. The penalties
here are for losses in [0, 1], and are known up to the constant `scale` (OBMS, section
2.1).

`choose_class` (Algorithm 1) is for unrelated classes, `choose_nested` (the coarse grid)
for nested ones. Both are strategies of `select`, once classes are described. `obms`
describes each learner as a class, and is the strategy of this name:

>>> from functools import partial
>>> from sklearn.datasets import load_breast_cancer
>>> from sklearn.tree import DecisionTreeClassifier
>>> from polydom.models import select
>>> X, y = load_breast_cancer(return_X_y=True)
>>> trees = {str(d): DecisionTreeClassifier(max_depth=d) for d in (1, 2, 4)}
>>> classes = {
...     str(d): ModelClass(400 // d, vc_penalty(tree_dimension(2**d, 30), scale=0.02))
...     for d in (1, 2, 4)
... }
>>> nested = partial(choose_nested, classes=classes, quanta=4)
>>> select(trees, X, y, strategy=nested, scored=None).name
'4'
>>> unrelated = partial(choose_class, classes=classes, quanta=6)
>>> select(trees, X, y, strategy=unrelated, scored=None).name
'4'
"""

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from polydom.features.errors import BadInput

from .arms import last_step
from .daub import need_limit
from .race import Race

Penalty = Callable[[float], float]

SCALE = 0.02  # constant of the penalties, which the theory leaves open
PILOT = 20  # the first training of each class has a part of the examples in so many
EIGHTH = 8  # a quantum is a part of the examples in so many, for the median class
EACH = 3  # quanta of the budget for each class


@dataclass(frozen=True, slots=True, eq=False)
class ModelClass:
    """What OBMS needs to know about a model class before its first training."""

    rows: int  # Examples that one quantum trains the class on: the paper's n_i
    penalty: Penalty  # Penalty as a function of the examples seen: the paper's gamma_i


def choose_class(
    race: Race,
    classes: Mapping[str, ModelClass],
    *,
    quanta: int,
    deviation: float = 1.0,
) -> str:
    """Return the best of unrelated model classes, by bounds (OBMS, Algorithm 1).

    The budget is `quanta` quanta of computation, the paper's T. Every class gets one
    quantum; each further quantum goes to the class with the smallest optimistic bound
    on its penalised loss (equation 6). The result is the class that got the most
    quanta. `deviation` is the range of the losses: the paper's kappa_2. It is a factor
    of both roots, that of log K too, as in the proof of Lemma 1 (18a); equation 6
    leaves it out there, where it is 1. A class whose budget is more than all examples
    counts as if it had all of them.

    Raises BadInput if the budget is below one quantum per class, the names of `classes`
    and of the race's learners differ, or the arms report no training scores.
    """
    _need_same(race, classes)
    if quanta < len(classes):
        raise BadInput(f"{quanta} quanta for {len(classes)} classes; 1 each is needed")
    spent: Counter[str] = Counter()
    most = math.inf if race.limit is None else race.limit
    log_classes = math.log(len(classes))

    def optimistic(name: str, step: int) -> float:
        known, seen = classes[name], race.had(name)
        return (
            risk(race, name)
            - known.penalty(seen)
            - deviation * math.sqrt(log_classes / seen)
            + known.penalty(min(quanta * known.rows, most))
            - deviation * math.sqrt(math.log(step) / seen)
        )

    for step in range(1, quanta + 1):
        name = next((n for n in race.active if not spent[n]), "") or min(
            race.active, key=lambda name: optimistic(name, step)
        )
        race.train(name, race.had(name) + classes[name].rows)
        spent[name] += 1
    return max(race.active, key=spent.__getitem__)


def obms(
    race: Race,
    *,
    dimensions: Mapping[str, float],
    quanta: int | None = None,
    scale: float = SCALE,
    deviation: float = 1.0,
) -> str:
    """Return the learner that `choose_class` chooses, each learner being a class.

    `dimensions` has the complexity of each learner's models, from `dimension_of`; a
    class's penalty is `scale` times the root of this number by the examples. Each
    learner is first trained on a few examples. The seconds that this took say how many
    examples a quantum is for each class, so that a quantum takes all classes equally
    long, and the median class an eighth of the examples (the paper's n_i; it takes
    training to be linear in the examples). `quanta` is the paper's T, by default three
    for each class. The seconds are those of the log, so a log repeats the choice.

    Raises BadInput as `choose_class` does, or if the race has no limit.
    """
    limit = need_limit(race)
    first = min(max(limit // PILOT, 1), limit)
    race.train_all([(name, first) for name in race.active], None)
    seconds = {name: race.curves[name][0].seconds for name in race.active}
    usual_s = sorted(seconds.values())[len(seconds) // 2]
    part = max(limit // EIGHTH, 1)

    def rows(name: str) -> int:
        faster = usual_s / max(seconds.get(name, usual_s), 1e-9)
        return min(max(round(part * faster), 1), limit)

    classes = {
        name: ModelClass(rows(name), vc_penalty(dimensions[name], scale=scale))
        for name in race.arms
    }
    wanted = EACH * len(classes) if quanta is None else quanta
    return choose_class(race, classes, quanta=wanted, deviation=deviation)


def dimension_of(learner: Any, rows: int, columns: int, classes: int) -> float:
    """Return the order of the VC dimension of a learner's models; at least 1.

    A linear model has a weight for each column, and one more, for each class against
    the rest. Naive Bayes has two numbers for each column and class. A tree has at most
    as many leaves as its settings allow of `rows` training rows. An ensemble counts as
    one of its trees: the margins of votes generalise as the base models do, however
    many they are (Schapire, Freund, Bartlett and Lee, *Boosting the Margin*, 1998).
    """
    own = last_step(learner)
    set_ = own.get_params()
    kind = type(own).__name__
    if kind.startswith("Dummy"):
        return 1.0
    if kind.endswith("NB"):
        return 2.0 * columns * max(classes, 2)
    depth, most = set_.get("max_depth"), set_.get("max_leaf_nodes")
    most = set_.get("num_leaves", most)
    tree = {"min_samples_leaf", "num_leaves", "max_depth", "estimator"} & set_.keys()
    if not tree:
        return float(columns + 1) * (classes if classes > 2 else 1)
    if kind.startswith("AdaBoost") and set_["estimator"] is None:
        depth = 1
    leaves = rows / float(set_.get("min_samples_leaf") or 1)
    if kind.startswith("XGB") and depth is None:
        depth = 6  # XGBoost's own default
    for bound in (2.0**depth if depth and depth > 0 else None, most):
        leaves = leaves if bound is None else min(leaves, bound)
    return tree_dimension(max(math.ceil(leaves), 2), columns)


def coarse_grid(
    classes: Mapping[str, ModelClass], *, quanta: float, slack: float = 0.5
) -> tuple[str, ...]:
    """Return the fewest nested model classes that represent all (OBMS, Definition 1).

    For every class i, the result S has a class j with g_i <= g_j <= (1 + slack) g_i.
    Here g_i is the penalty of class i after T n_i / |S| examples, and T is `quanta`.
    Raises BadInput if `slack` or `quanta` is not above 0, or there are no classes.
    """
    if not (slack > 0 and quanta > 0 and classes):
        raise BadInput(
            f"slack {slack}, {quanta} quanta, {len(classes)} classes; all must be "
            "greater than 0"
        )
    names = list(classes)
    for size in range(1, len(names) + 1):
        values = [c.penalty(quanta * c.rows / size) for c in classes.values()]
        cover = smallest_cover(values, slack)
        if len(cover) <= size:
            # The penalties assume |S| = size; more members do no harm.
            spare = [k for k in range(len(names)) if k not in cover]
            return tuple(names[k] for k in sorted(cover + spare[: size - len(cover)]))
    raise AssertionError("all classes together always cover themselves")


def smallest_cover(values: Sequence[float], slack: float) -> list[int]:
    """Return the positions of a smallest set of `values` that covers all values.

    A value v is covered if the set has a value in [v, (1 + slack) v].
    """
    order = sorted(range(len(values)), key=values.__getitem__)
    picked: list[int] = []
    while order:
        most = (1 + slack) * values[order[0]]
        within = [k for k in order if values[k] <= most]
        picked.append(within[-1])
        order = order[len(within) :]
    return picked


def choose_nested(
    race: Race, classes: Mapping[str, ModelClass], *, quanta: int, slack: float = 0.5
) -> str:
    """Return the best of nested model classes, by a coarse grid (OBMS, equation 12).

    Each class in `classes` contains the class before it. `coarse_grid` chooses a few of
    them. These share the budget of `quanta` quanta, the paper's T, equally. `slack` > 0
    is the width of the grid: the paper's lambda. Raises BadInput as `choose_class` and
    `coarse_grid` do.
    """
    _need_same(race, classes)
    grid = coarse_grid(classes, quanta=quanta, slack=slack)
    if quanta < len(grid):
        raise BadInput(
            f"{quanta} quanta for a grid of {len(grid)} classes; 1 each is needed"
        )
    share = {name: quanta * classes[name].rows // len(grid) for name in grid}
    race.train_all(list(share.items()))
    left = [name for name in grid if name in race.active] or race.active

    def penalised(name: str) -> float:
        return risk(race, name) + classes[name].penalty(race.had(name))

    return min(left, key=penalised)


def risk(race: Race, name: str) -> float:
    """Return the training loss of model class `name` after its latest training."""
    score = race.curves[name][-1].train_score if race.curves[name] else None
    if score is None:
        raise BadInput(f"class {name!r} has no training score; budgets go by them")
    return race.best - score


def _need_same(race: Race, classes: Mapping[str, ModelClass]) -> None:
    if set(classes) != set(race.arms):
        raise BadInput(
            f"the classes are {sorted(classes)}, the arms {sorted(race.arms)}; "
            "they must be the same"
        )


def vc_penalty(dimension: float, *, scale: float = 1.0) -> Penalty:
    """Return the penalty scale * sqrt(d / n) for VC dimension d (OBMS, equation 4)."""
    if not (dimension > 0 and scale > 0):
        raise BadInput(f"dimension {dimension}, scale {scale}; both must be above 0")
    return lambda n: scale * math.sqrt(dimension / n)


def tree_dimension(leaves: int, features: int) -> float:
    """Return L log2(L D), but at least 1, for L leaves and D features.

    This is the order of the VC dimension of binary trees with L leaves on D columns.
    """
    if leaves < 1 or features < 1:
        raise BadInput(f"{leaves} leaves on {features} columns; at least 1 of each")
    return max(leaves * math.log2(leaves * features), 1.0)
