"""What replies say of a contender, counted one by one and by scikit-learn."""

import math
import statistics
import warnings
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from sklearn import metrics

NO_ANSWER = "\x00none"


class Plain(NamedTuple):
    """One reply: the item's position and label, what came, in what time."""

    position: int
    label: str
    answer: str | None
    took_ms: float
    scores: dict[str, float] | None = None


def judged(replies: Sequence[Plain], known: Sequence[str]) -> dict[str, Any]:
    """Fields of `Judged` but the name and the error."""
    labels = [one.label for one in replies]
    answers = [NO_ANSWER if one.answer is None else one.answer for one in replies]
    rights: dict[int, list[bool]] = {}
    for one in replies:
        rights.setdefault(one.position, []).append(one.label == one.answer)
    means = [statistics.fmean(own) for own in rights.values()]
    error = None
    if len(means) > 1:
        error = statistics.stdev(means) / len(means) ** 0.5
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        balanced = metrics.balanced_accuracy_score(labels, answers)
        own = sorted(set(labels))
        macro = metrics.f1_score(
            labels, answers, labels=own, average="macro", zero_division=0
        )
    area, precision, loss = scored(replies, known)
    took = [one.took_ms for one in replies]
    return {
        "accuracy": sum(one.label == one.answer for one in replies) / len(replies),
        "standard_error": error,
        "balanced_accuracy": balanced,
        "macro_f1": macro,
        "auc": area,
        "average_precision": precision,
        "log_loss": loss,
        "p50_ms": float(np.percentile(took, 50)),
        "p99_ms": float(np.percentile(took, 99)),
        "unanswered": answers.count(NO_ANSWER),
    }


def scored(
    replies: Sequence[Plain], known: Sequence[str]
) -> tuple[float | None, float | None, float | None]:
    """AUC, average precision, log loss; None where an answer has no scores."""
    if any(one.scores is None for one in replies):
        return None, None, None
    areas, precisions, losses = [], [], []
    for name in known[1:] if len(known) == 2 else known:
        own = [one.label == name for one in replies]
        given = [(one.scores or {}).get(name, 0.0) for one in replies]
        if any(own):
            precisions.append(metrics.average_precision_score(own, given))
        if 0 < sum(own) < len(own):
            areas.append(metrics.roc_auc_score(own, given))
    for one in replies:
        share = (one.scores or {}).get(one.label, 0.0)
        losses.append(-np.log(max(share, 2.0**-52)))
    ranked = (float(np.mean(one)) if one else None for one in (areas, precisions))
    return *ranked, float(np.mean(losses))  # type: ignore[return-value]


def rates_of(replies: Sequence[Plain], label: str) -> dict[str, float | None]:
    """Precision, recall and F1 of a class, by the name of the measure."""
    own = sum(one.label == label for one in replies)
    found = sum(one.answer == label for one in replies)
    hits = sum(one.answer == label == one.label for one in replies)
    return {
        "precision_at": hits / found if found else None,
        "recall_at": hits / own if own else None,
        "f_beta": 2 * hits / (own + found) if own + found else None,
    }


def error_by_parts(
    replies: Sequence[Any], quality: Callable[[list[Any]], float | None]
) -> float | None:
    """Standard error of a quality: the jackknife over at most 20 parts of the items."""
    positions = sorted({one.position for one in replies})
    parts = min(20, len(positions))
    order = np.random.default_rng(0).permutation(len(positions)).tolist()
    part = {position: order[k] % parts for k, position in enumerate(positions)}
    found = [
        quality([one for one in replies if part[one.position] != left])
        for left in range(parts)
        if parts > 1
    ]
    if not found or None in found or quality([*replies]) is None:
        return None
    known = [one for one in found if one is not None]
    mean = statistics.fmean(known)
    spread = sum((one - mean) ** 2 for one in known)
    return math.sqrt(spread * (parts - 1) / parts)


class PlainNumber(NamedTuple):
    """One reply with a number: the item's position and label, what came, when."""

    position: int
    label: float
    answer: float | None
    took_ms: float
    interval: tuple[float, float] | None = None


def judged_numbers(replies: Sequence[PlainNumber], mean: float) -> dict[str, Any]:
    """Fields of `Judged` but the quality, the name and the error."""
    labels = [one.label for one in replies]
    answers = [mean if one.answer is None else one.answer for one in replies]
    errors: dict[int, list[float]] = {}
    for one, answer in zip(replies, answers, strict=True):
        errors.setdefault(one.position, []).append(abs(one.label - answer))
    means = [statistics.fmean(own) for own in errors.values()]
    error = None
    if len(means) > 1:
        error = statistics.stdev(means) / len(means) ** 0.5
    held = [
        one.interval[0] <= one.label <= one.interval[1]
        for one in replies
        if one.interval is not None
    ]
    return {
        "standard_error": error,
        "r2": explained(labels, answers),
        "mae": metrics.mean_absolute_error(labels, answers),
        "rmse": metrics.mean_squared_error(labels, answers) ** 0.5,
        "covered": sum(held) / len(held) if held else None,
        "unanswered": sum(one.answer is None for one in replies),
    }


def explained(
    labels: Sequence[float], answers: Sequence[float], *, absolute: bool = False
) -> float:
    """R2, or the same of absolute errors beside the median; of alike labels 0 or 1."""
    if len(set(labels)) == 1:
        return float(all(a == labels[0] for a in answers))
    score = metrics.d2_absolute_error_score if absolute else metrics.r2_score
    return float(score(labels, answers))


def in_time_or_mean(
    replies: Sequence[PlainNumber], mean: float, budget_ms: float
) -> list[float]:
    """What was answered in time, else the mean."""
    return [
        mean if one.answer is None or one.took_ms > budget_ms else one.answer
        for one in replies
    ]


def in_time(replies: Sequence[Plain], budget_ms: float) -> tuple[float, float]:
    """Share of all that came inside a budget, and of those that are right as well."""
    inside = [
        one for one in replies if one.answer is not None and one.took_ms <= budget_ms
    ]
    right = [one for one in inside if one.answer == one.label]
    return len(inside) / len(replies), len(right) / len(replies)


def confused(replies: Sequence[Plain]) -> dict[tuple[str, str | None], int]:
    """How often each class got each answer."""
    counts: dict[tuple[str, str | None], int] = {}
    for one in replies:
        pair = (one.label, one.answer)
        counts[pair] = counts.get(pair, 0) + 1
    return counts
