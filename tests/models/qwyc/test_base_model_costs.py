"""Costs of base models that share features."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from polydom.features.errors import BadInput
from polydom.models.qwyc.base_model_costs import ModelCosts, cut_stages

OWN, FEATURES = np.array([1.0, 2.0, 4.0]), np.array([10.0, 100.0])
USES = np.array([[True, False], [True, True], [False, False]])


@given(
    order=st.permutations(range(3)),
    uses=st.lists(st.booleans(), min_size=6, max_size=6),
)
def test_each_feature_is_paid_where_it_is_first_read(
    order: list[int], uses: list[bool]
) -> None:
    reads = np.array(uses).reshape(3, 2)
    costs = ModelCosts.check(3, OWN, FEATURES, reads)
    done: set[int] = set()
    slow = []
    for k in order:
        new = {f for f in range(2) if reads[k, f]} - done
        slow.append(OWN[k] + sum(FEATURES[f] for f in new))
        flags = np.array([f in done for f in range(2)])
        assert costs.next(np.array([k]), flags).tolist() == [slow[-1]]
        done |= new
    assert costs.along(np.array(order)).tolist() == slow
    assert costs.whole == sum(slow)


def test_costs_are_one_each_unless_told() -> None:
    costs = ModelCosts.check(3, None)
    assert costs.along(np.array([2, 0, 1])).tolist() == [1, 1, 1]
    assert costs.next(np.arange(3), np.zeros(0, np.bool_)).tolist() == [1, 1, 1]
    assert costs.whole == 3


@pytest.mark.parametrize(
    ("own", "features", "uses", "message"),
    [
        ([1.0, 2.0], None, None, "one per base model"),
        ([1.0, 0.0, 1.0], None, None, r"costs\[1\] is 0.0"),
        ([1.0, 1.0, np.nan], None, None, r"costs\[2\] is nan"),
        (["a", 1.0, 1.0], None, None, "must be numbers"),
        (None, FEATURES, None, "together"),
        (None, None, USES, "together"),
        (None, [1.0, -1.0], USES, r"feature_costs\[1\] is -1.0"),
        (None, FEATURES, USES.T, r"\(3, F\)"),
        (None, FEATURES, USES.astype(int), "must be bool"),
    ],
)
def test_costs_that_cannot_be(own: Any, features: Any, uses: Any, message: str) -> None:
    with pytest.raises(BadInput, match=message):
        ModelCosts.check(3, own, features, uses)


@given(
    order=st.permutations(range(4)),
    uses=st.lists(st.booleans(), min_size=12, max_size=12),
)
def test_a_stage_begins_where_new_features_are_read(
    order: list[int], uses: list[bool]
) -> None:
    reads = np.array(uses).reshape(4, 3)
    slow: list[tuple[list[int], list[int]]] = []
    done: set[int] = set()
    for k in order:
        new = sorted({f for f in range(3) if reads[k, f]} - done)
        if new or not slow:
            slow.append((new, []))
        slow[-1][1].append(k)
        done.update(new)
    fast = cut_stages(np.array(order), reads)
    assert [(list(s.features), order[s.start : s.stop]) for s in fast] == slow


def test_without_features_there_is_one_stage() -> None:
    (stage,) = cut_stages(np.array([1, 0]), np.zeros((2, 0), np.bool_))
    assert stage == ((), 0, 2)
