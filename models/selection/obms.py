"""Choosing among model classes under a budget of computation (OBMS).

A quantum of computation trains class i on n_i more examples, the more the simpler the
class. The aim is the class that would be best if it had the whole budget: least risk
plus penalty at T n_i examples. Risks are training losses, so a race needs arms that
report training scores.

A penalty is how far a class's empirical risk may be from its true one: a function of
the examples seen, falling to 0. Those here are for losses in [0, 1] and known up to the
constant `scale`, as in section 2.1.

`select` takes either algorithm for a strategy, once the classes are described:

>>> from functools import partial
>>> from sklearn.datasets import load_breast_cancer
>>> from sklearn.tree import DecisionTreeClassifier
>>> from polydom.models import select
>>> X, y = load_breast_cancer(return_X_y=True)
>>> trees = {str(d): DecisionTreeClassifier(max_depth=d) for d in (1, 2, 4)}
>>> classes = {
...     str(d): ModelClass(400 // d, tree_penalty(2**d, 30, scale=0.02))
...     for d in (1, 2, 4)
... }
>>> nested = partial(choose_nested, classes=classes, quanta=4)
>>> select(trees, X, y, strategy=nested, scored=None).name
'4'
>>> def unrelated(race):
...     return choose_class(race, classes, quanta=6).chosen
>>> select(trees, X, y, strategy=unrelated, scored=None).name
'4'
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from polydom.features.errors import BadInput

from ..scoring.model import Floats
from .race import Race

Penalty = Callable[[float], float]


@dataclass(frozen=True, slots=True, eq=False)
class ModelClass:
    """What is known of one class before it is trained.

    Attributes
    ----------
    rows
        The paper's n_i, examples that one quantum trains it on.
    penalty
        The paper's gamma_i.
    """

    rows: int
    penalty: Penalty


@dataclass(frozen=True, slots=True, eq=False)
class ClassChoice:
    """What Algorithm 1 came to.

    Attributes
    ----------
    chosen
        The class most often queried.
    quanta
        How often each was.
    average
        The mean of the models after each query, where they were asked for: its risk is
        near the oracle's where risks are convex (Theorem 2).
    """

    chosen: str
    quanta: Mapping[str, int]
    average: Floats | None


def choose_class(
    race: Race,
    classes: Mapping[str, ModelClass],
    *,
    quanta: int,
    deviation: float = 1.0,
    model: Callable[[str], Floats] | None = None,
) -> ClassChoice:
    """Spend a budget on unrelated classes by upper confidence (OBMS, Algorithm 1).

    Parameters
    ----------
    race
        Arms named as `classes`, given examples.
    quanta
        The paper's T, at least one per class.
    deviation
        The paper's kappa_2, the range of the losses.
    model
        Gives a class's current model as a vector, in a space where models of different
        classes may be added.

    Raises
    ------
    BadInput
        If the budget is below one quantum per class, the race and the classes differ,
        or the arms report no training scores.
    """
    _need_same(race, classes)
    if quanta < len(classes):
        raise BadInput(f"{quanta} quanta for {len(classes)} classes; 1 each is needed")
    counts = dict.fromkeys(classes, 0)
    log_classes = math.log(len(classes))
    total: Floats | None = None

    def optimistic(name: str, step: int) -> float:
        known, seen = classes[name], race.had(name)
        return (
            risk(race, name)
            - known.penalty(seen)
            - math.sqrt(log_classes / seen)
            + known.penalty(quanta * known.rows)
            - deviation * math.sqrt(math.log(step) / seen)
        )

    for step in range(1, quanta + 1):
        name = next((n for n in race.active if not counts[n]), "") or min(
            race.active, key=lambda name: optimistic(name, step)
        )
        race.train(name, race.had(name) + classes[name].rows)
        counts[name] += 1
        if model is not None and name not in race.failed:
            total = model(name) + (0.0 if total is None else total)
    average = None if total is None else total / quanta
    return ClassChoice(max(race.active, key=counts.__getitem__), counts, average)


def coarse_grid(
    classes: Mapping[str, ModelClass], *, quanta: float, slack: float = 0.5
) -> tuple[str, ...]:
    """Pick the few of the nested classes that stand for all (OBMS, Definition 1).

    A smallest set S such that every class i has a j in S with
    g_i <= g_j <= (1 + slack) g_i, where g_i is class i's penalty at T n_i / |S|
    examples. Its size is logarithmic in the number of classes when penalties grow
    polynomially.

    Raises
    ------
    BadInput
        If slack <= 0, the budget is not positive or there are no classes.
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
            # Further members break nothing, and |S| must be the size assumed.
            spare = [k for k in range(len(names)) if k not in cover]
            return tuple(names[k] for k in sorted(cover + spare[: size - len(cover)]))
    raise AssertionError("all classes together always cover themselves")


def smallest_cover(values: Sequence[float], slack: float) -> list[int]:
    """Pick positions such that each value v has a picked one in [v, (1 + slack) v].

    From the least uncovered value up, the largest still in reach covers the most.
    """
    order = sorted(range(len(values)), key=values.__getitem__)
    picked: list[int] = []
    while order:
        reach = (1 + slack) * values[order[0]]
        within = [k for k in order if values[k] <= reach]
        picked.append(within[-1])
        order = order[len(within) :]
    return picked


def choose_nested(
    race: Race,
    classes: Mapping[str, ModelClass],
    *,
    quanta: int,
    slack: float = 0.5,
) -> str:
    """Choose among nested classes on a coarse grid (OBMS, equation 12).

    The budget is shared equally by the grid's classes; the least sum of training loss
    and penalty wins.

    Parameters
    ----------
    race, classes
        As for `choose_class`; the classes from the smallest up.
    quanta
        The paper's T, at least one per class of the grid.
    slack
        The paper's lambda.
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
    """Return a class's latest training loss."""
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
    """Penalise by the VC dimension d: scale * sqrt(d / n) (OBMS, equation 4)."""
    if not (dimension > 0 and scale > 0):
        raise BadInput(f"dimension {dimension}, scale {scale}; both must be above 0")
    return lambda n: scale * math.sqrt(dimension / n)


def tree_penalty(leaves: int, features: int, *, scale: float = 1.0) -> Penalty:
    """Penalise binary trees by their size: a VC dimension of order L log2(L D)."""
    return vc_penalty(tree_dimension(leaves, features), scale=scale)


def boosting_penalty(
    rounds: int, leaves: int, features: int, *, scale: float = 1.0
) -> Penalty:
    """Penalise weighted votes of T trees of VC dimension d.

    Their dimension is at most 2 (d + 1)(T + 1) log2(e (T + 1)) (Freund and Schapire,
    1997, theorem 8).
    """
    dimension = tree_dimension(leaves, features)
    votes = 2 * (dimension + 1) * (rounds + 1) * math.log2(math.e * (rounds + 1))
    return vc_penalty(votes, scale=scale)


def tree_dimension(leaves: int, features: int) -> float:
    """Return L log2(L D), at least 1, for binary trees of L leaves on D columns."""
    if leaves < 1 or features < 1:
        raise BadInput(f"{leaves} leaves on {features} columns; at least 1 of each")
    return max(leaves * math.log2(leaves * features), 1.0)
