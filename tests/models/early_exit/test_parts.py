"""One row evaluated part by part, against the same row evaluated at once."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from polydom.models.scoring.scorer import PackedTerms
from polydom.models.scoring.stopping_rule import UNDECIDED, Limits, Margins, Stops
from tests.models.lattices.test_one_row import Sizes, drawn, packed_of, rows
from tests.support.examples import few
from tests.support.models.drawn_trees import drawn_trees, packed, rows_of

pytestmark = pytest.mark.jit


def drawn_limits(draw: np.random.Generator, size: int) -> Limits:
    """Limits that some rows pass, of which some are never passed."""
    width = draw.choice([1.0, 4.0, 12.0]) * draw.random((2, size))
    width[draw.random((2, size)) < 0.8] = np.inf
    return Limits(-width[0], width[1], float(draw.normal()))


def drawn_margins(draw: np.random.Generator, size: int, group: int) -> Margins:
    margin = draw.choice([2.0, 8.0]) * draw.random(size)
    margin[draw.random(size) < 0.8] = np.inf
    return Margins(margin, group)


def in_parts(
    terms: PackedTerms, row: NDArray[np.float32], size: int, ends: list[int]
) -> tuple[NDArray[np.float64], int]:
    """Add the base models up to each end in turn, until the row stops."""
    totals, first = terms.start.copy(), 0
    code = 0
    for end in [*ends, size]:
        code = terms.add_part(row, terms.at, first, end, totals)
        if code & 3 != UNDECIDED:
            break
        assert code >> 2 == end
        first = end
    return totals, code


def same(terms: PackedTerms, X: Any, size: int, draw: np.random.Generator) -> None:
    """Stop unless parts of any lengths give the same sums and codes, to the bit."""
    totals, codes = PackedTerms.follow(terms, X)
    places = np.arange(terms.step, size, terms.step)
    for row, whole, code in zip(X, totals, codes, strict=True):
        chosen = draw.random(len(places)) < draw.choice([0.1, 0.5, 1.0])
        found, own = in_parts(terms, row, size, places[chosen].tolist())
        assert (found.tobytes(), own) == (whole.tobytes(), code)


@settings(max_examples=few(15))
@given(seed=st.integers(0, 9999), count=st.sampled_from([1, 6, 7, 64, 130, 300]))
def test_trees_of_two_classes(seed: int, count: int) -> None:
    draw = np.random.default_rng(seed)
    trees = drawn_trees(seed, count=count, depth=3)
    stops = drawn_limits(draw, count)
    for laid in packed(trees, draw.permutation(count), stops):
        if laid is not None:
            same(laid, rows_of(trees), count, draw)


@settings(max_examples=few(15))
@given(
    seed=st.integers(0, 9999),
    size=st.sampled_from([1, 5, 43, 100]),
    group=st.sampled_from([1, 3, 4]),
)
def test_trees_of_more_classes(seed: int, size: int, group: int) -> None:
    draw = np.random.default_rng(seed)
    trees = drawn_trees(seed, count=size * group, depth=3, scores=3)
    stops = drawn_margins(draw, size, group)
    for laid in packed(trees, None, stops):
        if laid is not None:
            same(laid, rows_of(trees), size, draw)


@settings(max_examples=few(20))
@given(
    seed=st.integers(0, 9999),
    T=st.sampled_from([1, 16, 17, 100, 600]),
    R=st.sampled_from([1, 3]),
    simplex=st.booleans(),
)
def test_lattices(seed: int, T: int, R: int, simplex: bool) -> None:
    draw = np.random.default_rng(seed)
    lattices = drawn(seed, Sizes(T=T, R=R, simplex=simplex))
    stops: Stops = drawn_limits(draw, T) if R == 1 else drawn_margins(draw, T, 1)
    laid = packed_of(lattices, draw.permutation(T), stops)
    same(laid, rows(lattices, seed)[:20], T, draw)
