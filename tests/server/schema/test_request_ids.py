"""Ids of requests: what is read from headers, and what is ignored."""

import string
from itertools import chain

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from polydom.server.schema.request_ids import RequestIds, make_ids, with_request_id
from polydom.server.schema.request_ids import read_ids as read_named
from tests.support.examples import few

TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
PARENT = f"00-{TRACE}-{SPAN}-01"
HEX = set("0123456789abcdef")


def read_ids(headers: list[tuple[bytes, bytes]]) -> RequestIds | None:
    return read_named(tuple(chain(*headers)))


def slow_parent(value: str) -> str | None:
    """Read a `traceparent` word by word, as W3C Trace Context says it."""
    version, *parts = value.split("-")
    if len(version) != 2 or not set(version) <= HEX or version == "ff":
        return None
    if len(parts) < 3 or (version == "00" and len(parts) > 3):
        return None
    trace, span, flags = parts[:3]
    for part, size in ((trace, 32), (span, 16), (flags, 2)):
        if len(part) != size or not set(part) <= HEX:
            return None
    if set(trace) == {"0"} or set(span) == {"0"}:
        return None
    return f"00-{trace}-{span}-{int(flags, 16) & 3:02x}"


def parent_of(value: bytes) -> str | None:
    ids = read_ids([(b"traceparent", value)])
    return None if ids is None else ids.traceparent.decode()


@pytest.mark.parametrize(
    ("value", "read"),
    [
        (PARENT, PARENT),
        (f" \t{PARENT} ", PARENT),
        (PARENT[:-2] + "00", PARENT[:-2] + "00"),
        pytest.param(PARENT[:-2] + "ff", PARENT[:-2] + "03", id="unknown flags"),
        pytest.param("cc" + PARENT[2:], PARENT, id="later version"),
        pytest.param("cc" + PARENT[2:] + "-and more", PARENT, id="later, longer"),
        pytest.param("cc" + PARENT[2:] + ".", None, id="later, no dash"),
        pytest.param("ff" + PARENT[2:], None, id="forbidden version"),
        pytest.param(PARENT + "-00", None, id="longer than its version"),
        pytest.param(PARENT.upper(), None, id="upper case"),
        pytest.param(PARENT.replace(TRACE, "0" * 32), None, id="trace of zeros"),
        pytest.param(PARENT.replace(SPAN, "0" * 16), None, id="span of zeros"),
        pytest.param(PARENT.replace("-", "_"), None, id="no dashes"),
        pytest.param(PARENT[:-1], None, id="too short"),
        pytest.param(PARENT[:-1] + "g", None, id="not hexadecimal"),
        pytest.param(PARENT * 200, None, id="10 kB"),
        pytest.param("", None, id="empty"),
    ],
)
def test_a_parent_is_read_strictly(value: str, read: str | None) -> None:
    assert parent_of(value.encode()) == read == slow_parent(value.strip(" \t"))


@st.composite
def almost_parents(draw: st.DrawFn) -> str:
    """A `traceparent` of any version, with a few characters changed, lost or added."""
    digits = st.text("0123456789abcdef", min_size=2, max_size=2)
    version = draw(st.sampled_from(("00", "01", "ff")) | digits)
    value = [*f"{version}-{TRACE}-{SPAN}-{draw(digits)}{draw(st.sampled_from(ENDS))}"]
    for _ in range(draw(st.integers(0, 2))):
        place = draw(st.integers(0, len(value) - 1))
        value[place] = draw(st.sampled_from(("", "0", "f", "A", "-", " ", "é", "--")))
        value = [*"".join(value)] or ["-"]
    return "".join(value)


ENDS = ("", "", "-", "-00", "-x-y", "0", "\n")


@settings(max_examples=few(600), deadline=None)
@example(PARENT + "\n")
@given(almost_parents())
def test_a_parent_is_read_as_a_slow_reader_does(value: str) -> None:
    assert parent_of(value.encode()) == slow_parent(value.strip(" \t"))


@settings(max_examples=few(200), deadline=None)
@given(st.binary(max_size=140))
def test_an_id_is_visible_ascii_or_ignored(value: bytes) -> None:
    visible = (string.digits + string.ascii_letters + string.punctuation).encode()
    said = value.strip(b" \t")
    fits = 1 <= len(said) <= 128 and set(said) <= set(visible)
    ids = read_ids([(b"x-request-id", value)])
    assert ids == (make_ids(said, b"", b"") if fits else None)


def test_what_is_given_twice_is_ignored() -> None:
    twice = [(b"x-request-id", b"a"), (b"x-request-id", b"b")]
    parents = [(b"traceparent", PARENT.encode())] * 2
    assert read_ids(twice) is None
    assert read_ids(parents) is None
    assert read_ids([*twice, parents[0]]) == make_ids(b"", PARENT.encode(), b"")


def test_the_state_is_kept_beside_a_parent_alone() -> None:
    state = [(b"tracestate", b"a=1"), (b"tracestate", b"b=2")]
    parent = (b"traceparent", PARENT.encode())
    assert read_ids(state) is None
    read = read_ids([state[0], parent, state[1]])
    assert read == make_ids(b"", PARENT.encode(), b"a=1,b=2")
    assert read is not None
    assert read.trace_id == TRACE
    long = read_ids([parent, (b"tracestate", b"a=" + b"x" * 511)])
    assert long == make_ids(b"", PARENT.encode(), b"")


def test_usual_lines_are_read_as_others_are() -> None:
    """What is given back as it came, and what is put together anew."""
    for request_id in (b"", b"a-1"):
        for parent in (b"", PARENT.encode()):
            headers = [(b"x-request-id", request_id), (b"traceparent", parent)]
            came = [header for header in headers if header[1]]
            ids = read_ids(came)
            assert ids == read_ids(came[::-1]) == make_ids(request_id, parent, b"")
            if ids is not None:
                assert ids.headers() == came
                assert ids.lines == b"".join(b"%b: %b\r\n" % header for header in came)


def test_a_request_without_an_id_gets_one_and_keeps_its_trace() -> None:
    made = {with_request_id(None).request_id for _ in range(1000)}
    assert len(made) == 1000
    assert all(len(one) == 32 and set(one.decode()) <= HEX for one in made)
    traced = with_request_id(make_ids(b"", PARENT.encode(), b"a=1"))
    assert traced.traceparent == PARENT.encode()
    assert traced.tracestate == b"a=1"
    assert traced.lines.startswith(b"x-request-id: " + traced.request_id)
    own = make_ids(b"mine", b"", b"")
    assert with_request_id(own) is own
