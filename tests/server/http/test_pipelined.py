"""Of many requests on a connection, those that came last are answered; real sockets."""

import asyncio
import contextlib
from typing import Any

import httptools
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from polydom.server.http.raw_request import LONGEST_HEAD, ends_of
from polydom.server.http.reply import RawReplies
from tests.server.http.test_protocol import GET, Mirror, in_chunks, talk
from tests.support.examples import few

QUICK = b"POST /quick HTTP/1.1\r\nhost: x\r\ncontent-length: %d\r\n\r\n%b"
POST = GET.replace(b"GET", b"POST")
LAST = b"GET /last HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n"


class Slow:
    """The positions at which requests end, by the parser, a byte at a time."""

    def __init__(self) -> None:
        self.ends, self.at = list[int](), 0

    def on_message_complete(self) -> None:
        self.ends.append(self.at)

    def of(self, data: bytes) -> list[int]:
        """Those until the parser understands no more."""
        parser = httptools.HttpRequestParser(self)
        with contextlib.suppress(httptools.HttpParserError):
            for at in range(len(data)):
                self.at = at + 1
                parser.feed_data(data[at : at + 1])
        return self.ends


BODIES = st.one_of(
    st.binary(max_size=30),
    st.sampled_from(
        [b"\r\n\r\n", b"\n\n", b"head of expect: 1", GET, QUICK % (1, b"x")]
    ),
)
usual = BODIES.map(lambda body: QUICK % (len(body), body))
STARTS = [*[b"POST /x HTTP/1.1"] * 6, b"GET /x HTTP/1.1", b"HEAD /x HTTP/1.1"]
STARTS += [b"POST /x HTTP/1.0", b"PUT /x HTTP/1.1", b"POST  /x HTTP/1.1", b"post /x"]
LINES = [
    *[b"content-length: %d"] * 8,
    *[b"Content-Length:%d", b"content-length: %d ", b"content-length: 0%d"] * 2,
    *[b"content-length: +%d", b"content-length : %d", b"content-length: %d, %d"],
    *[b"content-length: 9%d", b"content-length: 99999999999999999999%d"],
    *[b"content-length: -%d", b"content-length: ", b"x: content-length: %d"],
    *[b"transfer-encoding: chunked", b"Transfer-Encoding: identity", b"expect: x"],
    *[b"Expect: 100-continue", b"connection: keep-alive", b"connection: close"],
    *[b"Connection: Upgrade", b"upgrade: h2c", b"x: y", b"x:", b" folded: %d"],
    *[b"x_y-Z: \xe9", b"x: \0", b": y", b"", b"x: " + b"y" * LONGEST_HEAD],
]
BREAKS = [*[b"\r\n"] * 30, b"\n", b"\r", b"\r\r\n"]


@st.composite
def wild(draw: st.DrawFn) -> bytes:
    """A request that may be wrong in any way."""
    body = draw(BODIES)
    size = max(len(body) + draw(st.sampled_from([0, 0, 0, 0, -1, 1])), 0)
    lines = draw(st.lists(st.sampled_from(LINES), max_size=3))
    said = [line % ((size,) * line.count(b"%d")) for line in lines]
    head = b"".join(
        line + draw(st.sampled_from(BREAKS))
        for line in [draw(st.sampled_from(STARTS)), *said, b""]
    )
    if draw(st.booleans()) and b"transfer-encoding: chunked" in said:
        body = in_chunks(body, draw(st.integers(1, 9)), b"")
    return draw(st.sampled_from([b"", b"", b"", b"\r\n"])) + head + body


@settings(max_examples=few(2000), deadline=None)
@given(st.lists(st.one_of(usual, usual, wild()), max_size=6), st.data())
def test_ends_are_the_parsers_or_unknown(
    drawn: list[bytes], data: st.DataObject
) -> None:
    whole = b"".join(drawn)
    cut = whole[: data.draw(st.integers(0, len(whole)))]
    found = [end - len(b"before") for end in ends_of(b"before" + cut, len(b"before"))]
    assert found == Slow().of(cut)[: len(found)]


@settings(max_examples=few(100), deadline=None)
@given(st.lists(BODIES, max_size=20), st.data())
def test_usual_requests_have_ends(bodies: list[bytes], data: st.DataObject) -> None:
    sent = b"".join(QUICK % (len(body), body) for body in bodies)
    cut = sent[: data.draw(st.integers(0, len(sent)))]
    assert ends_of(cut, 0) == Slow().of(cut)


@pytest.mark.parametrize(
    "odd",
    [
        GET,
        GET.replace(b"GET", b"HEAD"),
        POST.replace(b"/", b"/v1/admin/reload"),
        POST.replace(b"\r\n\r\n", b"\r\nconnection: close\r\n\r\n"),
        POST.replace(b"\r\n\r\n", b"\r\nexpect: 100-continue\r\n\r\n"),
        POST.replace(b"\r\n\r\n", b"\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
        POST.replace(b"\r\n\r\n", b"\r\nContent-Length: x\r\n\r\n"),
        POST.replace(
            b"\r\n\r\n", b"\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\n"
        ),
        POST.replace(b"\r\n\r\n", b"\n\n"),
        b"\r\n" + POST,
    ],
)
def test_what_is_not_simple_or_never_refused_is_left_to_the_parser(odd: bytes) -> None:
    assert ends_of(POST * 3, 0) == [len(POST), 2 * len(POST), 3 * len(POST)]
    assert ends_of(POST + odd + POST, 0) == []


@pytest.mark.parametrize("room", [1, 3, 49, 50, 99])
def test_the_last_requests_are_answered_and_the_first_refused(room: int) -> None:
    app, refused = Mirror(), list[int]()
    sent = b"".join(QUICK % (2, b"%02d" % number) for number in range(50))

    async def ask(reader: Any, writer: Any, connections: Any) -> list[bytes]:
        writer.write(sent)
        said = []
        for _ in range(50):
            head = await reader.readuntil(b"\r\n\r\n")
            length = int(head.partition(b"content-length: ")[2].partition(b"\r")[0])
            said.append(head[9:12] + await reader.readexactly(length))
        writer.write(LAST)
        assert (await reader.read()).startswith(b"HTTP/1.1 200")
        return said

    async def main() -> Any:
        state = app.state(60.0)
        admission = state["admission"]
        admission.room_behind = lambda *_: room  # a part of the server's time
        state["replies"] = RawReplies(refused.append)
        return await talk(app, ask, state=state)

    said = asyncio.run(main())
    answered = min(room, 50)
    assert [reply[:3] for reply in said[: 50 - answered]] == [b"429"] * (50 - answered)
    assert said[50 - answered :] == [
        b"200POST /quick %02d" % number for number in range(50 - answered, 50)
    ]
    assert sum(refused) == 50 - answered
