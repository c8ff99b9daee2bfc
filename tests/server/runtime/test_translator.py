"""What a model that stopped early says over the wire, in each form."""

from pathlib import Path
from typing import Any

import msgpack
import msgspec
import pytest
from msgspec import UNSET

from polydom.features.errors import BadInput, BadItem
from polydom.features.items import text_item
from polydom.server.client.messages import read_answer
from polydom.server.engine.budget import MoneyBudget
from polydom.server.engine.planning.planner import Planner
from polydom.server.engine.request import Caller, Outcome, Request
from polydom.server.runtime.translator import AFTER_S, AtOnce, Translator
from polydom.server.runtime.warm_up import open_translator
from polydom.server.schema.wire import Answer, Entry, Terms, encode, encode_msgpack
from polydom.server.settings import Settings
from polydom.server.v1.batch_reply import entry_of
from tests.support.indexes.served import HAM, SPAM
from tests.support.indexes.three_kinds import picture, save_images
from tests.support.models.outcomes import BOUNDS, EARLY, WHOLE, outcome_of
from tests.support.planners import INDEX, extractor_of, planner_of

TRANSLATOR = Translator(planner_of(INDEX), Settings())
NEW = {"early", "score_bounds", "base_models_used", "base_models"}


def said(outcome: Outcome) -> Answer:
    request = Request(text_item(HAM), MoneyBudget(1.0))
    return TRANSLATOR.answer(request, outcome)


@pytest.mark.parametrize("exact", [False, True])
def test_a_request_says_whether_scores_are_needed(exact: bool) -> None:
    terms = Terms(budget_ms=5.0, exact=exact)
    request = TRANSLATOR.request(terms, text_item(HAM), 0.0, Caller())
    assert request.exact is exact


@pytest.mark.parametrize(
    ("outcome", "scores", "bounds", "used"),
    [
        (outcome_of(12), EARLY, BOUNDS, 12),
        (outcome_of(12, score_bounds=None), EARLY, None, 12),
        (outcome_of(12, scores=None), None, BOUNDS, 12),
        (outcome_of(0, reason="budget"), EARLY, BOUNDS, 0),
        (outcome_of(300), WHOLE, None, 300),
        (outcome_of(None), WHOLE, None, None),
    ],
    ids=[
        "early",
        "without bounds",
        "older",
        "of a cheaper plan",
        "to the end",
        "no schedule",
    ],
)
def test_an_answer_says_how_far_its_model_went(
    outcome: Outcome, scores: Any, bounds: Any, used: int | None
) -> None:
    answer = said(outcome)
    bounds = {label: list(pair) for label, pair in (bounds or {}).items()}
    for plain in (
        msgspec.json.decode(encode(answer)),
        msgpack.unpackb(encode_msgpack(answer)),
        msgspec.json.decode(encode(entry_of(7, answer))),
    ):
        assert plain["scores"] == scores
        assert plain["reason"] == outcome.reason
        assert plain.get("score_bounds", {}) == bounds
        assert plain.get("base_models_used") == used
        assert plain.get("base_models") == (None if used is None else 300)
        assert NEW & plain.keys() == {
            *(["score_bounds"] if bounds else []),
            *(["early"] if outcome.early else []),
            *(["base_models_used", "base_models"] if used is not None else []),
        }


def test_clients_read_what_was_said() -> None:
    answer = said(outcome_of(12))
    assert read_answer(200, encode(answer)) == answer
    assert answer.score_bounds == BOUNDS
    entry = entry_of(7, answer)
    assert msgspec.msgpack.decode(encode_msgpack(entry), type=Entry) == entry
    whole = read_answer(200, encode(said(outcome_of(None))))
    assert (whole.scores, whole.score_bounds, whole.base_models) == (
        WHOLE,
        UNSET,
        UNSET,
    )


class Ticking:
    """A clock that moves by a millisecond whenever somebody looks."""

    now_s = 50.0

    def __call__(self) -> float:
        self.now_s += 1e-3
        return self.now_s


class Stalling:
    """A clock that moves by a microsecond, and once by 20 ms after so many looks."""

    now_s = 50.0
    stalls_after = 0

    def __call__(self) -> float:
        self.now_s += 1e-6
        if self.stalls_after:
            self.stalls_after -= 1
            self.now_s += 0.0 if self.stalls_after else 20e-3
        return self.now_s


def test_what_making_an_answer_takes_is_kept_of_the_next_budget() -> None:
    planner = Planner(INDEX, extractor_of(INDEX), now=Ticking(), busy=float)
    at_once = AtOnce(Translator(planner, Settings()))
    first, second = (at_once.answer(Terms(budget_ms=50.0), HAM) for _ in range(2))
    assert first.reserve_us == 2 * AFTER_S * 1e6
    assert isinstance(second.reserve_us, float)
    assert 4000.0 <= second.reserve_us <= 8000.0  # twice a few looks
    assert second.budget_met
    scarce = at_once.answer(Terms(budget_ms=7.0), HAM)
    assert (scarce.features, scarce.budget_met) == ((), True)
    assert not at_once.answer(Terms(budget_ms=3.0), HAM).budget_met


@pytest.mark.parametrize("look", range(1, 13))
def test_a_stall_wherever_it_comes_leaves_later_answers_their_plan(look: int) -> None:
    clock = Stalling()
    planner = Planner(INDEX, extractor_of(INDEX), now=clock, busy=float)
    at_once = AtOnce(Translator(planner, Settings()))
    for _ in range(20):
        usual = at_once.answer(Terms(budget_ms=8.0), HAM)
    assert usual.features
    clock.stalls_after = look
    while clock.stalls_after:
        at_once.answer(Terms(budget_ms=8.0), HAM)
    after = [at_once.answer(Terms(budget_ms=8.0), HAM) for _ in range(5)]
    assert [answer.features for answer in after] == 5 * [usual.features]


def test_what_cannot_be_asked_is_refused() -> None:
    at_once = AtOnce(Translator(planner_of(INDEX), Settings()))
    assert at_once.answer(Terms(budget_ms=900.0), SPAM).label == "spam"
    with pytest.raises(BadItem, match="a text was expected, not bytes"):
        at_once.answer(Terms(budget_ms=900.0), b"GIF")
    with pytest.raises(BadInput, match="budget_ms is -1"):
        at_once.answer(Terms(budget_ms=-1.0), HAM)


def test_an_image_is_not_read_for_a_budget_that_buys_nothing(tmp_path: Path) -> None:
    at_once = AtOnce(open_translator(save_images(tmp_path), []))
    nothing, enough = Terms(budget_ms=0.0), Terms(budget_ms=900.0)
    whole, cut = picture(220), picture(220)[:20]
    assert at_once.answer(enough, whole).label == "bright"
    for data in (whole, cut):
        prior = at_once.answer(nothing, data)
        assert (prior.label, prior.features) == ("dark", ())
        assert (prior.reason, prior.size_in_range) == ("infeasible", UNSET)
    late = Terms(budget_ms=0.0, on_infeasible="cheapest")
    for terms in (enough, late, Terms()):
        with pytest.raises(BadItem, match="20 bytes"):
            at_once.answer(terms, cut)
    for terms in (nothing, enough):
        with pytest.raises(BadItem, match="are no JPEG, PNG"):
            at_once.answer(terms, b"not an image")
        with pytest.raises(BadItem, match="a image was expected, not str"):
            at_once.answer(terms, "not bytes")
