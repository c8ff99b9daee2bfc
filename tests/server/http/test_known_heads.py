"""What is remembered of a head is what the parser finds in it, whatever ids it has."""

from typing import Any

import httptools
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from polydom.server.http import known_heads
from polydom.server.http.known_heads import KnownHeads
from polydom.server.http.raw_request import END, LONGEST_HEAD, IncomingRequest
from polydom.server.schema.request_ids import NAMES
from tests.support.examples import few

POST = b"POST /v1/predict?a=b HTTP/1.1\r\nhost: x\r\n"
NAME = ("X-Request-ID", "x-request-id", "traceparent", "TraceState", "x-requests")
OTHER = ("host", "Accept", "x-budget-ms", "x", "tracepare", "cookie")
VALUES = ("", "a", "7-f", "a: b", "x-request-id: 9", "\t c ", "ä", "a\x01b", "b\r\n c")


class Parsed:
    """One request, by the parser: what its callbacks are called with."""

    def __init__(self, data: bytes) -> None:
        self.headers, self.body = list[tuple[bytes, bytes]](), b""
        self.target, self.count = b"", 0
        parser = httptools.HttpRequestParser(self)
        parser.feed_data(data)
        self.keeps = parser.should_keep_alive()

    def on_url(self, url: bytes) -> None:
        self.target += url

    def on_header(self, name: bytes, value: bytes) -> None:
        self.headers.append((name.lower(), value))

    def on_body(self, body: bytes) -> None:
        self.body += body

    def on_message_complete(self) -> None:
        self.count += 1

    def request(self) -> IncomingRequest:
        """The same, as the protocol knows it after it answered."""
        _, _, query = self.target.partition(b"?")
        request = IncomingRequest(0.0, self.target, query, self.headers)
        request.direct, request.keeps = bool, bool(self.keeps)
        return request


@st.composite
def posts(draw: st.DrawFn) -> bytes:
    names = st.sampled_from(draw(st.sampled_from([NAME, OTHER, NAME + OTHER])))
    lines = draw(st.lists(st.tuples(names, st.sampled_from(VALUES)), max_size=5))
    body = draw(st.sampled_from([b"{}", b"[1]", b"\r\n\r\n"]))
    lines.insert(draw(st.integers(0, len(lines))), ("content-length", f"{len(body)}"))
    space = draw(st.sampled_from(["", " ", "\t "]))
    said = "".join(f"{name}:{space}{value}\r\n" for name, value in lines)
    return POST + said.encode("latin-1") + b"\r\n" + body


@settings(max_examples=few(600), deadline=None)
@given(st.lists(posts(), min_size=1, max_size=6), st.binary(max_size=3))
def test_a_known_head_is_what_the_parser_finds(sent: list[bytes], more: bytes) -> None:
    heads = KnownHeads()
    for data in [*sent, *sent]:
        end = data.find(END)
        known = heads.find(data, end)
        try:
            parsed = Parsed(data)
        except httptools.HttpParserError:
            assert known is None
            continue
        assert parsed.count == 1
        if known is None:
            heads.learn(data, end, parsed.request())
            known = heads.find(data, end)
            if known is None:  # an id's line is left to the parser
                assert any(name in NAMES for name, _ in parsed.headers)
                continue
        assert known.query == b"a=b"
        assert sorted(trimmed(known.headers)) == sorted(trimmed(parsed.headers))
        assert data[end + len(END) :] == parsed.body
        ids = [one for one in parsed.headers if one[0] in NAMES]
        naming = known.naming
        assert trimmed([*zip(naming[::2], naming[1::2], strict=True)]) == trimmed(ids)
        assert parsed.keeps
        # what has a byte less or more is left to the parser
        assert heads.find(data[:-1], end) is None
        assert not more or heads.find(data + more, end) is None


def trimmed(headers: list[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    return [(name, value.strip(b" \t")) for name, value in headers]


def usual(body: bytes = b"{}", lines: bytes = b"") -> bytes:
    return POST + lines + b"content-length: %d\r\n\r\n%b" % (len(body), body)


def learned(data: bytes, **changes: Any) -> KnownHeads:
    heads, request = KnownHeads(), Parsed(data).request()
    for name, value in changes.items():
        setattr(request, name, value)
    heads.learn(data, data.find(END), request)
    return heads


def is_known(heads: KnownHeads, data: bytes) -> bool:
    return heads.find(data, data.find(END)) is not None


@pytest.mark.parametrize(
    "lines",
    [
        b"x-request-id: %b\r\n",
        b"X-Request-ID:\t%b\r\n",
        b"traceparent:%b\r\nx-request-id: 7\r\n",
    ],
)
def test_ids_differ_from_request_to_request(lines: bytes) -> None:
    first = b"0af7651916cd43dd-01"
    heads = learned(usual(lines=lines % first))
    assert is_known(heads, usual())
    for value in (first, b"1", b"f" * 128):
        assert is_known(heads, usual(lines=lines % value))
    for value in (b"", b"a b", b"a\r\n b", b"\x01", b"f" * 129):
        assert not is_known(heads, usual(lines=lines % value))
    assert not is_known(heads, usual(lines=2 * (lines % first)))
    assert not is_known(heads, usual(b"[0]", lines=lines % first))


@pytest.mark.parametrize(
    "changes",
    [
        {"direct": None},
        {"keeps": False},
        {"headers": [(b"transfer-encoding", b"chunked")]},
        {"headers": [(b"content-length", b"1")]},
    ],
)
def test_nothing_is_assumed_of_unusual_requests(changes: dict[str, Any]) -> None:
    assert not is_known(learned(usual(), **changes), usual())


def test_probes_are_left_to_the_parser() -> None:
    probe = b"GET /livez HTTP/1.1\r\nhost: x\r\n\r\n"
    assert not is_known(learned(probe), probe)


def test_few_and_short_heads_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(known_heads, "MOST_NAMES", 2)
    long = usual(lines=b"a: " + b"b" * LONGEST_HEAD + b"\r\n")
    assert not is_known(learned(long), long)
    monkeypatch.setattr(known_heads, "MOST", 3)
    heads = KnownHeads()
    for length in range(10):
        data = usual(b"1" * length, b"x-request-id:%b1\r\n" % (b" " * length))
        heads.learn(data, data.find(END), Parsed(data).request())
        assert is_known(heads, data)
        assert len(heads._known) <= 3
        assert len(heads._starts) <= 2
