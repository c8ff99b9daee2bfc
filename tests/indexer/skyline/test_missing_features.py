"""What is kept beside the skyline answers items that lack features, as all would."""

import itertools

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from polydom.indexer.skyline.missing_features import MORE, PATTERNS, best_without
from polydom.indexer.skyline.prune import prune
from tests.support.oracles.given import Drawn

SIZES = (1.0, 1.0)


def keep(drawn: Drawn, features: range) -> tuple[set[int], list[int]]:
    """Rows on the skyline with that of nothing, and those beside them."""
    parts = [1 << feature for feature in features]
    curves, qualities = np.array(drawn.costs)[:, None], np.array(drawn.qualities)
    kept = {0, *prune(curves, qualities, SIZES).tolist()}
    known = drawn.masks, curves, qualities, SIZES, None
    return kept, best_without(parts, *known, kept).tolist()


@st.composite
def trained(draw: st.DrawFn) -> Drawn:
    """All sets of up to four features, of which each costs something."""
    m = draw(st.integers(1, 4))
    each = [draw(st.integers(0, 9)) for _ in range(m)]
    masks = [*range(1 << m)]
    costs = [float(sum(c for k, c in enumerate(each) if s >> k & 1)) for s in masks]
    qualities = [draw(st.integers(0, 10)) / 10 for _ in masks]
    return Drawn(masks, costs, qualities)


@given(trained())
def test_every_way_to_lack_some_of_few_features_is_answered_best(drawn: Drawn) -> None:
    m = len(drawn.masks).bit_length() - 1
    kept, more = keep(drawn, range(m))
    assert not kept & {*more}
    assert len({*more}) == len(more) <= MORE
    masks = {drawn.masks[row] for row in (*kept, *more)}
    indexed = drawn.only(masks.__contains__)
    for withheld in drawn.masks:
        left = indexed.without(withheld)
        assert left.skyline() == drawn.without(withheld).skyline()


def test_no_more_is_kept_than_is_there_or_a_few() -> None:
    """Of many features those ways come first in which one is lacking, or alone."""
    m = 8
    masks = [*range(1 << m)]
    costs = [float(mask.bit_count()) for mask in masks]
    qualities = [1 - 0.5 ** (1 + mask.bit_count() + mask / 512) for mask in masks]
    drawn = Drawn(masks, costs, qualities)
    kept, more = keep(drawn, range(m))
    assert len(more) == max(MORE, len(kept))
    counts = [masks[row].bit_count() for row in more[:m]]
    assert {*counts} <= {1, m - 1}


def test_nothing_is_kept_for_features_that_are_always_there() -> None:
    drawn = Drawn([0, 1, 2, 3], [0.0, 1.0, 2.0, 3.0], [0.1, 0.5, 0.4, 0.6])
    assert keep(drawn, range(0))[1] == []
    assert keep(drawn, range(2))[1] == [2]
    # the second alone may be lacking
    assert keep(drawn, range(1, 2))[1] == []


def test_what_comes_together_is_lacking_together() -> None:
    """Two features read one column, a third another: neither of the two comes alone."""
    masks, costs = [*range(8)], [float(mask.bit_count()) for mask in range(8)]
    qualities = [0.1, 0.3, 0.5, 0.6, 0.4, 0.7, 0.8, 0.9]
    curves, known = np.array(costs)[:, None], np.array(qualities)
    kept = {0, *prune(curves, known, SIZES).tolist()}
    assert kept == {0, 2, 6, 7}
    apart = best_without([1, 2, 4], masks, curves, known, SIZES, None, kept)
    assert {*apart.tolist()} == {1, 3, 4, 5}
    together = best_without([0b011, 0b100], masks, curves, known, SIZES, None, kept)
    assert {*together.tolist()} == {3, 4}


def test_a_single_part_that_may_lack_leaves_its_best_set_without() -> None:
    """The first feature dominates the second, which answers where the first fails."""
    drawn = Drawn([0, 1, 2, 3], [0.0, 1.0, 2.0, 3.0], [0.1, 0.5, 0.4, 0.6])
    assert keep(drawn, range(1))[1] == [2]


def test_parts_may_share_features() -> None:
    """Each of two features may fail alone, and both with the step that they share."""
    masks, costs = [*range(8)], [float(mask.bit_count()) for mask in range(8)]
    qualities = [0.1, 0.3, 0.5, 0.6, 0.4, 0.7, 0.8, 0.9]
    curves, known = np.array(costs)[:, None], np.array(qualities)
    kept = {0, *prune(curves, known, SIZES).tolist()}
    found = best_without([1, 2, 0b011], masks, curves, known, SIZES, None, kept)
    assert {*found.tolist()} >= {4, 5}


def test_ways_that_are_too_many_are_not_all_looked_at() -> None:
    """Sets of 62 features, each alone and all but each, and some pairs."""
    m = 62
    singles = [1 << k for k in range(m)]
    every = (1 << m) - 1
    pairs = [a | b for a, b in itertools.pairwise(singles)]
    masks = [0, *singles, *pairs, *(every ^ one for one in singles)]
    costs = [float(mask.bit_count()) for mask in masks]
    qualities = [1 - 1 / (2 + mask.bit_count()) for mask in masks]
    assert len(masks) < PATTERNS
    _, more = keep(Drawn(masks, costs, qualities), range(m))
    assert len(more) == MORE
