"""How long one caller of large or strange bodies keeps a server from all others.

Every body is within the default limits and needs no token. One caller sends it again
and again; three others ask for usual items meanwhile, and one asks `/livez` every 5 ms.
The server has the last core, all callers the first. Statuses are of HTTP, or of gRPC,
which are below 20.

    silent_ms   the longest that `/livez` was without an answer
    in_time     of the three callers' requests, by their own clocks
    kept_MB     memory of the server after ten bodies in a row, beyond what it had
    most_MB     its largest memory meanwhile, beyond what it had
"""

import argparse
import base64
import contextlib
import http.client
import io
import itertools
import json
import multiprocessing
import os
import re
import selectors
import socket
import struct
import subprocess
import sys
import tempfile
import time
import zlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgpack
import numpy as np
from PIL import Image

from .. import report
from .indexes import record_index, usual_requests
from .saturation import Contender, free_port

LIMIT = 8 << 20
JSON, PACKED, LINES = "application/json", "application/msgpack", "application/jsonl"
GRPC, BEHIND, UNREAD = "gRPC", "requests behind one another", "unread"
INFER = "/inference.GRPCInferenceService/ModelInfer"
CONNECTIONS, BEHIND_BYTES = 40, 250_000
BUDGET_MS, EVERY_S, CALLERS = 50, 0.05, 3
PROBE_EVERY_S = 0.005
IN_A_ROW, PATIENCE_S = 10, 3.0
MANY = 20_000  # items of a batch, each of which is answered
CONTEXT = multiprocessing.get_context("fork")  # callers that begin at once


class Body(NamedTuple):
    """What one caller sends to a server of one kind of items.

    `content_type` is GRPC for a message of gRPC, and BEHIND or UNREAD for requests
    behind one another on 40 connections, whose answers are read or not.
    """

    name: str
    kind: str
    path: str
    content_type: str
    data: bytes


