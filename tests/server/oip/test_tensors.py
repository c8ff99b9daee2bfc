"""Tensors arrive as they were sent, in every form, or are refused before they cost."""

import math
import struct
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from polydom.features.errors import BadInput
from polydom.server.oip.tensors import (
    BYTES,
    DTYPES,
    MAX_ELEMENTS,
    Declared,
    Tensor,
    elements_of,
    to_raw,
)

SHAPES = arrays.array_shapes(min_dims=1, max_dims=4, min_side=0, max_side=4)
NUMBERS = sorted(set(DTYPES) - {"BOOL"})


def from_raw(name: str, datatype: str, shape: Any, raw: bytes) -> Tensor:
    return Declared.read(name, datatype, shape).from_raw(raw)


def from_json(name: str, datatype: str, shape: Any, data: Any) -> Tensor:
    return Declared.read(name, datatype, shape).from_json(data)


def from_values(name: str, datatype: str, shape: Any, values: Any) -> Tensor:
    return Declared.read(name, datatype, shape).from_values(values)


@st.composite
def numbers(draw: st.DrawFn) -> tuple[str, np.ndarray[Any, Any]]:
    """A datatype and an array of it, without NaN, which equals nothing."""
    datatype = draw(st.sampled_from(NUMBERS))
    dtype = np.dtype(DTYPES[datatype])
    elements = arrays.from_dtype(dtype, allow_nan=False, allow_infinity=False)
    return datatype, draw(arrays.arrays(dtype, draw(SHAPES), elements=elements))


@given(numbers())
def test_numbers_arrive_raw_nested_and_flat(
    sent: tuple[str, np.ndarray[Any, Any]],
) -> None:
    datatype, array = sent
    expected = Tensor("x", datatype, array.shape, array.ravel().tolist())
    assert from_raw("x", datatype, array.shape, array.tobytes()) == expected
    assert from_json("x", datatype, array.shape, array.ravel().tolist()) == expected
    assert from_json("x", datatype, array.shape, array.tolist()) == expected
    assert to_raw(expected) == array.tobytes()


@given(st.lists(st.binary(max_size=20), max_size=8))
def test_elements_arrive_raw_as_a_slow_reader_reads_them(sent: list[bytes]) -> None:
    raw = b"".join(struct.pack("<I", len(e)) + e for e in sent)
    assert list(from_raw("x", BYTES, [len(sent)], raw).values) == sent


@given(st.lists(st.text(max_size=20), max_size=8))
def test_strings_arrive_as_json_and_leave_as_their_utf8(sent: list[str]) -> None:
    tensor = from_json("x", BYTES, [len(sent), 1], [[text] for text in sent])
    assert tensor == Tensor("x", BYTES, (len(sent), 1), sent)
    assert elements_of(tensor) == [text.encode() for text in sent]
    assert from_raw("x", BYTES, [len(sent)], to_raw(tensor)).values == elements_of(
        tensor
    )


@given(st.binary(max_size=40), st.integers(0, 5))
def test_whatever_bytes_come_are_elements_or_refused(raw: bytes, count: int) -> None:
    try:
        read = from_raw("x", BYTES, [count], raw)
    except BadInput:
        return
    assert len(read.values) == count
    assert to_raw_bytes(read) == raw


def to_raw_bytes(tensor: Tensor) -> bytes:
    parts = []
    for value in tensor.values:
        assert isinstance(value, bytes)
        parts.append(struct.pack("<I", len(value)) + value)
    return b"".join(parts)


def test_booleans_are_bytes_of_0_and_1() -> None:
    read = from_raw("x", "BOOL", [3], b"\0\1\0")
    assert read.values == [False, True, False]
    assert to_raw(read) == b"\0\1\0"
    with pytest.raises(BadInput, match="a byte of 0 or 1"):
        from_raw("x", "BOOL", [1], b"\2")


