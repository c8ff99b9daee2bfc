"""Universal Binary JSON."""

import contextlib
import json
import math
import struct
import tracemalloc
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from polydom.features.errors import BadModel
from polydom.models.importers.ubjson import DEEPEST, is_ubj, read_ubj
from tests.support.oracles.ubjson import write_ubj


def plain(value: Any) -> Any:
    """The same value without NumPy's arrays."""
    if isinstance(value, dict):
        return {name: plain(inside) for name, inside in value.items()}
    if isinstance(value, list | np.ndarray):
        return [plain(inside) for inside in value]
    return value.item() if isinstance(value, np.generic) else value


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"i\xff", -1),
        (b"U\xff", 255),
        (b"I\x80\x00", -(2**15)),
        (b"l\x7f\xff\xff\xff", 2**31 - 1),
        (b"L" + struct.pack(">q", -(2**63)), -(2**63)),
        (b"d" + struct.pack(">f", 0.1), float(np.float32(0.1))),
        (b"D" + struct.pack(">d", 0.1), 0.1),
        (b"Z", None),
        (b"T", True),
        (b"F", False),
        (b"Ca", "a"),
        (b"Si\x02\xc3\xbc", "ü"),
        (b"SU\x00", ""),
        (b"[]", []),
        (b"{}", {}),
        (b"[#i\x02Ti\x07", [True, 7]),
        (b"[i\x01[]Z]", [1, [], None]),
        (b"[$U#i\x03\x01\x02\xff", [1, 2, 255]),
        (b"[$d#i\x01" + struct.pack(">f", -0.5), [-0.5]),
        (b"[$l#L" + bytes(8), []),
        (b"{i\x01ai\x05L" + struct.pack(">q", 1) + b"b{}}", {"a": 5, "b": {}}),
    ],
)
def test_value_is_read(data: bytes, expected: Any) -> None:
    assert plain(read_ubj(data)) == expected


def test_typed_array_is_native_and_of_its_own_width() -> None:
    found = read_ubj(b"[$I#i\x02\x00\x01\xff\xff")
    assert found.dtype == np.int16
    assert found.dtype.isnative
    assert found.flags.writeable


NUMBERS = st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False)
VALUES = st.recursive(
    st.none() | st.booleans() | NUMBERS | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.lists(st.integers(0, 255), max_size=4)
        | st.dictionaries(st.text(max_size=3), inner, max_size=3)
    ),
    max_leaves=12,
)


@given(VALUES)
def test_what_an_obvious_writer_writes_is_read_again(value: Any) -> None:
    assert plain(read_ubj(write_ubj(value))) == value


@given(VALUES, st.data())
def test_damaged_data_are_refused_or_read_as_something_else(
    value: Any, data: st.DataObject
) -> None:
    whole = bytearray(write_ubj([value]))
    cut = data.draw(st.integers(0, len(whole) - 1))
    with pytest.raises(BadModel, match="not a UBJSON file"):
        read_ubj(bytes(whole[:cut]))
    whole[cut] = data.draw(st.integers(0, 255))
    with contextlib.suppress(BadModel):  # and nothing else is raised
        read_ubj(bytes(whole))


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "1 bytes are needed and 0 left"),
        (b"N", "unknown marker b'N'"),
        (b"H", "unknown marker b'H'"),
        (b"i\x01i\x01", "2 bytes after its end, at byte 2"),
        (b"SL" + struct.pack(">q", 2**62), f"{2**62} bytes are needed and 0 left"),
        (b"Si\xff", "-1 bytes are needed"),
        (b"Sd\x00\x00\x00\x00", "a length of type b'd'"),
        (b"Si\x01\xff", "a text that is not UTF-8"),
        (b"[#L" + struct.pack(">q", 2**62), f"an array of {2**62} values"),
        (b"[#i\xff", "an array of -1 values"),
        (b"[$D#L" + struct.pack(">q", 2**61), f"{2**64} bytes are needed"),
        (b"[$i#i\xff", "-1 bytes are needed"),
        (b"[$Z#l\x7f\xff\xff\xff", "an array of type b'Z'"),
        (b"[$i]", "an array of type b'i', or without a count"),
        (b"{#i\x01i\x01ai\x01", "a length of type b'#'"),
        (b"{i\x01ai\x01i\x01ai\x02}", "'a' comes twice"),
        (b"[" * 10_000, f"nested deeper than {DEEPEST}"),
        (b"{i\x01a" * 10_000, f"nested deeper than {DEEPEST}"),
    ],
)
def test_data_that_are_none_are_refused(data: bytes, message: str) -> None:
    with pytest.raises(BadModel, match=message.replace("'", ".")):
        read_ubj(data)


def test_lengths_are_checked_before_anything_is_made_of_them() -> None:
    huge = struct.pack(">q", 2**40)
    tracemalloc.start()
    for start in (b"[$D#L", b"[$U#L", b"[#L", b"SL", b"{L"):
        with pytest.raises(BadModel, match="not a UBJSON file"):
            read_ubj(start + huge + b"i\x01" * 100)
    assert tracemalloc.get_traced_memory()[1] < 1 << 20
    tracemalloc.stop()


def test_beginnings_tell_it_from_json() -> None:
    assert is_ubj(b"{L")
    assert is_ubj(b"{i\x07learner")
    for text in ("{}", '{"learner": {}}', "{\n", "{", "", "[1]", "tree\nversion=v4"):
        assert not is_ubj(text.encode())
    assert not is_ubj(json.dumps({"a": math.pi}).encode())
