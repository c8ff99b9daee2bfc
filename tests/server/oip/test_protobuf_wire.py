"""Messages are gone through by fields, and cut into short ones that say the same."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from polydom.features.errors import BadInput
from polydom.features.protobuf import Field
from polydom.server.oip.grpc_messages import MESSAGES
from polydom.server.oip.protobuf_wire import PIECE, fields, pieces, written

CONTENTS = MESSAGES["InferTensorContents"]
NUMBERS = {1: 0, 2: 0, 3: 0, 4: 0, 5: 0, 6: 4, 7: 8}


def test_fields_are_found_one_by_one() -> None:
    message = b"\x08\x96\x01" + b"\x12\x02ab" + b"\x1d1234" + b"\x2112345678"
    assert list(fields(memoryview(message), 4)) == [
        Field(1, 0, 0, 1, 3),
        Field(2, 2, 3, 5, 7),
        Field(3, 5, 7, 8, 12),
        Field(4, 1, 12, 13, 21),
    ]
    assert list(fields(memoryview(b""), 0)) == []


@given(st.integers(0, 40_000), st.integers(1, 300))
def test_what_is_written_is_read(length: int, number: int) -> None:
    value = bytes(length)
    (field,) = fields(memoryview(written(number, value)), 1)
    assert (field.number, field.kind) == (number, 2)
    assert field.end - field.value == length


@pytest.mark.parametrize(
    "message",
    [
        b"\x08",
        b"\x80",
        b"\x08\x80",
        b"\x08" + b"\x80" * 11,
        b"\x12\x03ab",
        b"\x1d123",
        b"\x211234567",
        b"\x0b\x0c",
        b"\x0f",
    ],
)
def test_what_is_no_message_is_refused(message: bytes) -> None:
    with pytest.raises(BadInput, match="no message of its type"):
        list(fields(memoryview(message), 9))
    with pytest.raises(BadInput, match="no message of its type"):
        list(pieces(memoryview(message), NUMBERS, 9))


def test_fields_are_as_many_as_there_may_be() -> None:
    message = memoryview(b"\x08\x01" * 10)
    assert len(list(fields(message, 10))) == 10
    with pytest.raises(BadInput, match="more fields than its columns and terms need"):
        list(fields(message, 9))


@given(
    st.sampled_from(
        [
            ("bool_contents", st.booleans()),
            ("int_contents", st.integers(-(1 << 31), (1 << 31) - 1)),
            ("uint64_contents", st.integers(0, (1 << 64) - 1)),
            ("fp32_contents", st.floats(width=32, allow_nan=False)),
            ("fp64_contents", st.floats(allow_nan=False)),
            ("bytes_contents", st.binary(max_size=PIECE // 2)),
        ]
    ).flatmap(lambda kind: st.tuples(st.just(kind[0]), st.lists(kind[1], max_size=9))),
    st.integers(1, 3000),
)
def test_pieces_say_what_the_whole_says(
    given_values: tuple[str, list[Any]], times: int
) -> None:
    name, values = given_values
    if name == "bytes_contents":
        times = min(times, 20)
    whole = CONTENTS(**{name: values * times}).SerializeToString()
    read: list[Any] = []
    for piece in pieces(memoryview(whole), NUMBERS, 1000):
        assert len(piece) <= PIECE + 16
        read += getattr(CONTENTS.FromString(piece), name)
    assert read == list(getattr(CONTENTS.FromString(whole), name))


def test_numbers_that_never_end_are_left_to_protobuf() -> None:
    whole = memoryview(written(2, b"\xff" * (3 * PIECE)))
    assert sum(piece.count(b"\xff") for piece in pieces(whole, NUMBERS, 9)) >= 3 * PIECE