def test_floats_are_rounded_to_what_they_are_said_to_be() -> None:
    assert from_json("x", "FP32", [1], [0.1]).values == [float(np.float32(0.1))]
    assert from_json("x", "FP64", [2], [0.1, 2]).values == [0.1, 2.0]
    with pytest.raises(BadInput, match="beyond FP32"):
        from_json("x", "FP32", [1], [1e39])
    with pytest.raises(BadInput, match="beyond FP64"):
        from_json("x", "FP64", [1], [10**400])


def test_null_is_a_missing_float_or_string() -> None:
    (value,) = from_json("x", "FP32", [1], [None]).values
    assert isinstance(value, float)
    assert math.isnan(value)
    assert from_json("x", BYTES, [1], [None]).values == [None]
    assert math.isnan(float(str(from_raw("x", "FP32", [1], b"\0\0\xc0\x7f").values[0])))


@pytest.mark.parametrize(
    ("datatype", "values", "match"),
    [
        ("INT8", [128], "128 is no INT8"),
        ("UINT64", [-1], "-1 is no UINT64"),
        ("UINT64", [1 << 64], "is no UINT64"),
        ("INT32", [1.0], "cannot hold float"),
        ("INT32", [True], "cannot hold bool"),
        ("INT32", [None], "cannot hold NoneType"),
        ("BOOL", [1], "cannot hold int"),
        ("FP32", ["1"], "cannot hold str"),
        ("FP32", [[1.0]], "cannot hold list"),
        (BYTES, [1], "cannot hold int"),
    ],
)
def test_values_of_another_type_are_refused(
    datatype: str, values: list[Any], match: str
) -> None:
    with pytest.raises(BadInput, match=match):
        from_values("x", datatype, [1], values)


@pytest.mark.parametrize(
    ("shape", "match"),
    [
        ([], "1 to 8 axes"),
        ([1] * 9, "1 to 8 axes"),
        ([-1], "an axis of -1"),
        ([MAX_ELEMENTS + 1], "an axis of 1048577"),
        ([1 << 63, 2], "an axis of 9223372036854775808"),
        ([1 << 20, 2], "holds 2,097,152 values"),
        ([1 << 20] * 8, "values; at most"),
    ],
)
def test_impossible_shapes_are_refused_before_the_data(
    shape: list[int], match: str
) -> None:
    for read in (from_raw, from_json, from_values):
        with pytest.raises(BadInput, match=match):
            read("x", "FP32", shape, b"")


@pytest.mark.parametrize(
    ("datatype", "shape", "raw", "match"),
    [
        ("FP32", [2], bytes(7), "7 bytes of data; FP32 of shape .2. takes 8"),
        ("FP32", [0], bytes(4), "4 bytes of data"),
        ("BF16", [1], bytes(2), "datatype 'BF16' is none of"),
        (BYTES, [1], b"\5\0\0\0abcd", "element 0 of 1 runs past the end"),
        (BYTES, [1], b"\xff\xff\xff\xff", "element 0 of 1 runs past the end"),
        (BYTES, [1], b"\0\0\0", "element 0 of 1 runs past the end"),
        (BYTES, [2], b"\0\0\0\0", "needs 2 elements; 1 were read"),
        (BYTES, [1], b"\0\0\0\0z", "1 bytes are left over"),
    ],
)
def test_bytes_that_are_not_what_the_shape_needs_are_refused(
    datatype: str, shape: list[int], raw: bytes, match: str
) -> None:
    with pytest.raises(BadInput, match=match):
        from_raw("x", datatype, shape, raw)


@pytest.mark.parametrize(
    ("shape", "data", "match"),
    [
        ([3], [1.0], "does not match 1 values"),
        ([2, 2], [[1.0, 2.0]], "does not match 1 values"),
        ([2, 2], [[1.0], [2.0, 3.0, 4.0]], "not nested as its shape"),
        ([2, 2], [[1.0, 2.0], 3.0], "not nested as its shape"),
        ([2], {"a": 1}, "'data' must be an array"),
    ],
)
def test_data_that_are_not_as_the_shape_says_are_refused(
    shape: list[int], data: Any, match: str
) -> None:
    with pytest.raises(BadInput, match=match):
        from_json("x", "FP64", shape, data)
