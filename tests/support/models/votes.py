"""Scores of ensembles that were never trained, to fit schedules on."""

import numpy as np
from hypothesis import assume
from hypothesis import strategies as st
from numpy.typing import NDArray

from polydom.models.qwyc.schedule import Schedule

Floats = NDArray[np.float64]

# Two base models: the first settles rows below -1 and above 1, the second the rest.
SCORES = np.array([[-2.0, 0.5], [-1.5, 1.0], [-0.5, 1.0], [0.5, -1.0], [2.0, -0.5]])
SCHEDULE = Schedule(
    np.array([0, 1]), np.array([-1.0, -np.inf]), np.array([1.0, np.inf]), 0.0
)


@st.composite
def drawn_scores(draw: st.DrawFn, *, models: int | None = None) -> Floats:
    """Scores in quarters, so that sums are exact and often tied; both classes occur."""
    rows = draw(st.integers(2, 12))
    columns = draw(st.integers(1, 4)) if models is None else models
    quarters = st.lists(
        st.integers(-8, 8), min_size=rows * columns, max_size=rows * columns
    )
    scores = np.array(draw(quarters)).reshape(rows, columns) / 4
    positive = scores.sum(axis=1) >= 0
    assume(positive.any() and not positive.all())
    return scores


def noisy_votes(rows: int, models: int, seed: int = 0) -> Floats:
    """Votes that agree with a hidden score, more or less."""
    draws = np.random.default_rng(seed)
    hidden = draws.normal(size=(rows, 1))
    return (hidden + draws.normal(size=(rows, models))) / models


@st.composite
def drawn_class_scores(draw: st.DrawFn, models: int | None = None) -> Floats:
    """Scores in quarters, so that sums are exact and margins often tied."""
    rows, classes = draw(st.integers(1, 10)), draw(st.integers(2, 4))
    columns = draw(st.integers(1, 4)) if models is None else models
    size = rows * columns * classes
    quarters = st.lists(st.integers(-8, 8), min_size=size, max_size=size)
    return np.array(draw(quarters)).reshape(rows, columns, classes) / 4


def noisy_rounds(rows: int, models: int, classes: int = 4, seed: int = 0) -> Floats:
    """Base models that agree with hidden class scores, more or less."""
    draws = np.random.default_rng(seed)
    hidden = draws.normal(size=(rows, 1, classes))
    return (hidden + draws.normal(size=(rows, models, classes))) / models
