"""What an index says of its plans' early exits, as plain data."""

from collections.abc import Sequence
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from polydom.models import measures
from polydom.models.scoring.classifier import Classifier
from polydom.models.scoring.prior import Prior

from .exit_trials import AnswerTimes, CheckpointCosts, ExitTrials, Trial
from .schedules import Evaluator

Floats = NDArray[np.float64]
Rows = NDArray[np.int64]


def facts_of_plan(
    costs: CheckpointCosts, best: Trial, trials: ExitTrials
) -> tuple[dict[str, Any], list[float]]:
    """Return facts of one plan's exits, and the shares (K + 1,) of items by end.

    The facts are the shares of early answers, of the features' cost that they save, and
    of answers that change; what is promised of each class, and what a schedule does.
    """
    answers, last = trials.answers(costs.candidates), len(costs.steps) - 1
    choices, at = best.checkpoints.evaluate(answers)
    schedule: dict[str, Any] = {}
    if best.evaluator is not None and best.times is not None:
        ends, used = _follow(best.evaluator, trials)
        choices = np.where(at == last, ends, choices)
        schedule["schedule"] = _facts_of_schedule(best.evaluator, used, best.times)
    paid = np.cumsum(costs.steps)
    whole = float(paid[-1])
    left = paid[-1] - paid[at]  # exactly 0 at the last checkpoint
    facts = {
        "row": int(costs.candidates[-1]),
        "early": float(np.mean(at < last)),
        "saved": float(left.mean()) / whole if whole else 0.0,
        "changed": float(np.mean(choices != answers.choices[:, -1])),
        "classes": _facts_of_classes(best, trials),
        **schedule,
    }
    return facts, (np.bincount(at, minlength=last + 1) / len(at)).tolist()


def facts_of_scores(
    costs: CheckpointCosts, best: Trial, trials: ExitTrials
) -> dict[str, Any] | None:
    """Return how good the class scores of a plan's early answers are, if known."""
    labelled = [part for part in trials.known if len(part.codes)]
    if not labelled:
        return None
    part, count = labelled[-1], len(labelled[-1].codes)
    _, at = best.checkpoints.evaluate(part.of(costs.candidates))
    return compare_forecasts(
        part.codes,
        part.values[:count],
        [cast(Classifier | Prior, trials.model(row)) for row in costs.candidates],
        at[:count],
        best.evaluator,
        len(trials.labels),
    )


def _facts_of_classes(best: Trial, trials: ExitTrials) -> list[dict[str, Any]]:
    """Return what is promised of each class; [] if nothing is.

    If a plan has exits at checkpoints and a schedule, their bounds add up.
    """
    classes = len(trials.labels)
    promises = [(np.arange(classes), best.checkpoints.promise)]
    if best.evaluator is not None:
        codes = np.asarray(best.evaluator.classifier.classes, np.int64)
        promises.append((codes, best.evaluator.schedule.promise))
    parts = np.zeros((3, classes))
    for codes, promise in promises:
        if promise is not None:
            parts[0, codes] += promise.bounds
            parts[1, codes] = np.maximum(parts[1, codes], promise.rows)
            parts[2, codes] += promise.changed
    if not parts[1].any():
        return []
    return [
        {"bound": bound, "items": int(items), "changed": int(changed)}
        for bound, items, changed in parts.T.tolist()
    ]


def _follow(evaluator: Evaluator, trials: ExitTrials) -> tuple[Rows, Rows]:
    """Return classes (N,) and numbers of base models used (N,) by a schedule."""
    found = [evaluator.choices(part.values) for part in trials.known]
    places, used = (np.concatenate(part) for part in zip(*found, strict=True))
    return evaluator.classifier.classes[places], used


def _facts_of_schedule(
    evaluator: Evaluator, used: Rows, times: AnswerTimes
) -> dict[str, Any]:
    return {
        "base_models": evaluator.size,
        "mean": float(used.mean()) / evaluator.size,
        "p99": float(np.quantile(used, 0.99)) / evaluator.size,
        "mean_us": times.mean_s * 1e6,
        "p99_us": times.high_s * 1e6,
        "whole_us": times.whole_s * 1e6,
    }


def compare_forecasts(
    codes: Rows,
    values: NDArray[np.float32],
    answering: Sequence[Classifier | Prior],
    at: Rows,
    evaluator: Evaluator | None,
    classes: int,
) -> dict[str, Any] | None:
    """Compare the class scores of a plan's early answers with those of the whole plan.

    Only items that are answered early count. Returns plain data: their number `items`,
    and for `early` and `whole` answers to them the measures of `measure`. Returns None
    if no item is answered early, or scores are no probabilities.

    `codes` (N,) are the classes of items that no model was trained on, and `values` (N,
    width) their full rows. The models `answering` (K + 1,) answer at the plan's
    checkpoints, the last of them by `evaluator` if it has a schedule; `at` (N,) is the
    checkpoint that answers each item.
    """
    last = len(answering) - 1
    whole = _scores(answering[-1], values, classes)
    early, sure = whole.copy(), at < last
    for k in np.unique(at[sure]):
        early[at == k] = _scores(answering[k], values[at == k], classes)
    if evaluator is not None and evaluator.lines is not None:
        stopped = ~sure & (evaluator.choices(values)[1] < evaluator.size)
        scores = evaluator.predict_scores(values[stopped])
        early[np.ix_(stopped, evaluator.classifier.classes)] = scores
        sure |= stopped
    said = early[sure], whole[sure]
    if not sure.any() or not all(map(measures.are_probabilities, said)):
        return None
    early_facts, whole_facts = (measure(codes[sure], scores) for scores in said)
    return {"items": int(sure.sum()), "early": early_facts, "whole": whole_facts}


def measure(codes: Rows, scores: Floats) -> dict[str, float]:
    """Return log loss, expected calibration error and Brier score, by name."""
    return {
        "log_loss": measures.log_loss(codes, scores),
        "error": measures.calibration_error(codes, scores),
        "brier": measures.brier(codes, scores),
    }


def _scores(
    model: Classifier | Prior, values: NDArray[np.float32], classes: int
) -> Floats:
    """Return class scores (N, `classes`); 0 for a class that the model never saw."""
    scores = np.zeros((len(values), classes))
    scores[:, model.classes] = model.predict_scores(values)
    return scores
