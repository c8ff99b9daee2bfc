"""Of many requests on a connection, those that came last are answered; real sockets."""

import asyncio
from typing import Any

import httptools
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from polydom.server.http.raw_request import ends_of
from polydom.server.http.reply import RawReplies
from tests.server.http.test_protocol import GET, Mirror, requests, talk
from tests.support.examples import few

QUICK = b"POST /quick HTTP/1.1\r\nhost: x\r\ncontent-length: %d\r\n\r\n%b"
LAST = b"GET /last HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n"


class Slow:
    """The positions at which requests end, by the parser, a byte at a time."""

    def __init__(self) -> None:
        self.ends, self.at = list[int](), 0

    def on_message_complete(self) -> None:
        self.ends.append(self.at)

    def of(self, data: bytes) -> list[int]:
        parser = httptools.HttpRequestParser(self)
        for at in range(len(data)):
            self.at = at + 1
            parser.feed_data(data[at : at + 1])
        return self.ends


@settings(max_examples=few(300), deadline=None)
@given(st.lists(requests(), max_size=6), st.data())
def test_ends_are_the_parsers_or_unknown(drawn: Any, data: st.DataObject) -> None:
    whole = b"".join(sent for sent, _ in drawn)
    cut = whole[: data.draw(st.integers(0, len(whole)))]
    found = ends_of(b"before" + cut, len(b"before"))
    if found:
        assert [end - len(b"before") for end in found] == Slow().of(cut)


@settings(max_examples=few(100), deadline=None)
@given(st.lists(st.binary(max_size=30), max_size=20))
def test_usual_requests_have_ends(bodies: list[bytes]) -> None:
    plain = [body.replace(b"\n", b"").replace(b":", b"") for body in bodies]
    sent = b"".join(QUICK % (len(body), body) for body in plain)
    assert ends_of(sent, 0) == Slow().of(sent)
    assert len(ends_of(sent, 0)) == len(bodies)


@pytest.mark.parametrize(
    "odd",
    [
        GET.replace(b"GET", b"HEAD"),
        GET.replace(b"\r\n\r\n", b"\r\nconnection: close\r\n\r\n"),
        GET.replace(b"\r\n\r\n", b"\r\nexpect: 100-continue\r\n\r\n"),
        GET.replace(b"\r\n\r\n", b"\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
        GET.replace(b"\r\n\r\n", b"\r\nContent-Length: x\r\n\r\n"),
        GET.replace(b"\r\n\r\n", b"\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\n"),
        GET.replace(b"\r\n\r\n", b"\n\n"),
        b"\r\n" + GET,
    ],
)
def test_what_is_not_simple_is_left_to_the_parser(odd: bytes) -> None:
    assert ends_of(GET * 3, 0) == [len(GET), 2 * len(GET), 3 * len(GET)]
    assert ends_of(GET + odd + GET, 0) == []


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
