"""What is a remote embedding worth within a budget, if it comes late or soon?

python -m benchmarks remote                   photographs of scenes; some minutes
python -m benchmarks remote --cache FOLDER    keeps the vectors and both indexes

A service of embeddings on loopback has the vectors that a network of photographs makes
(EfficientNet-Lite0), and answers each photograph after a latency that was drawn for it.
Photographs that no build has seen are sent to real servers, one at a time over one
connection, within seven budgets. All is measured at the client: a late answer is wrong.

    polydom          asks for the vector, computes other features meanwhile, and answers
                     by the best of what is there
    without          the same index, whose fetch is not offered
    built-without    an index that was built without the fetch
    waits for it     answers by the best set with the vector, whenever that comes
    at its best      by that set if the vector comes within the budget, and by the best
                     set without it if it does not; as if nothing else took any time

The last two are computed from the same latencies, and are bounds: no server can be as
fast.
"""

import argparse
import asyncio
import contextlib
import hashlib
import json
import tempfile
from base64 import b64decode, b64encode
from collections.abc import Iterator, Mapping, Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from polydom.indexer import Index, build
from polydom.indexer.building.data.read_items import load_data
from polydom.indexer.building.project import Project
from polydom.indexer.building.project_tables.fetches import FetchTerms
from polydom.indexer.index.fetches.stored_fetches import needs_of, withheld_by

from .. import report
from ..fine_selector import FineSelector
from ..peers.whole_network import SIDES, WholeNetwork
from ..report import CORES, pin
from ..serving.headline import Way, ask
from ..serving.indexes.image_sets import (
    ImageSet,
    as_bytes,
    network_file,
    prepare,
)
from ..serving.served import CONTEXT, serving, started
from .mix import BUDGETS_MS, SETTINGS, serve_polydom
from .sources import SEED, LogNormal

FETCH = "embedding"
LAW = LogNormal(12, 90)
ASKED, QUICK_ASKED = 400, 8
AT_MOST_MS = 500
POLYDOM, WITHOUT, BUILT_WITHOUT = "polydom", "without", "built-without"

Floats = NDArray[np.float32]


class Vectors(NamedTuple):
    """Vectors of photographs, and when each comes.

    `digests` (N, 16) are of the photographs' bytes.
    """

    digests: NDArray[np.uint8]
    vectors: Floats  # (N, W)
    latencies_s: NDArray[np.float64]  # (N,)

    @property
    def places(self) -> dict[bytes, int]:
        """Positions of the photographs by their digests."""
        return {one.tobytes(): k for k, one in enumerate(self.digests)}


def digest(photo: bytes) -> bytes:
    """Return what tells a photograph from others."""
    return hashlib.blake2b(photo, digest_size=16).digest()


def vectors_of(network: Path, photos: Sequence[bytes], kept: Path) -> Vectors:
    """Return the network's vectors of photographs, computed once, and latencies."""
    if not kept.exists():
        found = WholeNetwork(network).columns(photos, SIDES[-1])
        digests = np.array([[*digest(one)] for one in photos], np.uint8)
        np.savez(kept, allow_pickle=False, digests=digests, vectors=found)
    with np.load(kept) as arrays:
        digests, vectors = arrays["digests"], arrays["vectors"]
    latencies_s = LAW.draw(np.random.default_rng(SEED), len(vectors))
    return Vectors(digests, vectors, latencies_s)


@contextlib.contextmanager
def service(kept: Path, latencies_s: NDArray[np.float64]) -> Iterator[int]:
    """Run a service of embeddings in a process of its own; its port."""
    near, far = CONTEXT.Pipe()
    core = 0 if len(CORES) > 1 else None
    process = CONTEXT.Process(
        target=_run, args=(far, core, kept, latencies_s), daemon=True
    )
    process.start()
    try:
        yield int(near.recv())
    finally:
        process.kill()
        process.join()


def _run(
    pipe: Connection, core: int | None, kept: Path, latencies_s: NDArray[np.float64]
) -> None:
    if core is not None:
        pin(core)
    with np.load(kept) as arrays:
        digests, vectors = arrays["digests"], arrays["vectors"]
    keys = [one.tobytes() for one in digests]
    written = [b64encode(one.astype("<f4").tobytes()).decode() for one in vectors]
    told = zip(latencies_s.tolist(), written, strict=True)
    known = dict(zip(keys, told, strict=True))
    with asyncio.Runner(
        loop_factory=lambda: asyncio.SelectorEventLoop(FineSelector())
    ) as runner:
        runner.run(_serve(pipe, known))


async def _serve(pipe: Connection, known: Mapping[bytes, tuple[float, str]]) -> None:
    loop = asyncio.get_running_loop()
    listener = await loop.create_server(lambda: _Connection(known), "127.0.0.1", 0)
    pipe.send(listener.sockets[0].getsockname()[1])
    await listener.serve_forever()


