"""What a model that stopped early says over the wire, in each form."""

from typing import Any

import msgpack
import msgspec
import pytest
from msgspec import UNSET

from polydom.features.items import text_item
from polydom.server.client.messages import read_answer
from polydom.server.engine.budget import Allowance
from polydom.server.engine.outcome import Outcome
from polydom.server.engine.request import Caller, Request
from polydom.server.runtime.translator import Translator
from polydom.server.schema.batch import Entry
from polydom.server.schema.predict import Answer, Terms, encode, encode_msgpack
from polydom.server.settings import Settings
from polydom.server.v1.batch_reply import entry_of
from tests.support.outcomes import BOUNDS, WHOLE, outcome_of
from tests.support.planners import INDEX, planner_of
from tests.support.served import HAM

TRANSLATOR = Translator(planner_of(INDEX), Settings())
NEW = {"score_bounds", "base_models_used", "base_models"}


def said(outcome: Outcome) -> Answer:
    request = Request(text_item(HAM), Allowance(1.0))
    return TRANSLATOR.answer(request, outcome)


@pytest.mark.parametrize("exact", [False, True])
def test_a_request_says_whether_scores_are_needed(exact: bool) -> None:
    terms = Terms(budget_ms=5.0, exact=exact)
    request = TRANSLATOR.request(terms, text_item(HAM), 0.0, Caller())
    assert request.exact is exact


@pytest.mark.parametrize(
    ("outcome", "scores", "bounds", "used"),
    [
        (outcome_of(12), None, BOUNDS, 12),
        (outcome_of(12, score_bounds=None), None, None, 12),
        (outcome_of(0, reason="budget"), None, BOUNDS, 0),
        (outcome_of(300), WHOLE, None, 300),
        (outcome_of(None), WHOLE, None, None),
    ],
    ids=["early", "without bounds", "of a cheaper plan", "to the end", "no schedule"],
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
