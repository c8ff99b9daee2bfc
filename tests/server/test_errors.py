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
from polydom.server.errors import (
    STATUSES,
    Abandoned,
    ChangedContract,
    NotAllowed,
    NotReady,
    Overloaded,
    ReceiveTimeout,
    ReloadFailed,
    TooLarge,
    Unauthorized,
    UnknownModel,
    UnknownSample,
    UnsupportedEncoding,
    WorseIndex,
    describe,
)
from polydom.server.oip.grpc_calls import CODES
from polydom.server.schema.wire import encode

ERRORS: list[tuple[PolydomError, int, str, str | None]] = [
    (BadInput("x"), 400, "bad_input", "INVALID_ARGUMENT"),
    (BadItem("x"), 400, "bad_item", "INVALID_ARGUMENT"),
    (Unauthorized("x"), 401, "unauthorized", "UNAUTHENTICATED"),
    (NotAllowed("x"), 403, "not_allowed", "PERMISSION_DENIED"),
    (UnknownModel("x"), 404, "unknown_model", "NOT_FOUND"),
    (UnknownSample("x"), 404, "unknown_sample", "NOT_FOUND"),
    (ReceiveTimeout("x"), 408, "receive_timeout", "DEADLINE_EXCEEDED"),
    (TooLarge("x"), 413, "too_large", "RESOURCE_EXHAUSTED"),
    (UnsupportedEncoding("x"), 415, "unsupported_encoding", None),
    (BadFeature("x"), 422, "bad_feature", "INVALID_ARGUMENT"),
    (ReloadFailed("x"), 422, "reload_failed", "INVALID_ARGUMENT"),
    (ChangedContract("x"), 422, "changed_contract", "INVALID_ARGUMENT"),
    (WorseIndex("x"), 422, "worse_index", "INVALID_ARGUMENT"),
    (Overloaded("x"), 429, "overloaded", "RESOURCE_EXHAUSTED"),
    (Abandoned("x"), 499, "abandoned", "CANCELLED"),
    (NotReady("x"), 503, "not_ready", "UNAVAILABLE"),
    (
        NothingFits(budget_s=1, cheapest_s=2, size=3),
        504,
        "nothing_fits",
        "DEADLINE_EXCEEDED",
    ),
    (BadIndexFile("/etc/secret.pdx is damaged"), 500, "internal", None),
]


def test_every_error_of_the_table_is_tried() -> None:
    listed = {kind for status in STATUSES for kind in status.errors}
    assert listed == {type(error) for error, *_ in ERRORS} - {BadIndexFile}


@pytest.mark.parametrize(("error", "status", "code", "grpc"), ERRORS)
def test_table_maps_each_error_to_its_status(
    error: PolydomError, status: int, code: str, grpc: str | None
) -> None:
    found, failure = describe(error)
    assert (found, failure.code) == (status, code)
    assert (CODES[status].name if status in CODES else None) == grpc
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
