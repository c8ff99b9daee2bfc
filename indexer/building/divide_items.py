"""Division of items: some to calibrate early exits, the rest to train and test on."""

import math
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..progress import Progress
from .data.dataset import Dataset, Rows
from .data.split import (
    draw_groups,
    joined_apart,
    newest_groups,
    rare_classes,
    split,
    treat_rare_classes,
)
from .terms import Terms
from .training.class_weights import class_weights, metric_of

# Least and most parts of the items of a race of learners, of which each in turn is
# validated on until VALIDATED items were. Two parts let a class of few items take part.
LEAST_FOLDS, MOST_FOLDS, VALIDATED = 2, 5, 20_000

Division = tuple[Rows, Rows]


class DividedItems(NamedTuple):
    """A project's items, divided into items for early exits, training and testing."""

    rest: Dataset  # Items to train and test on
    # Items set aside to calibrate exits on; no items if no exits are promised
    fresh: Dataset
    unlabelled: Dataset | None  # Items without labels, for exits alone
    # Number of parts that `rest` is divided into; one part at a time is tested on
    parts: int
    # Reason why no items could be set aside for exits that need some; else empty
    lacking: str


def divide_items(
    whole: Dataset,
    terms: Terms,
    progress: Progress,
    unlabelled: Dataset | None = None,
) -> DividedItems:
    """Set items aside to calibrate early exits; check that the rest can be divided.

    Raises BadProject if there are too few items of a class, or a class that is not
    there has a share in `exits.alpha`.
    """
    drawn = _draw_fresh(whole, terms)
    lacking = _lacks_items(whole, drawn, unlabelled, terms)
    if lacking:
        drawn = np.zeros_like(drawn)
    rest, fresh = (whole.only(np.flatnonzero(part)) for part in (~drawn, drawn))
    rest = replace(rest, skipped=whole.skipped)
    parts = terms.project.search.parts
    if fresh.items:
        parts = _half_parts_left(parts)
    rest, _ = without_rare(rest, parts, terms)
    if terms.project.exit_goal is not None:
        terms.project.exit_goal.shares(rest.labels)
    class_weights(terms.project.quality, metric_of(terms, rest), rest)
    with progress.stage("dividing items", None) as on_progress:
        splits = splits_of(rest, parts, terms)
        if terms.strategy is not None:
            race_divisions(rest, splits, terms)
        on_progress(len(rest.items))
    return DividedItems(rest, fresh, unlabelled, parts, lacking)


def splits_of(dataset: Dataset, parts: int, terms: Terms) -> list[Division]:
    """Return pairs of training rows and test rows, for measuring quality."""
    project = terms.project
    return split(
        dataset,
        seed=project.seed,
        held_out=1 / parts,
        folds=project.search.folds,
        train_rare=project.trains_rare,
    )


def race_divisions(
    dataset: Dataset, splits: list[Division], terms: Terms
) -> list[Division]:
    """Return training rows and validation rows for each fold of a race of learners.

    All are training rows of the first split, so the race uses no item that quality is
    measured on. With cross-validation it uses some, as every item is tested on in some
    fold. There are as many folds, up to `MOST_FOLDS`, as it takes to validate on
    `VALIDATED` items; items that have times are validated on the newest ones.
    """
    ((train, _), *_) = splits
    own = dataset.only(train)
    classes = range(LEAST_FOLDS + 1, MOST_FOLDS + 1)
    parts = LEAST_FOLDS + sum(not rare_classes(own, fewest) for fewest in classes)
    if not own.labels:
        parts = max(min(len(np.unique(own.groups)), MOST_FOLDS), LEAST_FOLDS)
    pairs = split(
        own,
        seed=terms.project.seed,
        held_out=1 / parts,
        folds=parts,
        train_rare=terms.project.trains_rare,
    )
    needed = fold_count(len(train), parts)
    return [(train[fit], train[test]) for fit, test in pairs[:needed]]


def fold_count(rows: int, parts: int) -> int:
    """Return how many of `parts` folds of `rows` items validate on `VALIDATED` items.

    All of them if the items are fewer.
    """
    return min(math.ceil(VALIDATED * parts / rows), parts)


def without_rare(dataset: Dataset, parts: int, terms: Terms) -> tuple[Dataset, Rows]:
    """Treat rare classes as the project asks; see `treat_rare_classes`."""
    return treat_rare_classes(dataset, terms.project.data, _fewest(parts, terms))


def _draw_fresh(whole: Dataset, terms: Terms) -> NDArray[np.bool_]:
    """Return a mask (N,) of the items on which early exits are calibrated.

    Groups are not divided. If items have times, the newest are chosen. Otherwise groups
    are drawn at random, but never from the project's test items.
    """
    project = terms.project
    goal, share = project.exit_goal, 0.0
    folds = project.search.folds is not None
    if goal is not None and goal.confidence is not None and not folds:
        share = 1 / (2 * project.search.parts)
    if whole.times is not None:
        return newest_groups(whole.groups, whole.times, share)
    if whole.tested is None:
        return draw_groups(whole.groups, share, project.seed)
    drawn, own = np.zeros_like(whole.tested), ~whole.tested
    drawn[own] = draw_groups(whole.groups[own], share, project.seed)
    return drawn


def _lacks_items(
    whole: Dataset,
    drawn: NDArray[np.bool_],
    unlabelled: Dataset | None,
    terms: Terms,
) -> str:
    """Return why items are too few to calibrate exits, or "" if there are enough."""
    goal = terms.project.exit_goal
    if goal is None or goal.confidence is None:
        return ""
    groups, codes = whole.groups[drawn], whole.codes[drawn]
    if unlabelled is not None:
        groups = joined_apart(groups, unlabelled.groups)
        codes = np.concatenate([codes, unlabelled.codes])
    known = goal.of_known(whole.labels)  # classes may be merged later
    if lacking := known.lacking(groups, codes, whole.labels):
        return lacking
    if not drawn.any():
        return ""
    parts = terms.project.search.parts
    rest = whole.only(np.flatnonzero(~drawn))
    fewest = _fewest(_half_parts_left(parts), terms)
    rare = rare_classes(rest, fewest)
    for label in rare.keys() - rare_classes(whole, _fewest(parts, terms)).keys():
        return (
            f"class {label!r} would have {rare[label]} independent items beside "
            f"those set aside for exits.confidence, of at least {fewest}"
        )
    return ""


def _half_parts_left(parts: int) -> int:
    """Return the number of half parts left after one is set aside for exits."""
    return 2 * parts - 1


def _fewest(parts: int, terms: Terms) -> int:
    """Return the minimum number of groups per class; a race of learners needs more."""
    races = terms.strategy is not None
    if terms.project.trains_rare:
        return 1
    if not terms.project.data.divided:
        return LEAST_FOLDS if races else 1
    fewest, least = parts, LEAST_FOLDS
    while races and fewest - math.ceil(fewest / parts) < least:
        fewest += 1
    return fewest
