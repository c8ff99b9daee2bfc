"""How errors are answered."""

import msgspec
import pytest

from polydom.features.errors import (
    LONGEST_MESSAGE,
    BadFeature,
    BadIndexFile,
    BadInput,
    BadItem,
    NothingFits,
    PolydomError,
)
from polydom.server.errors import NotReady, Overloaded, TooLarge, describe
from polydom.server.schema.predict import encode


@pytest.mark.parametrize(
    ("error", "status", "code"),
    [
        (BadInput("x"), 400, "bad_input"),
        (BadItem("x"), 400, "bad_item"),
        (TooLarge("x"), 413, "too_large"),
        (BadFeature("x"), 422, "bad_feature"),
        (Overloaded("x"), 429, "overloaded"),
        (NotReady("x"), 503, "not_ready"),
        (NothingFits(budget_s=1, cheapest_s=2, size=3), 504, "nothing_fits"),
        (BadIndexFile("/etc/secret.pdx is damaged"), 500, "internal"),
    ],
)
def test_table_maps_each_error_to_its_status(
    error: PolydomError, status: int, code: str
) -> None:
    found, failure = describe(error)
    assert (found, failure.code) == (status, code)
    assert "secret" not in failure.error
    assert set(msgspec.json.decode(encode(failure))) == {"error", "code"}


def test_what_a_feature_said_stays_inside_however_it_is_written() -> None:
    for said in ("/secret/path", "/secret\n\x1b[2Jpath" * 500):
        cause = ValueError(said)
        error = BadFeature(f"feature 'a' raised ValueError: {said}")
        error.__cause__ = cause
        status, failure = describe(error)
        assert (status, failure.error) == (422, "feature 'a' failed")


def test_text_of_a_request_is_told_in_one_short_line() -> None:
    _, failure = describe(BadInput("\x00\x1b[2J\n" * 1000))
    assert failure.error.isprintable()
    assert len(failure.error) <= LONGEST_MESSAGE
