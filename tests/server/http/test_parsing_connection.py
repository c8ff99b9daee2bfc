"""What is no request, or too long, is refused, however its bytes come; real sockets."""

import asyncio
import json
from typing import Any

import pytest

from polydom.server.http.protocol import HttpProtocol
from tests.server.http.test_protocol import GET, Echo, stamp, talk


def test_protocol_answers_garbage_as_the_rest_of_the_wire_does() -> None:
    async def ask(reader: Any, writer: Any, connections: Any) -> bytes:
        writer.write(b"what is this\r\n\r\n")
        return bytes(await reader.read())

    async def main() -> Any:
        return await talk(Echo(), ask)

    head, _, body = asyncio.run(main()).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 400")
    assert json.loads(body)["code"] == "bad_input"


@pytest.mark.parametrize(
    ("sent", "said"),
    [
        (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "this port answers HTTP/1.1"),
        (b"\x16\x03\x01\x00\xc8\x01\x00", "TLS came; this port answers http://"),
    ],
)
def test_protocol_says_what_came_to_the_wrong_port(sent: bytes, said: str) -> None:
    async def ask(reader: Any, writer: Any, connections: Any) -> bytes:
        writer.write(sent)
        return bytes(await reader.read())

    async def main() -> Any:
        return await talk(Echo(), ask)

    assert said in asyncio.run(main()).decode()


@pytest.mark.parametrize("cut", [3, 20, len(GET) - 1])
def test_protocol_answers_any_number_of_requests_in_one_read(cut: int) -> None:
    count = (HttpProtocol.head_limit << 1) // len(GET)

    async def ask(reader: Any, writer: Any, connections: Any) -> int:
        while not connections:
            await asyncio.sleep(0)
        (connection,) = connections
        # as one read may bring them: the last one is cut off within its head
        connection.data_received(GET * count + GET[:cut])
        connection.data_received(GET[cut:])
        return len([await stamp(reader) for _ in range(count + 1)])

    async def main() -> Any:
        return await talk(Echo(), ask)

    assert asyncio.run(main()) == count + 1


@pytest.mark.parametrize("before", [0, 1, 3000])
def test_protocol_refuses_a_long_head_behind_any_number_of_requests(
    before: int,
) -> None:
    async def ask(reader: Any, writer: Any, connections: Any) -> bytes:
        while not connections:
            await asyncio.sleep(0)
        (connection,) = connections
        connection.data_received(GET * before + GET[:-2] + b"x: ")
        for _ in range(5):
            connection.data_received(b"y" * (HttpProtocol.head_limit // 4))
        for _ in range(before):
            await stamp(reader)
        return bytes(await reader.read())

    async def main() -> Any:
        return await talk(Echo(), ask)

    head, _, body = asyncio.run(main()).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 400")
    assert json.loads(body)["code"] == "bad_input"


@pytest.mark.parametrize("whole", [False, True])
def test_protocol_refuses_more_headers_than_anybody_needs(whole: bool) -> None:
    limit = HttpProtocol.header_limit
    more = b"".join(b"%d:\r\n" % number for number in range(limit))
    end = b"\r\n" if whole else b""

    async def ask(reader: Any, writer: Any, connections: Any) -> bytes:
        writer.write(GET[:-2] + more[: -len(b"255:\r\n")] + b"\r\n")
        await stamp(reader)
        # the parser tells of a header once something follows
        writer.write(GET[:-2] + more + b"x:\r\n" + end)
        return bytes(await reader.read())

    async def main() -> Any:
        return await talk(Echo(), ask)

    head, _, body = asyncio.run(main()).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 400")
    assert json.loads(body)["error"] == f"there are more than {limit} headers"
