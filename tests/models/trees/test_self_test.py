"""Vector kernels are used only where they answer as the portable ones."""

import logging
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from polydom.features.errors import BadModel
from polydom.models.early_exit.early_exits import EarlyExit
from polydom.models.early_exit.ensemble import as_ensemble
from polydom.models.scoring.classifier import Classifier, Head
from polydom.models.scoring.kernels.link import LOGISTIC, POSITIVE
from polydom.models.scoring.stopping_rule import Limits, Margins, Never, Stops
from polydom.models.trees import self_test
from polydom.models.trees.kernels.avx512 import VECTORS
from polydom.models.trees.keys import TINY, Slots, find_slots
from polydom.models.trees.one_row import PackedTrees
from polydom.models.trees.self_test import ROWS, Trust, agree, edge_rows, walk_nodes
from polydom.models.trees.trees import Trees
from tests.support.models.drawn_trees import drawn_trees, narrowing, packed, rows_of

vectors = pytest.mark.skipif(not VECTORS, reason="this processor has no AVX-512 VBMI")


def tried(
    monkeypatch: pytest.MonkeyPatch, change: Any = None, wrong: float = 0.0
) -> tuple[bool, Trust]:
    """Self-test kernels that `change` rows' totals; the trees are `wrong`."""
    trust = Trust()
    monkeypatch.setattr(self_test, "TRUST", trust)
    trees = drawn_trees(0)
    vector, portable = packed(trees)
    assert vector is not None
    right = vector.many

    def many(X: Any, address: int, totals: Any, codes: Any) -> None:
        right(X, address, totals, codes)
        if change is not None:
            change(X, totals[:, 0])

    vector = replace(vector, many=many)
    order, off = np.arange(trees.size), replace(trees, bias=trees.bias + wrong)
    return agree(vector, portable, off, find_slots(trees), order, Never()), trust


@vectors
@pytest.mark.jit
def test_kernels_that_agree_are_used(monkeypatch: pytest.MonkeyPatch) -> None:
    used, trust = tried(monkeypatch)
    assert used
    assert trust.kernels == "vector"


@vectors
@pytest.mark.jit
@pytest.mark.parametrize("wrong", ["a bit", "a missing value", "the sign of 0"])
def test_kernels_that_differ_are_not_used(
    wrong: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def change(X: Any, totals: Any) -> None:
        if wrong == "a bit":
            totals[-1] = np.nextafter(totals[-1], np.inf)
        elif wrong == "a missing value":
            totals[np.isnan(X).any(axis=1)] += 1.0
        else:
            totals[totals > 0] *= -1.0

    with caplog.at_level(logging.ERROR, logger="polydom"):
        used, trust = tried(monkeypatch, change)
        assert not used
        assert trust.kernels == "portable"
        trust.lose()
    assert len(caplog.records) == 1  # said once
    assert "differ from the portable ones" in caplog.text


@vectors
@pytest.mark.jit
def test_a_model_that_no_kernel_answers_right_is_to_blame_itself(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with pytest.raises(BadModel, match="packed"):
        tried(monkeypatch, lambda X, totals: totals.fill(7.0), wrong=1.0)
    assert self_test.TRUST.kernels == "vector"


@pytest.mark.jit
@pytest.mark.parametrize("terms", [1, 3])
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("count", [40, 42, 43])
def test_walking_plainly_answers_as_the_packed_kernels(
    count: int, seed: int, terms: int
) -> None:
    trees = drawn_trees(seed, count=count, scores=terms, terms=terms)
    draw = np.random.default_rng(seed)
    order, X = draw.permutation(count), rows_of(trees)
    spread = np.abs(draw.normal(size=count)) * 3
    rule = Limits(-spread, spread, 0.5) if terms == 1 else Margins(spread / 2)
    rules: list[Stops] = [Never(), rule]
    for stops in rules:
        expected = packed(trees, order, stops)[1].follow(X)
        found = walk_nodes(trees, order, stops, X)
        assert [part.tobytes() for part in found] == [p.tobytes() for p in expected]
        if stops is rule and count == 40:
            assert len(set(found[1].tolist())) > 1


def test_edge_rows_meet_thresholds_and_what_is_no_number() -> None:
    cuts = np.array([-1.5, 0.0, 2.0, np.inf], np.float32)
    keys = cuts.view(np.int32)
    keys = keys ^ ((keys >> 31) & np.int32(2**31 - 1))
    columns, zeros = np.array([2, 5], np.int32), np.zeros(2, np.int32)
    keys = np.append(keys, np.int32(7))
    slots = Slots(columns, zeros, zeros, np.array([0, 1, 0, 1, -1]), keys)
    X = edge_rows(slots, 7)
    assert X.shape == (ROWS, 7)
    assert (X[:, [0, 1, 3, 4, 6]] == 0).all()
    assert {-1.5, 2.0} <= set(X[:, 2].tolist())
    assert np.isin(X[:, 5], [0.0, np.inf]).any()
    used = X[:, [2, 5]]
    assert np.isnan(used).any()
    assert np.isneginf(used).any()
    assert (np.nextafter(np.float32(2), np.float32(3)) == used).any()
    assert (np.abs(used) == np.array(TINY + 1, np.int32).view(np.float32)).any()
    np.testing.assert_array_equal(X, edge_rows(slots, 7))


def test_rows_of_trees_without_tests() -> None:
    none = np.zeros(0, np.int32)
    slots = Slots(none, none, none, np.array([-1, -1]), np.zeros(2, np.int32))
    assert (edge_rows(slots, 3) == 0).all()


@pytest.mark.jit
def test_models_decide_alike_with_and_without_trust(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    trees = drawn_trees(3, count=200, depth=4)
    X = rows_of(trees)
    head = Head(np.array([0, 1]), LOGISTIC, POSITIVE, 1)
    found = []
    for held in (VECTORS, False):
        monkeypatch.setattr(self_test, "TRUST", Trust(held))
        classifier = Classifier(trees.with_packed(), head)
        ensemble = as_ensemble(classifier)
        exits = ensemble.early_exit(narrowing(ensemble))
        assert isinstance(exits, EarlyExit)
        scorer = classifier.scorer
        assert isinstance(scorer, Trees)
        for made in (scorer.packed, exits.packed):
            assert isinstance(made, PackedTrees)
            assert made.vector == held
        raw = [classifier.scorer.raw(row[None])[0, 0] for row in X]
        assert raw == [classifier.scorer.margin_one(row) for row in X]
        chosen, used = exits.choices(X)
        assert chosen.tolist() == [exits.choose(row) for row in X]
        assert 1 < used.mean() < 200
        answers = [classifier.choose(row) for row in X]
        found.append((raw, answers, chosen.tolist(), used.tolist()))
    assert found[0] == found[1]
