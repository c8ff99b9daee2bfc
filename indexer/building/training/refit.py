"""The models that are kept, trained again on all labelled items.

What was held out to measure accuracy has done its work then. What is set aside to
calibrate early exits on is still trained on by nobody.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

from polydom.models.scoring.model import Model

from ...progress import Progress
from .train_sets import Trainer


class KeptModels(NamedTuple):
    """A model for each set that is kept, and which of them were trained again."""

    models: tuple[Model, ...]
    again: tuple[bool, ...]


def train_again(
    masks: Sequence[int],
    qualities: Sequence[float],
    everything: Trainer,
    limit_s: float,
    progress: Progress,
) -> frozenset[int]:
    """Train sets on all items, the best first, while there is time; say which were.

    Parameters
    ----------
    masks, qualities
        The sets, and how good they were found without what was held out.
    everything
        Trains them on all items.
    limit_s
        Seconds of training after which the others stay as they were.
    """
    order = sorted(range(len(masks)), key=lambda row: -qualities[row])
    again = set[int]()
    begun_s = everything.spent.seconds
    with progress.stage("training on all", len(masks)) as on_progress:
        trained = everything.qualities([masks[row] for row in order])
        for row, _ in zip(order, trained, strict=True):
            again.add(masks[row])
            on_progress(len(again))
            if everything.spent.seconds - begun_s >= limit_s < math.inf:
                break
    return frozenset(again)


def refit(
    masks: Sequence[int],
    qualities: Sequence[float],
    judged: Trainer,
    everything: Trainer,
    limit_s: float,
    progress: Progress,
) -> KeptModels:
    """Give each set's model by `train_again`, or else the one of `judged`.

    That has trained them on what was not held out, and found these `qualities`.
    """
    again = train_again(masks, qualities, everything, limit_s, progress)
    return KeptModels(
        tuple((everything if m in again else judged).model(m) for m in masks),
        tuple(mask in again for mask in masks),
    )