class _Connection(asyncio.Protocol):
    """A kept connection with one request under way, as HTTP clients use it."""

    transport: asyncio.Transport

    def __init__(self, known: Mapping[bytes, tuple[float, str]]) -> None:
        self._known = known
        self._received = bytearray()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self._received += data
        head, blank, body = bytes(self._received).partition(b"\r\n\r\n")
        length = head.lower().partition(b"content-length:")[2].partition(b"\r\n")[0]
        if not blank or len(body) < int(length):
            return
        self._received.clear()
        given = json.loads(body)["input"]
        found = [self._known[digest(b64decode(one["image"]))] for one in given]
        loop, delay_s = asyncio.get_running_loop(), max(one[0] for one in found)
        loop.call_later(delay_s, self._answer, [one[1] for one in found])

    def _answer(self, vectors: Sequence[str]) -> None:
        data = [{"index": k, "embedding": one} for k, one in enumerate(vectors)]
        body = json.dumps({"data": data})
        head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length:"
        self.transport.write(f"{head} {len(body)}\r\n\r\n{body}".encode())


def build_index(
    name: str, project: Project, folder: Path, port: int, width: int
) -> Path:
    """Build the index whose vectors the service brings; its file."""
    path, calls = folder / f"{name}-remote.pdx", folder / "fetches.toml"
    calls.write_text(
        f'[{FETCH}]\nembeddings = "http://127.0.0.1:{port}/v1/embeddings"\n'
        f'kind = "image"\nwidth = {width}\nat_most_ms = {AT_MOST_MS}\nbatch = 1\n'
    )
    if not path.exists():
        terms = {FETCH: FetchTerms(source=str(calls.absolute()))}
        changed = msgspec.structs.replace(project, fetches=terms)
        build(changed, output=path, cache=folder / f"{name}-remote")
    return path


def bounds(
    path: Path, images: ImageSet, vectors: Vectors
) -> tuple[NDArray[np.bool_], NDArray[np.bool_], NDArray[np.float64]]:
    """Return whether the best sets with and without the vector are right, (N,) each.

    The third are the latencies of the photographs' vectors in milliseconds.
    """
    index = Index.load(path)
    package = index.package
    assert package is not None
    extractor, places = package.extractor(), vectors.places
    own = [places[digest(as_bytes(item))] for item in images.items]
    asked = zip(images.items, own, strict=True)
    items = [replace(item, brought={FETCH: vectors.vectors[k]}) for item, k in asked]
    rows = np.array([extractor.extract(item) for item in items], float)
    codes = np.array([package.labels.index(label) for label in images.labels])
    needing = withheld_by(needs_of(package.features, package.fetches), 0)
    apart = [mask & needing == 0 for mask in package.masks.tolist()]
    qualities = index.qualities
    chosen = (
        int(np.where(apart, -1.0, qualities).argmax()),
        int(np.where(apart, qualities, -1.0).argmax()),
    )
    with_it, alone = (package.models[row].predict(rows) == codes for row in chosen)
    return with_it, alone, 1e3 * vectors.latencies_s[own]


def measure(given: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """Ask for all photographs within all budgets, in a drawn order."""
    name = "few" if given.quick else "scenes"
    count = QUICK_ASKED if given.quick else ASKED
    budgets_ms = BUDGETS_MS[1::3] if given.quick else BUDGETS_MS
    usual = prepare(name, folder, count)
    network, kept = network_file(name, folder), folder / f"{name}-vectors.npz"
    items = [*load_data(usual.project).items, *usual.items]
    photos = [as_bytes(item) for item in items]
    vectors = vectors_of(network, [*dict.fromkeys(photos)], kept)
    with contextlib.ExitStack() as stack:
        port = stack.enter_context(service(kept, vectors.latencies_s))
        width = vectors.vectors.shape[1]
        path = build_index(name, usual.project, folder, port, width)
        calls = folder / "fetches.toml"
        own = stack.enter_context(started(serve_polydom, path, calls))
        others = {WITHOUT: path, BUILT_WITHOUT: usual.path}
        other = stack.enter_context(serving(others, SETTINGS))
        ports = {path.stem: own, **dict.fromkeys(others, other)}
        asked = [(who, budget_ms) for who in ports for budget_ms in budgets_ms]
        ways = [Way(who, budget_ms, ports[who]) for who, budget_ms in asked]
        answers = ask(ways, usual, 1 if given.quick else given.rounds)
    with_it, alone, late_ms = bounds(path, usual, vectors)
    rows = []
    for k, budget_ms in enumerate(budgets_ms):
        row: dict[str, float] = {"budget ms": budget_ms}
        for place, who in enumerate((POLYDOM, *others)):
            found = answers.within(place * len(budgets_ms) + k, budget_ms)
            row[who], row[f"{who}, in time"] = found
        came = late_ms <= budget_ms
        row |= {"waits for it": float((with_it & came).mean())}
        row |= {"at its best": float(np.where(came, with_it, alone).mean())}
        rows.append(row | {"came by then": float(came.mean())})
    return {"right and in time": rows}


def main(arguments: list[str] | None = None) -> None:
    """Run the benchmark."""
    parser = report.options(__name__, data=True)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--cache", type=Path, help="keep vectors and indexes here")
    given = parser.parse_args(arguments)
    if not given.quick:
        report.need(given, "scene15", "networks")
    with tempfile.TemporaryDirectory() as made:
        folder = given.cache or Path(made)
        folder.mkdir(parents=True, exist_ok=True)
        report.tell(measure(given, folder), given)