def fill(piece: bytes, less: int = 4096) -> bytes:
    """As many of a piece as a body can hold."""
    return piece * ((LIMIT - less) // len(piece))


def in_json(name: str) -> list[bytes]:
    """Records of every shape that JSON can have, each with one column."""
    return [b'{"record":{"%b":%b}}' % (name.encode(), value) for value in JSON_VALUES]


JSON_VALUES = (
    b"[%b1]" % fill(b"[],"),
    b"[%b1]" % fill(b"{},"),
    b"[%b1]" % fill(b"1,"),
    fill(b"["),
    fill(b"1"),
    b'"%b"' % fill(b"\\u0131"),
    b'"%b"' % fill(b'\\"'),
)
JSON_NAMES = ("lists", "objects", "numbers", "depth", "digits", "escapes", "quotes")
PACKED_RECORD: bytes = b"\x81" + msgpack.packb("record")


def packed(first: bytes, piece: bytes) -> bytes:
    """A record in msgpack with one column: an array or a map of many of a piece."""
    count = (LIMIT - 4096) // len(piece)
    name: bytes = msgpack.packb(record_index.COLUMNS[0])
    start = PACKED_RECORD + b"\x81" + name + first + count.to_bytes(4, "big")
    return start + piece * count


def records() -> Iterator[Body]:
    """Bodies for an index of records, at every entrance."""
    column, predict = record_index.COLUMNS[0], "/v1/predict"
    batch, oip = "/v1/batch?budget_ms=50", "/v2/models/records/infer"
    for name, data in zip(JSON_NAMES, in_json(column), strict=True):
        yield Body(f"JSON, {name}", "records", predict, JSON, data)
    pairs = b",".join([b'"%b":1' % column.encode()] * (LIMIT // 14))
    yield Body(
        "JSON, a column again", "records", predict, JSON, b'{"record":{%b}}' % pairs
    )
    again = b'{%b"record":{}}' % fill(b'"record":{},')
    yield Body("JSON, a record again", "records", predict, JSON, again)
    for name, data in (
        ("lists", packed(b"\xdd", b"\x90")),
        ("maps", packed(b"\xdd", b"\x80")),
        ("maps of one key", packed(b"\xdd", b"\x81\xa1a\x01")),
        ("numbers", packed(b"\xdd", b"\x01")),
        ("extensions", packed(b"\xdd", b"\xd4\x05a")),
        ("columns", PACKED_RECORD + b"\xdf\x00\x20\x00\x00" + fill(b"\xa1a\x01")),
        ("keys", b"\xdf\x00\x20\x00\x00" + fill(b"\xa1a\x01")),
    ):
        yield Body(f"msgpack, {name}", "records", predict, PACKED, data)
        yield Body(f"batch of msgpack, {name}", "records", batch, PACKED, data)
    lists = b'{"record":{"%b":%b}}' % (column.encode(), JSON_VALUES[0])
    yield Body("batch of JSON Lines, lists", "records", batch, LINES, lists)
    yield Body("batch of JSON Lines, empty", "records", batch, LINES, fill(b"\n"))
    yield Body("batch of JSON Lines, words", "records", batch, LINES, b"a\n" * MANY)
    yield Body("batch of msgpack, nothing", "records", batch, PACKED, b"\xc0" * MANY)
    whole = b'{"items":[%b],"budget_ms":50,"exact":false}'
    for name, items in (
        ("lists", lists),
        ("numbers", fill(b"1,") + b"1"),
        ("empty items", fill(b"{},") + b"{}"),
    ):
        yield Body(f"batch of JSON, {name}", "records", batch, JSON, whole % items)
    for name, datatype, shape, data in (
        ("lists", "BYTES", "[1]", b"[%b1]" % fill(b"[],")),
        ("a record of lists", "BYTES", "[1]", json.dumps([lists.decode()]).encode()),
        ("numbers", "FP64", "[1,14]", b"[%b1]" % fill(b"1,")),
        ("nulls", "BYTES", "[1]", b"[%bnull]" % fill(b"null,")),
    ):
        tensor = b'{"name":"record","datatype":"%b","shape":%b,"data":%b}' % (
            datatype.encode(),
            shape.encode(),
            data,
        )
        body = b'{"id":"a:b","inputs":[%b]}' % tensor
        yield Body(f"OIP, {name}", "records", oip, JSON, body[:LIMIT])
    many = b'{"inputs":[%b]}' % fill(b'{"name":"","shape":[],"datatype":""},')[:-1]
    yield Body("OIP, inputs", "records", oip, JSON, many)


def requests_behind() -> Iterator[Body]:
    """Requests of 40 connections that wait for no answer."""
    for name, path, way in (
        ("requests behind one another, nothing there", b"/x", BEHIND),
        ("requests behind one another, probes", b"/livez", BEHIND),
        ("requests behind one another, none read", b"/x", UNREAD),
    ):
        one = b"GET %b HTTP/1.1\r\nhost: x\r\n\r\n" % path
        yield Body(name, "records", "", way, one * (BEHIND_BYTES // len(one)))


def messages() -> Iterator[Body]:
    """Messages of gRPC, field by field as they are on the wire."""
    model = b"\x0a\x07records"
    for name, piece in (
        ("inputs", b"\x2a\x00"),
        ("outputs", b"\x32\x00"),
        ("parameters", b"\x22\x00"),
        ("raw contents", b"\x3a\x00"),
        ("unknown fields", b"\x78\x01"),
        ("unknown groups", b"\x7b\x7c"),
    ):
        yield Body(f"gRPC, {name}", "records", INFER, GRPC, model + fill(piece))
    ones = fill(b"\x01", 9999)
    for name, inside in (
        ("shape", _sized(b"\x1a", ones)),
        ("numbers", _sized(b"\x2a", _sized(b"\x12", ones))),
    ):
        data = model + _sized(b"\x2a", inside)
        yield Body(f"gRPC, {name} of an input", "records", INFER, GRPC, data)


def _sized(tag: bytes, data: bytes) -> bytes:
    """A field of protobuf with its length."""
    length, size = b"", len(data)
    while size >= 0x80:
        length += bytes([size & 0x7F | 0x80])
        size >>= 7
    return tag + length + bytes([size]) + data


def texts() -> Iterator[Body]:
    """Texts for an index of texts, each with the largest budget."""
    for name, piece in (
        ("zero-width joiners", "\u200d"),
        ("capital I with a dot", "\u0130"),
        ("capital sigmas", "\u03a3"),
        ("one word", "a"),
        ("words", "a "),
        ("digits", "1"),
        ("addresses", "a@"),
        ("tags", "<a"),
        ("marks", "!"),
    ):
        data = fill(piece.encode())
        path = "/v1/predict?budget_ms=1000"
        yield Body(f"text, {name}", "texts", path, "text/plain", data)
    quotes = b'{"text":"%b","budget_ms":null}' % fill(b'\\"\\u003a')
    yield Body("text in JSON, colons", "texts", "/v1/predict", JSON, quotes)
    lines = b'{"text":"%b"}' % fill(b"\xe2\x80\x8d")
    yield Body("batch, one text", "texts", "/v1/batch?budget_ms=50", LINES, lines)


def images() -> Iterator[Body]:
    """Images for an index of images, of every format, without a budget and with one."""
    made = hostile_images()
    for name, data in made.items():
        for budget_ms in (0, 1000):
            path = f"/v1/predict?budget_ms={budget_ms}"
            yield Body(f"{name}, {budget_ms} ms", "digits", path, "image/*", data)
    coded = base64.b64encode(made["JPEG, notes"][: LIMIT * 3 // 4 - 99])
    body = b'{"image_base64":"%b","budget_ms":50}' % coded
    yield Body("JPEG in JSON, notes", "digits", "/v1/predict", JSON, body)
    damaged = msgpack.packb({"image_base64": made["JPEG, cut off"]})
    yield Body(
        "batch, damaged images", "digits", "/v1/batch?budget_ms=50", PACKED, damaged
    )


def encoded(format: str, picture: Image.Image, **options: Any) -> bytes:
    file = io.BytesIO()
    picture.save(file, format, **options)
    return file.getvalue()


def chunk(kind: bytes, data: bytes = b"") -> bytes:
    """A piece of a PNG."""
    sum_ = zlib.crc32(kind + data)
    return struct.pack(">I4s", len(data), kind) + data + struct.pack(">I", sum_)


def hostile_images() -> dict[str, bytes]:
    """A name for each: what is repeated until the file is as long as may be."""
    noise = np.random.default_rng(0).integers(0, 256, (64, 64, 3), dtype=np.uint8)
    small, large = Image.fromarray(noise), Image.new("L", (7000, 7000))
    jpeg, png = encoded("JPEG", small), encoded("PNG", small)
    gif, pixels = encoded("GIF", small.quantize(16)), png.index(b"IDAT") - 4
    palette = 13 + (3 << (gif[10] & 7) + 1)
    slow = encoded("JPEG", large, progressive=True)
    scan = slow[slow.rindex(b"\xff\xda") : -2]
    in_jpeg = {
        "notes": b"\xff\xe1\0\2",
        "comments": b"\xff\xfe\0\2",
        "quantizers": b"\xff\xdb\0\2",
        "codes": b"\xff\xc4\0\2",
        "restarts": b"\xff\xd0",
        "fill bytes": b"\xff",
    }
    made = {
        f"JPEG, {n}": jpeg[:2] + fill(p, 9999) + jpeg[2:] for n, p in in_jpeg.items()
    }
    made["JPEG, scans"] = slow[:-2] + fill(scan, len(slow)) + slow[-2:]
    made["JPEG, 99 scans"] = slow[:-2] + scan * 85 + slow[-2:]
    made["JPEG, cut off"] = jpeg[:2] + fill(b"\xff\xe1\xff\xff" + bytes(65533), 9999)
    before = {"texts": chunk(b"tEXt", b"a\0b"), "empty pixels": chunk(b"IDAT")}
    before["packed texts"] = chunk(b"zTXt", b"a\0\0" + zlib.compress(bytes(10**6)))
    for name, piece in before.items():
        made[f"PNG, {name}"] = png[:pixels] + fill(piece, 99_999) + png[pixels:]
    made["PNG, texts behind"] = png[:-12] + fill(before["texts"], 99_999) + png[-12:]
    made["PNG, 49 million pixels"] = encoded("PNG", large)
    for name, piece in (
        ("extensions", b"!\xfe\0"),
        ("controls", b"!\xf9\4\1\0\0\0\0"),
        ("junk", b"a"),
    ):
        made[f"GIF, {name}"] = gif[:palette] + fill(piece, 9999) + gif[palette:]
    runs = struct.pack("<IiiHHIIiiII", 40, 2000, 2000, 1, 8, 1, *[0] * 5)
    runs = b"BM" + bytes(8) + struct.pack("<I", 1078) + runs + bytes(1024)
    made["BMP, runs"] = runs + fill(b"\1\5", 9999)
    frames = [Image.fromarray(noise[:16, :16] + k) for k in range(2)]
    webp = encoded("WEBP", frames[0], save_all=True, append_images=frames[1:])
    body = webp[12:] + fill(b"abcd\0\0\0\0", 9999)
    made["WebP, pieces"] = b"RIFF" + struct.pack("<I", len(body) + 4) + b"WEBP" + body
    return made


def ask(port: int, body: Body, timeout_s: float = PATIENCE_S) -> int:
    """Send a body; the status of the answer, as gRPC counts or HTTP, 0 without one."""
    if body.content_type == GRPC:
        return call(port + 1, body.data, timeout_s)
    if body.content_type in (BEHIND, UNREAD):
        return flood(port, body, timeout_s)
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=timeout_s)
    try:
        connection.request(
            "POST", body.path, body.data, {"content-type": body.content_type}
        )
        reply = connection.getresponse()
        reply.read()
        return reply.status
    except OSError:
        return 0
    finally:
        connection.close()


def call(port: int, data: bytes, timeout_s: float) -> int:
    """Send a message of gRPC over a new channel; its status."""
    import grpc

    with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
        try:
            channel.unary_unary(INFER)(data, timeout=timeout_s)
        except grpc.RpcError as error:
            return int(error.code().value[0])
    return 0


def flood(port: int, body: Body, timeout_s: float) -> int:
    """Write many requests on many connections at once; the status of the first."""
    with contextlib.ExitStack() as stack:
        asked = [
            stack.enter_context(
                socket.create_connection(("127.0.0.1", port), timeout_s)
            )
            for _ in range(CONNECTIONS)
        ]
        selector = stack.enter_context(selectors.DefaultSelector())
        left, first = {one: memoryview(body.data) for one in asked}, b""
        for one in asked:
            one.setblocking(False)
            selector.register(one, selectors.EVENT_READ | selectors.EVENT_WRITE)
        end_s = time.monotonic() + (1.0 if body.content_type == UNREAD else 0.3)
        while time.monotonic() < end_s:
            for key, mask in selector.select(0.01):
                connection: Any = key.fileobj
                with contextlib.suppress(OSError):
                    if mask & selectors.EVENT_WRITE and left[connection]:
                        rest = left[connection]
                        left[connection] = rest[connection.send(rest) :]
                    if mask & selectors.EVENT_READ and body.content_type == BEHIND:
                        first = first or connection.recv(1 << 16)[9:12]
                        connection.recv(1 << 16)
    return int(first or b"0")


def attack(port: int, body: Body, seconds: float, found: Any) -> None:
    """Send a body again and again."""
    end_s, statuses = time.monotonic() + seconds, []
    while time.monotonic() < end_s:
        statuses.append(ask(port, body))
    found.put(("attack", statuses))


def probe(port: int, seconds: float, found: Any) -> None:
    """Ask `/livez` over one connection; the longest that an answer took."""
    with contextlib.suppress(OSError):  # before others on this core, where it may
        os.nice(-10)
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    end_s, longest_s = time.monotonic() + seconds, 0.0
    while (now_s := time.monotonic()) < end_s:
        connection.request("GET", "/livez")
        connection.getresponse().read()
        longest_s = max(longest_s, time.monotonic() - now_s)
        time.sleep(PROBE_EVERY_S)
    found.put(("probe", longest_s))


def usual(port: int, bodies: Sequence[bytes], seconds: float, found: Any) -> None:
    """Ask for usual items at fixed times; how many answers came, and in time."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    began_s, answers, in_time = time.monotonic(), 0, 0
    while (now_s := time.monotonic()) < began_s + seconds:
        connection.request(
            "POST", "/v1/predict", bodies[answers % len(bodies)], {"content-type": JSON}
        )
        reply = connection.getresponse()
        reply.read()
        answers += 1
        in_time += reply.status == 200 and time.monotonic() - now_s <= BUDGET_MS / 1e3
        time.sleep(max(0.0, now_s + EVERY_S - time.monotonic()))
    found.put(("usual", (answers, in_time)))


def measure(
    server: Contender, body: Body | None, seconds: float
) -> dict[str, float | str]:
    """Attack a server with a body, or leave it alone, and ask it meanwhile."""
    found = CONTEXT.SimpleQueue()
    each: list[tuple[Callable[..., None], tuple[Any, ...]]] = [(probe, ())]
    each += [(usual, (server.bodies[:50],))] * CALLERS
    each += [] if body is None else [(attack, (body,))]
    processes = [
        CONTEXT.Process(target=work, args=(server.port, *more, seconds, found))
        for work, more in each
    ]
    before, most = server.memory_bytes(), 0
    for process in processes:
        process.start()
    while any(process.is_alive() for process in processes):
        most = max(most, server.memory_bytes())
        time.sleep(0.02)
    told = [found.get() for _ in processes]
    for _ in range(IN_A_ROW if body is not None else 0):
        assert body is not None
        ask(server.port, body)
    kept = server.memory_bytes() - before
    statuses = [s for what, own in told if what == "attack" for s in own]
    answers = np.array([own for what, own in told if what == "usual"])
    (longest_s,) = (own for what, own in told if what == "probe")
    row = {
        "body": "none" if body is None else body.name,
        "kB": 0 if body is None else len(body.data) // 1000,
        "sent": len(statuses),
        "status": ",".join(map(str, sorted(set(statuses)))),
        "silent_ms": longest_s * 1e3,
        "answers": int(answers[:, 0].sum()),
        "in_time": float(answers[:, 1].sum() / answers[:, 0].sum()),
        "kept_MB": kept / 1e6,
        "most_MB": (most - before) / 1e6,
    }
    print(json.dumps(row), file=sys.stderr)
    return row


def indexes(folder: Path, quick: bool) -> dict[str, list[bytes]]:
    """Write an index of each kind; usual requests for each, by its name."""
    record_index.write(folder, 50, quick)
    rows = json.loads((folder / record_index.ROWS).read_text())
    asked = {} if quick else usual_requests.write_indexes(folder)
    asks = {Path(n).stem: [json.loads(one) for one in own] for n, own in asked.items()}
    asks["records"] = [{"record": record_index.record(row)} for row in rows]
    return {
        name: [json.dumps(ask | {"budget_ms": BUDGET_MS}).encode() for ask in own]
        for name, own in asks.items()
    }


KINDS = {
    "records": (records, requests_behind, messages),
    "texts": (texts,),
    "digits": (images,),
}


def main(arguments: Sequence[str]) -> None:
    """Measure every body, each kind at a server of its own."""
    parser = report.options(__name__)
    parser.add_argument("--seconds", type=float, default=3.0, help="of each attack")
    parser.add_argument("--only", default="", help="bodies whose name matches this")
    parser.add_argument(
        "--python",
        type=Path,
        default=Path(sys.executable),
        help="one that another version is installed for, to measure that",
    )
    parser.add_argument("--write", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args(arguments)
    if given.write is not None:
        asked = indexes(given.write, given.quick)
        listed = {name: [one.decode() for one in own] for name, own in asked.items()}
        (given.write / "asked.json").write_text(json.dumps(listed))
        return
    if given.quick:
        given.seconds, given.only = 0.2, given.only or "^msgpack, lists"
    with tempfile.TemporaryDirectory() as folder:
        report.tell({"one caller": rows(given, Path(folder))}, given)


def rows(given: argparse.Namespace, folder: Path) -> list[dict[str, Any]]:
    """What came of each body."""
    own = [str(given.python), "-m", "benchmarks", "hostile_bodies", "--write"]
    quick = ["--quick"] if given.quick else []
    subprocess.run([*own, str(folder), *quick], check=True)
    asked = json.loads((folder / "asked.json").read_text())
    table = []
    for kind, makers in KINDS.items():
        if kind not in asked:
            continue
        port, usual_bodies = free_port(), [one.encode() for one in asked[kind]]
        server = Contender(kind, port, usual_bodies, "/v1/predict")
        command = [str(given.python), "-m", "polydom", "serve"]
        command += [str(folder / f"{kind}.pdx"), "--port", str(port)]
        command += ["--grpc-port", str(port + 1)]
        with server.started(command, folder):
            usual_requests.pin_to(server.process.pid, every=False)
            report.pin(0)
            table.append(measure(server, None, given.seconds))
            for body in itertools.chain.from_iterable(make() for make in makers):
                if re.search(given.only, body.name):
                    table.append(measure(server, body, given.seconds))
    return table
