"""Requests as bytes on a socket, and what comes back."""

import contextlib
import json
import re
import socket

from tests.support.processes.servers import STOP_S

JSON = b"application/json"
# Paths, tracebacks and classes are nobody's business.
INSIDE = re.compile(r"Traceback|File \"|\.py\b|/[a-z]+/[a-z]+/|\w(Error|Exception)\b")


def send(port: int, *pieces: bytes) -> bytes:
    """All that comes back on one connection until the server closes it."""
    got = b""
    with socket.create_connection(("127.0.0.1", port), STOP_S) as connection:
        with contextlib.suppress(OSError):  # it may have had enough already
            for piece in pieces:
                connection.sendall(piece)
        with contextlib.suppress(ConnectionResetError):
            while more := connection.recv(1 << 16):
                got += more
    return got


def request(
    path: bytes, body: bytes, *lines: bytes, kind: bytes = JSON, close: bool = True
) -> bytes:
    head = [b"POST %b HTTP/1.1" % path, b"host: x", b"content-type: " + kind, *lines]
    head += [b"content-length: %d" % len(body)]
    head += [b"connection: close"] * close
    return b"\r\n".join([*head, b"", body])


def statuses(replies: bytes) -> list[int]:
    """Of every answer on a connection, in order."""
    return [int(found) for found in re.findall(rb"HTTP/1\.1 (\d+) ", replies)]


def failure(reply: bytes) -> tuple[int, str]:
    """Status and code of the only answer, which is an error in the usual form."""
    (status,) = statuses(reply)
    head, _, body = reply.partition(b"\r\n\r\n")
    assert b"content-type: application/json" in head
    said = json.loads(body)
    assert said.keys() == {"error", "code"}
    assert said["error"]
    assert not INSIDE.search(said["error"]), said
    return status, said["code"]
