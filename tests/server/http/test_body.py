"""A body is whole, as it was before it was compressed, and never over the limit."""

import asyncio
import contextlib
import gzip
import tracemalloc
import zlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from polydom.features.errors import BadInput, PolydomError
from polydom.server.errors import Abandoned, Overloaded, TooLarge, UnsupportedEncoding
from polydom.server.http.body import coding_of, read_body, unpack
from polydom.server.runtime.admission_control.admission import HeldBytes

GZIP = ((b"content-encoding", b"gzip"),)
DEFLATE = ((b"content-encoding", b"deflate"),)
LIMIT = 1000
# What a member begins with, and then ends.
GZIP_START = gzip.compress(b"a", mtime=0)[:12]


def read(chunks: list[bytes], headers: Any = (), limit: int = LIMIT) -> bytes:
    """Receive some chunks; the caller leaves after the last where that is empty."""
    messages: list[dict[str, Any]] = [
        {"type": "http.request", "body": chunk, "more_body": True} for chunk in chunks
    ]
    messages[-1]["more_body"] = False
    if not chunks[-1]:
        messages[-1] = {"type": "http.disconnect"}
    coming = iter(messages)

    async def receive() -> dict[str, Any]:
        return next(coming)

    with HeldBytes(4 * LIMIT).body() as held:
        return asyncio.run(read_body(receive, headers, limit, held))


@given(st.lists(st.binary(min_size=1, max_size=99), min_size=1, max_size=9))
def test_body_is_put_together_and_unpacked(chunks: list[bytes]) -> None:
    whole = b"".join(chunks)
    assert read(chunks) == whole
    packed = gzip.compress(whole)
    assert read([packed[:7], packed[7:]], GZIP) == whole
    packed = zlib.compress(whole)
    assert read([packed[:7], packed[7:]], DEFLATE) == whole


def test_body_is_taken_up_to_the_limit_packed_or_not() -> None:
    assert len(read([b"a" * LIMIT])) == LIMIT
    assert len(read([gzip.compress(b"a" * LIMIT)], GZIP)) == LIMIT
    for headers, body in (
        ((), b"a" * (LIMIT + 1)),
        (GZIP, gzip.compress(b"a" * (LIMIT + 1))),
        (DEFLATE, zlib.compress(b"a" * (LIMIT + 1))),
    ):
        with pytest.raises(TooLarge, match="limit of 1,000 bytes"):
            read([body], headers)


def test_body_of_a_caller_who_leaves_is_nobodys() -> None:
    with pytest.raises(Abandoned):
        read([b"a", b""])


def test_unpack_allocates_no_more_than_the_limit() -> None:
    bomb = gzip.compress(bytes(64 << 20))
    tracemalloc.start()
    try:
        with pytest.raises(TooLarge):
            unpack(bomb, b"gzip", 1 << 16)
        assert tracemalloc.get_traced_memory()[1] < 4 << 16
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"\x1f", "it is cut off"),
        (b"plain", "is not gzip"),
        (zlib.compress(b"hello"), "is not gzip"),
        (gzip.compress(b"hello", mtime=0)[:-1], "it is cut off"),
        (gzip.compress(b"hello", mtime=0) + b"!", "1 bytes are behind its end"),
        (gzip.compress(b"a", mtime=0) * 2 + b"!", "in every member"),
        (gzip.compress(b"a", mtime=0) * 2 + GZIP_START, "in every member"),
        (gzip.compress(b"", mtime=0) * 1025, "more than 1,024 members"),
        (gzip.compress(b"hello", mtime=0)[:-8] + bytes(8), "is not gzip"),
    ],
)
def test_unpack_refuses_what_is_not_one_whole_stream(body: bytes, message: str) -> None:
    with pytest.raises(BadInput, match=message):
        unpack(body, b"gzip", LIMIT)


@given(st.binary(max_size=60))
def test_unpack_refuses_noise_with_its_own_errors(noise: bytes) -> None:
    for body in (noise, b"\x1f\x8b\x08" + noise, gzip.compress(noise)[:-1] + noise[:1]):
        with contextlib.suppress(PolydomError):
            assert len(unpack(body, b"gzip", LIMIT)) <= LIMIT


