"""Vector kernels are used only where they answer as the portable ones."""

import logging
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from polydom.features.errors import BadModel
from polydom.models import trial
from polydom.models._lane_kernels import lane_margins
from polydom.models._layout_kernels import TINY
from polydom.models._score_kernels import LOGISTIC, POSITIVE
from polydom.models._vector_kernels import VECTORS
from polydom.models.classifier import Classifier
from polydom.models.ensemble import EarlyExit, as_ensemble
from polydom.models.head import Head
from polydom.models.lanes import Lanes, Slots
from polydom.models.layout import Layout, pack
from polydom.models.trees import Trees
from polydom.models.trial import (
    PORTABLE,
    ROWS,
    VECTOR,
    Kernels,
    Trust,
    _answers,
    edge_rows,
    try_lanes,
)
from polydom.models.walked import Answers, walk_plainly

from .test_lanes import drawn_trees, packed, slots_of

vectors = pytest.mark.skipif(not VECTORS, reason="this processor has no AVX-512 VBMI")


def tried(
    kernels: Kernels, monkeypatch: pytest.MonkeyPatch, wrong: float = 0.0
) -> tuple[Any, Trust]:
    """Put kernels on trial; `wrong` is added to what the trees themselves answer."""
    trust = Trust()
    monkeypatch.setattr(trial, "TRUST", trust)
    trees = drawn_trees(0)
    lanes, layout, _ = packed(trees)
    assert isinstance(lanes, Lanes)
    slots, _ = slots_of(trees)
    width = len(trees.columns)

    def plain(X: Any) -> Answers:
        (sums,) = walk_plainly(trees, np.arange(trees.size), None, None, X)
        return (sums + wrong,)

    args = (lanes, layout.address, slots, width, trees.bias, "never", plain, kernels)
    return try_lanes(*args), trust  # type: ignore[arg-type]


@vectors
@pytest.mark.jit
def test_kernels_that_agree_are_used(monkeypatch: pytest.MonkeyPatch) -> None:
    lanes, trust = tried(VECTOR, monkeypatch)
    assert lanes is not None
    assert trust.kernels == "vector"


@vectors
@pytest.mark.jit
@pytest.mark.parametrize("wrong", ["a bit", "a missing value", "the sign of 0"])
def test_kernels_that_differ_are_not_used(
    wrong: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def margins(X: Any, address: int, out: Any) -> None:
        lane_margins(X, address, out)
        if wrong == "a bit":
            out[-1] = np.nextafter(out[-1], np.inf)
        elif wrong == "a missing value":
            out[np.isnan(X).any(axis=1)] += 1.0
        else:
            out[out > 0] *= -1.0

    with caplog.at_level(logging.ERROR, logger="polydom"):
        lanes, trust = tried(replace(VECTOR, margins=margins), monkeypatch)
        assert lanes is None
        assert trust.kernels == "portable"
        trust.lose()
    assert len(caplog.records) == 1  # said once
    assert "differ from the portable ones" in caplog.text
    assert try_lanes(None, 0, *[None] * 5) is None  # type: ignore[arg-type]


@vectors
@pytest.mark.jit
def test_a_model_that_no_kernel_answers_right_is_to_blame_itself(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    trust = Trust()
    monkeypatch.setattr(trial, "TRUST", trust)
    other = replace(VECTOR, margins=lambda X, address, out: out.fill(7.0))
    with pytest.raises(BadModel, match="packed"):
        tried(other, monkeypatch, wrong=1.0)
    assert trial.TRUST.kernels == "vector"


@pytest.mark.jit
@pytest.mark.parametrize("terms", [1, 3])
@pytest.mark.parametrize("seed", range(4))
def test_walking_plainly_answers_as_the_packed_kernels(seed: int, terms: int) -> None:
    trees = drawn_trees(seed, count=40, scores=terms, terms=terms)
    draw = np.random.default_rng(seed)
    order, count = draw.permutation(trees.size), trees.size
    slots, _ = slots_of(trees)
    X = edge_rows(slots, len(trees.columns))
    for rule in ("never", "limits" if trees.outputs == 1 else "lead"):
        spread = np.abs(draw.normal(size=count)) * 3
        limits = (-spread, spread) if rule == "limits" else None
        lead = (spread / 2, 1) if rule == "lead" else None
        layout = pack(trees, order, limits, lead)
        assert layout is not None
        expected = _answers(PORTABLE, X, layout.address, trees.bias, rule)
        found = walk_plainly(trees, order, limits, lead, X)
        assert [part.tobytes() for part in found] == [p.tobytes() for p in expected]
        if rule != "never":
            assert len(set(found[1].tolist())) > 2


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


class Narrowing:
    """A schedule whose limits come nearer and nearer to the threshold."""

    def __init__(self, count: int) -> None:
        self.order = np.random.default_rng(0).permutation(count)
        self.upper = np.linspace(4.0, 0.1, count)
        self.lower = -self.upper


@pytest.mark.jit
def test_models_decide_alike_with_and_without_trust(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    trees = drawn_trees(3, count=200, depth=4)
    slots, _ = slots_of(trees)
    X = edge_rows(slots, len(trees.columns))
    head = Head(np.array([0, 1]), LOGISTIC, POSITIVE, 1)
    found = []
    for held in (VECTORS, False):
        monkeypatch.setattr(trial, "TRUST", Trust(held))
        classifier = Classifier(trees.packed(), head)
        exits = as_ensemble(classifier).early_exit(Narrowing(200))
        assert isinstance(exits, EarlyExit)
        scorer = classifier.scorer
        assert isinstance(scorer, Trees)
        for layout in (scorer.layout, exits.layout):
            assert isinstance(layout, Layout)
            assert (layout.lanes is not None) == held
        raw = [classifier.scorer.raw_one(row)[0, 0] for row in X]
        assert raw == [classifier.scorer.margin_one(row) for row in X]
        chosen, used = exits.choices(X)
        assert chosen.tolist() == [exits.choose(row) for row in X]
        assert 1 < used.mean() < 200
        answers = [classifier.choose(row) for row in X]
        found.append((raw, answers, chosen.tolist(), used.tolist()))
    assert found[0] == found[1]
