"""One row evaluated part by part, against the same row evaluated at once."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from polydom.features.errors import BadInput, BadModel
from polydom.models.early_exit.early_exits import EarlyExit, MarginExit
from polydom.models.early_exit.ensemble import as_ensemble
from polydom.models.early_exit.model_part import ModelPart
from polydom.models.scoring.scorer import PackedTerms
from polydom.models.scoring.stopping_rule import UNDECIDED, Limits, Margins, Stops
from polydom.models.scoring.stored_arrays import Stored
from tests.models.lattices.test_one_row import Sizes, drawn, packed_of, rows
from tests.support.examples import few
from tests.support.indexes.stopping_records import draw_rows, make_index
from tests.support.models.drawn_trees import drawn_trees, packed, rows_of


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


@pytest.mark.jit
@settings(max_examples=few(15))
@given(seed=st.integers(0, 9999), count=st.sampled_from([1, 6, 7, 64, 130, 300]))
def test_trees_of_two_classes(seed: int, count: int) -> None:
    draw = np.random.default_rng(seed)
    trees = drawn_trees(seed, count=count, depth=3)
    stops = drawn_limits(draw, count)
    for laid in packed(trees, draw.permutation(count), stops):
        if laid is not None:
            same(laid, rows_of(trees), count, draw)


@pytest.mark.jit
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


@pytest.mark.jit
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


def exits_of(classes: int) -> EarlyExit | MarginExit:
    """The evaluator of 40 trees for two classes, or of 20 rounds for three."""
    package = make_index(classes).package
    assert package is not None
    exits = package.early_exits[2]
    assert exits is not None
    return exits


def same_scores(found: Any, expected: Any) -> None:
    np.testing.assert_allclose(found, expected, rtol=1e-9)


ROWS = draw_rows(120, 5)
CLASSES = pytest.mark.parametrize("classes", [2, 3])


def steps_of(exits: EarlyExit | MarginExit) -> list[int]:
    """Numbers of base models that a part may end with, but for all."""
    return [*range(exits.step, exits.size, exits.step)]


@pytest.mark.jit
@CLASSES
def test_a_row_with_time_is_answered_as_by_the_whole_model(classes: int) -> None:
    exits = exits_of(classes)
    for first in {steps_of(exits)[0], steps_of(exits)[-1]}:
        for row in ROWS:
            found = exits.answer_while(row, first, exits.step, lambda _: True)
            assert found == exits.answer(row)


@CLASSES
def test_a_row_without_time_is_answered_by_the_sum_so_far(classes: int) -> None:
    exits = exits_of(classes)
    scores = exits.terms.base_scores(ROWS)[:, exits.schedule.order]
    sums = exits.start + scores.cumsum(axis=1)
    for count in steps_of(exits):
        codes, shares = exits.early_answers(
            np.full(len(ROWS), count), sums[:, count - 1]
        )
        for i, row in enumerate(ROWS):
            found, whole = exits.answer_first(row, count), exits.answer(row)
            if whole.used <= count and whole.used < exits.size:
                assert found == whole
                continue
            assert (found.code, found.used) == (codes[i], count)
            same_scores(found.scores, shares[i])


@CLASSES
def test_rows_that_no_kernel_reads_are_cut_off_alike(classes: int) -> None:
    exits = exits_of(classes)
    count = steps_of(exits)[0]
    for row in ROWS[:20]:
        found = exits.answer_first(row.astype(np.float64), count)
        expected = exits.answer_first(row, count)
        assert (found.code, found.used) == (expected.code, expected.used)
        same_scores(found.scores, expected.scores)


@CLASSES
def test_many_rows_are_answered_as_one_by_one(classes: int) -> None:
    exits = exits_of(classes)
    for X in (ROWS, ROWS.astype(np.float64)):
        for count in {steps_of(exits)[0], steps_of(exits)[-1]}:
            codes, scores = exits.first_answers(X, count)
            for i, row in enumerate(ROWS):
                one = exits.answer_first(row, count)
                assert one.code == codes[i]
                same_scores(one.scores, scores[i])


@pytest.mark.jit
@CLASSES
def test_time_is_looked_at_between_parts_until_it_is_up(classes: int) -> None:
    exits = exits_of(classes)
    bare = as_ensemble(exits.classifier).early_exit(
        exits.schedule.without_stops(), exits.lines
    )
    ends = [*range(exits.step, exits.size, exits.step)]
    for allowed in range(len(ends) + 1):
        looks: list[int] = []

        def goes_on(used: int, looks: list[int] = looks, most: int = allowed) -> bool:
            looks.append(used)
            return len(looks) <= most

        found = bare.answer_while(ROWS[0], exits.step, exits.step, goes_on)
        assert looks == ends[: allowed + 1]
        assert found.used == (looks[-1] if len(looks) > allowed else exits.size)


def test_a_schedule_without_class_scores_cuts_no_row_off() -> None:
    exits = exits_of(2)
    bare = as_ensemble(exits.classifier).early_exit(exits.schedule.without_stops())
    assert not bare.has_parts
    with pytest.raises(BadInput, match="no class scores"):
        bare.answer_first(ROWS[0], bare.step)


@CLASSES
def test_a_part_is_a_model(classes: int) -> None:
    exits = exits_of(classes)
    part = ModelPart(exits, steps_of(exits)[0])
    again = ModelPart.load(Stored("part", part.arrays()), exits)
    labels, scores = again.predict(ROWS), again.predict_scores(ROWS)
    assert again.columns.tolist() == exits.classifier.columns.tolist()
    for i, row in enumerate(ROWS[:30]):
        code, own = part.answer(row)
        assert part.choose(row) == code
        assert part.classes[code] == labels[i]
        np.testing.assert_allclose(own, scores[i], rtol=1e-9)


@pytest.mark.parametrize("count", [0, -1, 40, 41])
def test_a_part_has_some_base_models_and_not_all(count: int) -> None:
    exits, stored = exits_of(2), {"base_models": np.array([count])}
    with pytest.raises(BadModel, match="no part of a model"):
        ModelPart.load(Stored("part", stored), exits)
    with pytest.raises(BadModel, match="no part of a model"):
        ModelPart.load(Stored("part", {"base_models": np.array([1])}), None)
