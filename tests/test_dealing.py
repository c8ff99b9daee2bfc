"""Dividing items by whole groups: fast, fair, and as the obvious way does."""

import time
from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from polydom.indexer.dealing import deal, draw_groups, groups_of_classes

from . import oracles

ITEMS = st.lists(
    st.tuples(st.integers(0, 4), st.integers(0, 9)), min_size=1, max_size=60
)


@given(ITEMS, st.integers(1, 6), st.integers(0, 3))
def test_dealing_agrees_with_trying_every_part(
    items: list[tuple[int, int]], parts: int, seed: int
) -> None:
    codes, groups = np.array(items, np.int64).T
    found = deal(codes, groups, parts, seed)
    assert found.tolist() == oracles.deal(codes.tolist(), groups.tolist(), parts, seed)


@given(ITEMS, st.integers(1, 6))
def test_no_group_is_divided(items: list[tuple[int, int]], parts: int) -> None:
    codes, groups = np.array(items, np.int64).T
    found = deal(codes, groups, parts, 0)
    assert ((found >= 0) & (found < parts)).all()
    for group in set(groups.tolist()):
        assert len(set(found[groups == group].tolist())) == 1


@given(st.lists(st.integers(0, 3), min_size=1, max_size=80), st.integers(1, 5))
def test_single_items_are_dealt_evenly_class_by_class(
    codes: list[int], parts: int
) -> None:
    found = deal(np.array(codes), np.arange(len(codes)), parts, 1)
    for code in set(codes):
        held = Counter(found[np.array(codes) == code].tolist())
        counts = [held[part] for part in range(parts)]
        assert max(counts) - min(counts) <= 1


@given(st.lists(st.integers(1, 9), min_size=4, max_size=30), st.integers(2, 4))
def test_every_part_gets_a_class_of_as_many_groups(
    sizes: list[int], parts: int
) -> None:
    groups = np.repeat(np.arange(len(sizes)), sizes)
    codes = groups % 2
    found = deal(codes, groups, parts, 0)
    for code in (0, 1):
        if len(np.unique(groups[codes == code])) >= parts:
            assert set(found[codes == code].tolist()) == set(range(parts))


def test_parts_of_mixed_groups_are_about_as_fair_as_scikit_learns() -> None:
    from sklearn.model_selection import StratifiedGroupKFold

    random = np.random.default_rng(0)
    groups = random.integers(0, 120, 2000)
    lean = random.random(120)  # most groups are mostly of one class
    codes = (random.random(2000) < lean[groups]).astype(np.int64)

    def unfairness(parts: list[Any]) -> float:
        shares = [codes[part].mean() for part in parts]
        sizes = [len(part) / 2000 for part in parts]
        return float(max(np.ptp(shares), np.ptp(sizes)))

    dealt = deal(codes, groups, 5, 0)
    own = unfairness([np.flatnonzero(dealt == part) for part in range(5)])
    folds = StratifiedGroupKFold(5, shuffle=True, random_state=0)
    theirs = unfairness([test for _, test in folds.split(codes, codes, groups)])
    assert own <= theirs + 0.01


@pytest.mark.jit
def test_a_table_of_434_000_rows_is_divided_at_once() -> None:
    codes = np.random.default_rng(0).integers(0, 7, 434_000)
    before = time.thread_time()
    dealt = deal(codes, np.arange(len(codes)), 4, 0)
    assert time.thread_time() - before < 10  # of 0.2; scikit-learn's takes 75
    assert np.ptp(np.bincount(dealt)) <= 7


@given(ITEMS, st.integers(0, 5))
def test_classes_are_counted_by_groups(items: list[tuple[int, int]], more: int) -> None:
    codes, groups = np.array(items, np.int64).T
    found = groups_of_classes(codes, groups, 5 + more)
    expected = [len({g for c, g in items if c == code}) for code in range(5 + more)]
    assert found.tolist() == expected


@given(ITEMS, st.floats(0, 1), st.integers(0, 3))
def test_whole_groups_are_drawn_and_a_share_of_them(
    items: list[tuple[int, int]], share: float, seed: int
) -> None:
    _, groups = np.array(items, np.int64).T
    drawn = draw_groups(groups, share, seed)
    names = set(groups[drawn].tolist())
    assert not names & set(groups[~drawn].tolist())
    assert len(names) == round(share * len(set(groups.tolist())))


def test_what_groups_hold_plays_no_part_in_the_draw() -> None:
    """Each group as likely as any other, whatever its size and its place."""
    groups = np.array([0] * 9 + [1] + [2] * 3 + [3])
    times = np.zeros(4)
    for seed in range(4000):
        times[np.unique(groups[draw_groups(groups, 0.5, seed)])] += 1
    assert times == pytest.approx(2000, abs=200)
