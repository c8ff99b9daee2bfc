"""A knockout: all learners train on the same examples, and the best ones go on.

No clock takes part. The rounds follow from the numbers of rows, columns and classes, so
the same data and seed give the same learner on every machine.

*Rounds.* Training all learners of a portfolio on n rows takes about `n sqrt(columns *
outputs)` units of work, if trees dominate: a millisecond of one core is about a unit.
If all learners can train on all rows of all folds within `WORK`, there is only this
round. Otherwise the last round is all folds, the rounds before it are the first two
folds and the first, and each round before these has a quarter of the rows, until the
first round is within `WORK`.

*Survivors.* After a round the better third goes on, but at least `LEAST` learners. The
mean over all validation rows decides, however small a difference is. Of equal learners
the first goes on, which is the one that is cheaper to evaluate.

This is Successive Halving (SH, Figure 3) with other numbers: a third survives instead
of a half, and at the end there are several learners that had all rows, because learning
curves cross. The folds of the last round are those of a race (Maron and Moore,
*Hoeffding Races*, 1994): only learners that may still win are worth them.
"""

import math
from collections.abc import Sequence

from .daub import need_limit
from .race import Race

WORK = 30_000  # of the first round: about half a minute of one core
QUARTER = 4  # factor between the rows of two rounds
THIRD = 3  # of the learners of a round, one in so many survives
LEAST = 4  # learners that survive at least: curves of the best ones may cross
FIRST = 1000  # rows of the first round at least; fewer rows say little


def knockout(race: Race, *, rounds: Sequence[int] = ()) -> str:
    """Return the learner that wins the rounds, given by their amounts, ascending.

    Without rounds, all learners train once, on `race.limit`. Raises BadInput if every
    learner fails.
    """
    names = race.active
    for amount in rounds or (need_limit(race),):
        race.train_all([(name, amount) for name in names])
        left = [name for name in names if name in race.active]
        ranked = sorted(left, key=race.loss)
        names = ranked[: max(LEAST, math.ceil(len(ranked) / THIRD))]
    return race.leader(names)


def plan_rounds(
    rows: int, columns: int, outputs: int = 1, folds: int = 1
) -> tuple[int, ...]:
    """Return the examples that each learner has had after each round.

    `rows` are the training rows of a fold; k times `rows` examples are all rows of k
    folds. `outputs` is the number of trees that boosting needs in each iteration: 1 for
    two classes and for numbers, else the number of classes.
    """
    each, whole = math.sqrt(columns * outputs), rows * folds
    if whole * each <= WORK:
        return (whole,)
    amounts = [rows * fold for fold in sorted({1, min(2, folds), folds}, reverse=True)]
    while amounts[-1] * each > WORK and amounts[-1] >= QUARTER * FIRST:
        amounts.append(math.ceil(amounts[-1] / QUARTER))
    return tuple(reversed(amounts))
