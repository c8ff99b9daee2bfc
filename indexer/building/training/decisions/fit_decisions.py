"""Calibration of the candidates' class scores, and the choice of their thresholds."""

import logging

import numpy as np
from numpy.typing import NDArray

from ...candidates import Candidates
from ...prepare import Prepared
from ...resources import Resources
from ..train_sets import Trainer
from .decision import Decision
from .fit_calibration import fit_calibration
from .thresholds import Cut, Goal

log = logging.getLogger("polydom")

Floats = NDArray[np.float64]
Rows = NDArray[np.int64]


def fit_decisions(
    candidates: Candidates, data: Prepared, trainer: Trainer, resources: Resources
) -> Trainer:
    """Fit a calibration of each candidate's scores on the tested items.

    Returns a trainer of the same sets whose models decide by it. The models that are
    trained again on all items take it over. For numbers, nothing is fitted.
    """
    if data.task == "regression":
        return trainer
    masks, metric = candidates.masks, trainer.task.metric
    weights = trainer.task.class_weights()
    groups, seed = data.table.dataset.groups[trainer.tested], data.project.seed
    decisions, unsure = dict[int, Decision](), 0
    with resources.progress.stage("calibrating scores", len(masks)) as on_progress:
        for done, mask in enumerate(masks):
            decisions[mask], reached = _decide(mask, trainer, weights, groups, seed)
            # That the prior reaches no goal is told only if there is nothing else.
            unsure += not reached and (mask != 0 or len(masks) == 1)
            on_progress(done + 1)
    if unsure and metric.goal is not None:
        own = int((trainer.task.codes[trainer.tested] == metric.positive).sum())
        _say_unsure(metric.goal, unsure, len(masks), own)
    return trainer.deciding(decisions)


def _decide(
    mask: int, trainer: Trainer, weights: Floats | None, groups: Rows, seed: int
) -> tuple[Decision, bool]:
    """Return what a set's models decide by, and False if it misses its goal."""
    task, metric = trainer.task, trainer.task.metric
    codes, counted = task.codes[trainer.tested], task.weights_of(trainer.tested)
    evidence, fitted = trainer.evidence(mask), None
    shares = np.bincount(codes, counted, metric.classes) / counted.sum()
    scores = np.tile(shares, (len(codes), 1))  # of a prior
    if evidence is not None:
        held = codes, counted, groups, None if weights is None else np.log(weights)
        forced = metric.goal is not None
        fitted = fit_calibration(evidence, *held, seed, forced=forced)
        scores = evidence.scores(fitted.calibration)
    calibration = None if fitted is None else fitted.calibration
    if metric.goal is None or (mask and evidence is None):
        return Decision(metric.classes, calibration, None, weights, fitted), True
    ranked = scores[:, metric.positive], codes, counted
    cut = metric.cut(*ranked)
    threshold, found = threshold_of(cut, metric.positive), metric.found(cut, *ranked)
    made = metric.classes, calibration, threshold, weights, fitted, found
    return Decision(*made), cut.reached


def threshold_of(cut: Cut, positive: int) -> float:
    """Return the score, in [0, 1], from which the second of two classes is chosen.

    The cut is one of the scores of class `positive`, 0 or 1.
    """
    score = min(max(cut.score, 0.0), 1.0)
    if positive:
        return score
    # The first class is chosen from `score` on, so the second above 1 - score.
    return float(np.nextafter(1.0 - score, 1.0)) if score else 1.0


def _say_unsure(goal: Goal, unsure: int, count: int, own: int) -> None:
    """Warn of candidates whose held-out items do not reach the goal's least share."""
    at, then = "recall", "the threshold is the highest that finds all of them"
    if goal.name == "recall_at":
        at, then = "precision", "no item counts as of the class"
    how = f"with a confidence of {goal.confidence:g} " if goal.confidence else ""
    log.warning(
        "[quality] measure = %r: %d held-out items of the class do not show a %s of "
        "%g %sfor %d of %d feature sets, with which %s; more items%s or a lower goal "
        "in `at` helps",
        goal.name,
        own,
        at,
        goal.least,
        how,
        unsure,
        count,
        then,
        ", a lower confidence" if goal.confidence else "",
    )