@pytest.mark.parametrize("coding", [b"gzip", b"GZIP", b"x-gzip", b" gzip "])
def test_gzip_is_understood(coding: bytes) -> None:
    assert coding_of(((b"content-encoding", coding),)) == b"gzip"


@pytest.mark.parametrize("coding", [b"gzip, identity", b"identity,gzip", b",gzip"])
def test_a_coding_that_changes_nothing_does_not_count(coding: bytes) -> None:
    assert coding_of(((b"content-encoding", coding),)) == b"gzip"
    assert coding_of(((b"content-encoding", b"Identity"), *GZIP)) == b"gzip"


def test_gzip_may_have_several_members_and_zeros_behind_them() -> None:
    members = gzip.compress(b"hel") + gzip.compress(b"") + gzip.compress(b"lo")
    for body in (members, members + bytes(9), gzip.compress(b"hello") + bytes(9)):
        assert unpack(body, b"gzip", LIMIT) == b"hello"
    bomb = gzip.compress(b"a") + gzip.compress(bytes(64 << 20))
    with pytest.raises(TooLarge):
        unpack(bomb, b"gzip", 1 << 16)


def test_deflate_may_come_without_the_header_of_zlib() -> None:
    for window_bits in (-zlib.MAX_WBITS, zlib.MAX_WBITS):
        packing = zlib.compressobj(wbits=window_bits)
        packed = packing.compress(b"hello") + packing.flush()
        assert unpack(packed, b"deflate", LIMIT) == b"hello"
        with pytest.raises(BadInput, match="it is cut off"):
            unpack(packed[:-1], b"deflate", LIMIT)


@pytest.mark.parametrize("coding", [b"gzip", b"deflate"])
def test_an_empty_body_is_empty_however_it_is_coded(coding: bytes) -> None:
    assert unpack(b"", coding, LIMIT) == b""


def test_deflate_is_no_gzip() -> None:
    assert coding_of(DEFLATE) == b"deflate"
    with pytest.raises(BadInput, match="is not deflate"):
        unpack(gzip.compress(b"hello"), b"deflate", LIMIT)


def test_no_coding_is_none() -> None:
    assert coding_of(((b"content-type", b"gzip"),)) == b""
    assert coding_of(((b"content-encoding", b"identity"),)) == b""


@pytest.mark.parametrize(
    "coding", [b"compress", b"zstd", b"br", b"gzip, gzip", b"\xff"]
)
def test_other_codings_are_refused_before_a_body_is_read(coding: bytes) -> None:
    with pytest.raises(UnsupportedEncoding, match="or as gzip or deflate"):
        coding_of(((b"content-encoding", coding),))
    with pytest.raises(UnsupportedEncoding):
        coding_of((*GZIP, (b"content-encoding", coding)))


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 60)), max_size=40))
def test_intake_holds_no_more_than_it_may_and_lets_go_of_all(
    steps: list[tuple[int, int]],
) -> None:
    held_bytes = HeldBytes(100)
    bodies, sizes = [held_bytes.body() for _ in range(4)], [0] * 4
    for number, size in steps:
        if size > sizes[number] and sum(sizes) - sizes[number] + size > 100:
            with pytest.raises(Overloaded, match="at most 100 are held"):
                bodies[number].hold(size)
        else:
            bodies[number].hold(size)
            sizes[number] = size
        assert held_bytes.held == sum(sizes) <= 100
    for body in bodies:
        with body:
            pass
    assert held_bytes.held == 0


def test_bodies_beyond_what_the_process_may_hold_are_refused() -> None:
    held_bytes = HeldBytes(LIMIT)

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": b"a" * LIMIT, "more_body": False}

    async def read() -> None:
        with held_bytes.body() as first, held_bytes.body() as second:
            assert len(await read_body(receive, (), LIMIT, first)) == LIMIT
            with pytest.raises(Overloaded):
                await read_body(receive, (), LIMIT, second)
        with held_bytes.body() as third:
            assert len(await read_body(receive, (), LIMIT, third)) == LIMIT

    asyncio.run(read())
    assert held_bytes.held == 0
