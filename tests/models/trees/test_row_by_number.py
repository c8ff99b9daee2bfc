"""Rows of one array, decided by number: as if each had been handed over."""

import gc
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from polydom.features.errors import BadInput
from polydom.models.early_exit.early_exits import EarlyExit
from polydom.models.early_exit.ensemble import as_ensemble
from polydom.models.scoring.classifier import Classifier, Head
from polydom.models.scoring.kernels.link import LOGISTIC, NOT_NEGATIVE, POSITIVE
from polydom.models.scoring.preparation import plain
from polydom.models.scoring.stopping_rule import NO_ROW, UNDECIDED
from polydom.models.trees import self_test
from polydom.models.trees.kernels.avx512 import VECTORS
from polydom.models.trees.nodes import Tree
from polydom.models.trees.self_test import Trust
from polydom.models.trees.trees import Trees, join
from tests.support.drawn_trees import drawn_trees, narrowing, rows_of


def exits_of(trees: Trees, rule: int = POSITIVE) -> EarlyExit:
    head = Head(np.array([0, 1]), LOGISTIC, rule, 1)
    made = as_ensemble(Classifier(trees.with_packed(), head))
    exits = made.early_exit(narrowing(made))
    assert isinstance(exits, EarlyExit)
    return exits


def drawn(count: int = 100) -> tuple[EarlyExit, NDArray[np.float32]]:
    trees = drawn_trees(3, count=count, depth=4)
    return exits_of(trees), rows_of(trees)


@pytest.mark.parametrize("held", [True, False], ids=["vector", "portable"])
def test_a_row_is_chosen_for_by_its_number(
    held: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(self_test, "TRUST", Trust(held and VECTORS))
    exits, X = drawn()
    choose = exits.over(X)
    expected = exits.choices(X)[0].tolist()
    assert 0 < sum(expected) < len(X)
    assert [choose(i) for i in range(len(X))] == expected
    assert [choose(np.int64(i)) for i in (1, 0)] == expected[1::-1]  # type: ignore[arg-type]


@pytest.mark.parametrize(("rule", "answer"), [(POSITIVE, 0), (NOT_NEGATIVE, 1)])
def test_a_sum_at_the_threshold_is_decided_by_the_library_s_rule(
    rule: int, answer: int
) -> None:
    leaf = np.array([-1])
    trees = [Tree(leaf, leaf, leaf, leaf, np.zeros((1, 1)), leaf * 0)] * 70
    inputs = plain(np.arange(1))
    exits = exits_of(join(trees, [0] * 70, inputs, bias=np.zeros(1), single=True), rule)
    assert exits.over(np.zeros((1, 1), np.float32))(0) == answer


def test_a_row_that_was_filled_again_is_read_again() -> None:
    exits, X = drawn()
    room = np.empty((1, X.shape[1]), np.float32)
    choose = exits.over(room)
    for row in X:
        room[0] = row
        assert choose(0) == exits.choose(row)


def test_the_array_lives_as_long_as_the_function() -> None:
    exits, X = drawn()
    expected = exits.choices(X)[0].tolist()
    choose = exits.over(X.copy())
    gc.collect()
    others = [np.full_like(X, np.nan) for _ in range(50)]
    assert [choose(i) for i in range(len(X))] == expected
    assert len(others) == 50


@pytest.mark.parametrize("number", [-1, 64, 2**40, -(2**63)])
def test_there_is_no_such_row(number: int) -> None:
    exits, X = drawn()
    choose = exits.over(X)
    with pytest.raises(BadInput, match=rf"no row {number} among 64"):
        choose(number)


def test_an_array_without_rows() -> None:
    exits, X = drawn()
    with pytest.raises(BadInput, match="no row 0 among 0"):
        exits.over(X[:0])(0)


def test_what_is_below_undecided_is_an_answer() -> None:
    assert UNDECIDED < NO_ROW


@pytest.mark.parametrize(
    "change",
    [lambda X: X.astype(np.float64), lambda X: X[0], lambda X: X[:, ::-1]],
    ids=["float64", "one row", "gaps"],
)
def test_rows_must_lie_as_the_kernel_reads_them(change: Any) -> None:
    exits, X = drawn()
    with pytest.raises(BadInput, match="must be float32, "):
        exits.over(change(X))


@pytest.mark.jit
def test_rows_must_be_wide_enough() -> None:
    exits, X = drawn()
    with pytest.raises(BadInput, match=r"rows of \d columns; 5 are needed"):
        exits.over(np.ascontiguousarray(X[:, :3]))


def test_models_without_packed_trees_answer_too() -> None:
    exits, X = drawn()
    plain_exits = replace(exits, packed=None)
    choose = plain_exits.over(X)
    assert [choose(i) for i in range(len(X))] == exits.choices(X)[0].tolist()
    with pytest.raises(BadInput, match="no row -1"):
        choose(-1)
