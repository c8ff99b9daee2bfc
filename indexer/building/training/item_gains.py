"""Fit what items gain by paid columns, by how sure the model without them is."""

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray
from sklearn.isotonic import IsotonicRegression

from polydom.models.scoring.stopping_rule import margins_of

from ...index.fetches.item_gains import KNOTS, MOST_PAIRS, ItemGains
from ...index.fetches.stored_fetches import StoredFetch, needs_of
from ..prepare import Prepared
from .train_sets import Trainer

Floats = NDArray[np.float64]

MOST_FETCHES = 6  # with more, there are too many outcomes to fit each


def fit_item_gains(
    fetches: Sequence[StoredFetch],
    masks: Sequence[int],
    qualities: Floats,
    data: Prepared,
    trainer: Trainer,
) -> ItemGains:
    """Return what items gain by the columns of fetches that have a price.

    `masks` are the candidates' sets, and `qualities` (C,) their expected qualities.
    There is a pair for every outcome of fetches and every combination of others that
    may come in addition: of the best set before, and of the best after. Others may be
    free, since a margin may be known before free ones have come. Gains are those of
    tested items; they fall as the margin grows.
    """
    paid = any(price for fetch in fetches for price in fetch.price.values())
    if not paid or len(fetches) > MOST_FETCHES or data.task == "regression":
        return ItemGains.none()
    needs = needs_of(data.table.features.stored, fetches)
    outcomes = range(1 << len(fetches))
    best = [_best_of(outcome, masks, qualities, needs) for outcome in outcomes]
    pairs = dict.fromkeys(_pairs(best))
    margins_of_set = {mask: _margins(mask, trainer) for mask, _ in pairs}
    found = dict[tuple[int, int], tuple[Floats, Floats]]()
    weights = trainer.task.weights_of(trainer.tested)
    for smaller, larger in [*pairs][:MOST_PAIRS]:
        margins = margins_of_set[smaller]
        if margins is not None:
            before, after = trainer.parts([smaller, larger]).astype(np.float64)
            found[smaller, larger] = fit_gain(margins, after - before, weights)
    if not found:
        return ItemGains.none()
    knots, gains = zip(*found.values(), strict=True)
    return ItemGains(np.array([*found], np.uint64), np.array(knots), np.array(gains))


def fit_gain(margins: Floats, gains: Floats, weights: Floats) -> tuple[Floats, Floats]:
    """Return margins (KNOTS,), ascending, and the mean gain at each.

    `margins`, `gains` and `weights` (N,) are those of single items. The mean gain is an
    isotonic regression: it never rises with the margin.
    """
    model = IsotonicRegression(increasing=False, out_of_bounds="clip")
    model.fit(margins, gains, sample_weight=weights)
    knots = np.quantile(margins, (np.arange(KNOTS) + 0.5) / KNOTS)
    return knots, np.clip(model.predict(knots), -1.0, 1.0)


def _best_of(
    outcome: int, masks: Sequence[int], qualities: Floats, needs: Sequence[int]
) -> int:
    """Return the best set that needs no fetch outside an outcome."""
    withheld = sum(1 << k for k, own in enumerate(needs) if own & ~outcome)
    able = [row for row, mask in enumerate(masks) if not mask & withheld]
    return masks[max(able, key=qualities.__getitem__)]


def _pairs(best: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Yield the best sets of outcomes before and after more fetches have come."""
    for before, smaller in enumerate(best):
        for after, larger in enumerate(best):
            # the prior is never sure of an item
            if before & ~after == 0 and smaller and smaller != larger:
                yield smaller, larger


def _margins(mask: int, trainer: Trainer) -> Floats | None:
    """Return the margins (N,) of a set's model for the tested items, if it has any."""
    evidence, decision = trainer.evidence(mask), trainer.decisions.get(mask)
    if evidence is None:
        return None
    calibration = None if decision is None else decision.calibration
    scores = evidence.scores(calibration)
    if decision is not None and decision.threshold is not None:
        margins: Floats = 2 * np.abs(scores[:, 1] - decision.threshold)
        return margins
    return margins_of(scores)
