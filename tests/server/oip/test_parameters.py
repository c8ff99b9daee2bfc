"""Parameters and deadlines become a budget, of which every item gets its fair share."""

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from polydom.features.errors import BadInput
from polydom.server.engine.budget import Deadline, MoneyBudget
from polydom.server.oip.parameters import KEPT_MAX_S, Parameters, SharedBudget
from polydom.server.schema.wire import PredictRequest
from polydom.server.settings import Settings

SETTINGS = Settings(budget_s=0.05, max_budget_s=1.0)


def budget_s(
    parameters: dict[str, Any], caller_timeout_s: float | None = None
) -> float:
    """What the only item of a request gets."""
    ask = PredictRequest()
    shared = Parameters.read(parameters, caller_timeout_s).shared("s", SETTINGS, 100.0)
    shared.give(ask, 100.0, 1)
    assert ask.budget_ms is not None
    return ask.budget_ms / 1e3


@pytest.mark.parametrize(
    ("parameters", "caller_timeout_s", "expected_s"),
    [
        ({}, None, 0.05),
        ({"timeout": 0}, None, 0.05),
        ({"timeout": 20_000}, None, 0.02),
        ({"budget_ms": 20}, None, 0.02),
        ({"budget_ms": 0}, None, 0.0),
        ({"budget_ms": 9e9}, None, 1.0),
        ({"timeout": 1 << 62}, None, 1.0),
        ({}, 0.05, 0.045),
        ({}, 0.5, 0.5 - KEPT_MAX_S),
        ({}, 60.0, 1.0),
        ({}, -1.0, 0.0),
        ({"timeout": 20_000}, 0.5, 0.02),
        ({"timeout": 900_000}, 0.5, 0.5 - KEPT_MAX_S),
    ],
)
def test_budget_is_what_was_asked_for_and_is_of_use(
    parameters: dict[str, Any], caller_timeout_s: float | None, expected_s: float
) -> None:
    assert budget_s(parameters, caller_timeout_s) == pytest.approx(expected_s)


def test_terms_reach_every_item() -> None:
    ask = PredictRequest(text="a")
    named: dict[str, Any] = {"on_infeasible": "error", "min_quality": 1}
    named["exact"] = True
    Parameters.read({**named, "priority": 1, "triton_x": True}, None).give(ask)
    assert (ask.on_infeasible, ask.min_quality, ask.text) == ("error", 1, "a")
    assert ask.exact


@pytest.mark.parametrize(
    ("parameters", "match"),
    [
        ({"budget": "5"}, "budget: expected float"),
        ({"min_quality": True}, "min_quality: expected float"),
        (
            {"on_infeasible": "late"},
            "'late' came; one of 'prior', 'cheapest', 'error' is needed",
        ),
        ({"timeout": 1.5}, "in microseconds: a whole number"),
        ({"timeout": True}, "in microseconds: a whole number"),
        ({"timeout": -1}, "in microseconds: a whole number"),
        ({"timeout": 1, "budget_ms": 1}, "given twice"),
        ({"sequence_id": 1}, "'sequence_id' is unknown: each request"),
        ({"budget_us": 5000}, "'budget_us' is unknown; did you mean 'budget_ms'?"),
        ({"time_out": 5000}, "'time_out' is unknown; did you mean 'timeout'?"),
        ({"Budget": 5}, "'Budget' is unknown; did you mean 'budget'?"),
    ],
)
def test_parameters_that_mean_nothing_are_refused(
    parameters: dict[str, Any], match: str
) -> None:
    with pytest.raises(BadInput, match=match):
        Parameters.read(parameters, None)


def test_parameters_without_a_meaning_are_left_alone() -> None:
    """Those that clients send of themselves, and null for what was not given."""
    strange: dict[str, Any] = {"content_type": "pd", "headers": {"a": "b"}, "x": [1]}
    strange |= {"priority": 1, "triton_x": True, "model": "a", "sequence_start": False}
    unsaid = dict.fromkeys(("timeout", "budget_ms", "budget", "exact", "sequence_id"))
    read = Parameters.read({**strange, **unsaid, "min_quality": 0.5}, None)
    assert read.named == {"min_quality": 0.5}
    many = {f"budget_m{number}": 1 for number in range(9_000)}
    assert Parameters.read(many, None).named == {}


@pytest.mark.parametrize(
    ("unit", "parameters", "match"),
    [
        ("s", {"budget": 1.0}, "this index counts time: give 'budget_ms'"),
        ("s", {"budget_ms": -1}, "budget_ms is -1"),
        ("usd", {}, "say with the parameter 'budget'"),
        ("usd", {"timeout": 5}, "counts costs in usd, which time does not reduce"),
    ],
)
def test_amounts_are_in_the_unit_of_the_index(
    unit: str, parameters: dict[str, Any], match: str
) -> None:
    with pytest.raises(BadInput, match=match):
        Parameters.read(parameters, None).shared(unit, SETTINGS, 0.0)


@given(st.lists(st.floats(0, 1), min_size=1, max_size=9), st.floats(0.01, 10))
def test_shares_of_an_amount_never_add_up_to_more(
    wishes: list[float], amount: float
) -> None:
    """Every item spends some part of its share; what it leaves is for the others."""
    shared = SharedBudget(MoneyBudget(amount))
    for i, wish in enumerate(wishes):
        ask = PredictRequest()
        shared.give(ask, 0.0, len(wishes) - i)
        assert ask.budget is not None
        assert ask.budget >= amount / len(wishes) * (1 - 1e-9)
        shared.spent += ask.budget * wish
    assert shared.spent <= amount * (1 + 1e-9)
    assert shared.met(math.inf)
    assert shared.facts(0.0) == {"budget": amount, "predicted": shared.spent}


def test_an_amount_that_is_overspent_is_not_met() -> None:
    assert not SharedBudget(MoneyBudget(1.0), spent=1.5).met(0.0)


def test_time_is_divided_among_the_items_that_remain() -> None:
    shared, ask = SharedBudget(Deadline(100.0, 0.9)), PredictRequest()
    for now_s, items, share_ms in ((100.0, 3, 300), (100.5, 2, 200), (101.0, 1, 0)):
        shared.give(ask, now_s, items)
        assert ask.budget_ms == pytest.approx(share_ms)
        shared.spent += 1.0
    assert shared.met(100.9)
    assert not shared.met(100.901)
    assert shared.facts(100.5) == {"budget_us": 9e5, "elapsed_us": 5e5}


def test_reserve_is_kept_once_though_every_share_has_it() -> None:
    shared, ask = SharedBudget(Deadline(100.0, 1.0, 0.1)), PredictRequest()
    for now_s, items, share_ms in (
        (100.0, 3, 400),
        (100.3, 2, 400),
        (100.6, 1, 400),
        (100.95, 2, 50),
        (101.1, 1, 0),
    ):
        shared.give(ask, now_s, items)
        assert ask.budget_ms == pytest.approx(share_ms)
