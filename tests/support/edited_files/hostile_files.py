"""Index files with a right checksum that are made to hurt who loads them.

Run as a program it loads each file named, and prints in what processor time it was
refused or loaded, how many bytes of memory that took, and what was said. The first is
to be sound: what is loaded once, whatever the file, is no part of the others.
"""

import hashlib
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from polydom.features.errors import BadIndexFile
from polydom.indexer.index.file import pdx_file
from polydom.indexer.index.file.pdx_file import read_file, write_file
from polydom.indexer.index.index import Index

Make = Callable[[Path], object]
MIB = 1 << 20
LOUD = "\x1b[2J\nERROR\u202e" * 1000


def sealed(path: Path, header: bytes, body: bytes = b"") -> Path:
    """Write a right preamble and checksum around a header, padded, and a body."""
    padded = header + b"\xc1" * (-len(header) % 64)
    size = 64 + len(padded) + len(body)
    facts = pdx_file._FACTS.pack(
        pdx_file.MAGIC, pdx_file.FORMAT_VERSION, 0, len(padded), size
    )
    digest = hashlib.sha256(padded + body + facts).digest()
    path.write_bytes(facts + digest + padded + body)
    return path


def of_meta(meta: bytes) -> Make:
    """A file without arrays whose `meta` holds these bytes as "x"."""
    header = b"\x82\xa4meta\x81\xa1x" + meta + b"\xa6arrays\x90"
    return lambda path: sealed(path, header)


def of_section(name: str, dtype: str, shape: list[int]) -> Make:
    """A file whose header lists one array, at its place, and which has no bytes."""

    def make(path: Path) -> None:
        start, header = 0, b""
        while start != 64 + len(header) + -len(header) % 64:
            start = 64 + len(header) + -len(header) % 64
            section = [name, dtype, shape, start]
            header = msgspec.msgpack.encode({"meta": {}, "arrays": [section]})
        sealed(path, header)

    return make


def many(count: int, each: bytes) -> bytes:
    """A list of so many times the same."""
    return b"\xdd" + count.to_bytes(4, "big") + each * count


def edited(change: Callable[[dict[str, Any], dict[str, Any]], object]) -> Make:
    """The tiny index, after `change` of its plain data and arrays."""

    def make(path: Path) -> None:
        from tests.support.indexes import served

        served.make_index().save(path)
        meta, arrays, _ = read_file(path)
        change(meta, arrays)
        write_file(path, meta, arrays)

    return make


def sharing_leaves(meta: dict[str, Any], arrays: dict[str, Any]) -> None:
    """Make the last model a tree whose leaves all have the first one's values."""
    from sklearn.tree import DecisionTreeClassifier

    from polydom.models.importers.compile_model import compile_model

    X = np.arange(32.0).reshape(8, 4)
    tree = DecisionTreeClassifier().fit(X, [0, 1] * 4)
    made = compile_model(tree, np.arange(4, dtype=np.int32)).arrays()
    made["nodes"] = made["nodes"].copy()
    for name in [name for name in arrays if name.startswith("models/3/")]:
        del arrays[name]
    parts = {name: np.asarray(array) for name, array in made.items()}
    parts["nodes"] = _leaves_at_first(parts["nodes"])
    parts["leaves"] = parts["leaves"][:1]
    arrays |= {f"models/3/{name}": array for name, array in parts.items()}
    meta["package"]["model_kinds"][3] = "trees"


def _leaves_at_first(nodes: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    from polydom.models.trees.nodes import NODE

    view = nodes.copy().view(NODE)
    view["child"][view["column"] < 0] = 0
    return view.view(nodes.dtype)


def loud_kind(meta: dict[str, Any], arrays: dict[str, Any]) -> None:
    """Call a model by something that a terminal obeys."""
    meta["package"]["model_kinds"][1] = LOUD


def loud_feature(meta: dict[str, Any], arrays: dict[str, Any]) -> None:
    """Call a feature so."""
    meta["package"]["features"][0]["name"] = LOUD


def column_of_qualities(meta: dict[str, Any], arrays: dict[str, Any]) -> None:
    """Give qualities one more dimension."""
    arrays["qualities"] = arrays["qualities"][:, np.newaxis]


# What ended in another error than `BadIndexFile` ...
UNEXPECTED: dict[str, Make] = {
    "meta that is no UTF-8": of_meta(b"\xa1\xff"),
    "name that is no UTF-8": lambda path: sealed(
        path, b"\x82\xa4meta\x80\xa6arrays\x91\x94\xa1\xff\xa3<f8\x90\x40"
    ),
    "65 dimensions": of_section("x", "<f8", [0] * 65),
    "empty and endless": of_section("x", "<f8", [0, 1 << 62, 1 << 62]),
    "qualities in a column": edited(column_of_qualities),
    "leaves that are shared": edited(sharing_leaves),
    "text for plain data": edited(lambda meta, arrays: meta.update(package="text")),
}
# ... and what took long, or much memory.
DEAR: dict[str, Make] = {
    "600,000 dimensions": of_section("x", "<f8", [1 << 60] * 600_000),
    "lengths of many digits": of_section("x", "<f8", [1 << 60] * 32),
    "60 MiB of empty maps": of_meta(many(60 * MIB, b"\x80")),
    "15 MiB of empty maps": of_meta(many(15 * MIB, b"\x80")),
    "half a million of entries": of_meta(many((1 << 19) - 20, b"\xa2ab")),
    "maps to the limit": of_meta(many((1 << 17) - 9, b"\x81\xa0\xa0")),
    "lists in lists": of_meta(b"\x91" * 130_000 + b"\xc0"),
    "wide text": of_meta(b"\xdb" + (15 * MIB).to_bytes(4, "big") + b"a" * (15 * MIB - 4)
                         + "\U0001f600".encode()),
    "arrays to the limit": lambda path: sealed(
        path,
        b"\x82\xa4meta\x80\xa6arrays" + many(1 << 16, b"\x94\xa0\xa3|u1\x90\x40"),
    ),
    "arrays over the limit": lambda path: sealed(
        path,
        b"\x82\xa4meta\x80\xa6arrays" + many(1 << 20, b"\x94\xa0\xa3|u1\x90\x40"),
    ),
    "more entries than bytes": of_meta(b"\xdf\xff\xff\xff\xff"),
    "text longer than all": of_meta(b"\xdb\xff\xff\xff\xff"),
    "orders without end": edited(
        lambda meta, arrays: arrays.update(orders=np.zeros((1, 4 * MIB), np.int32))
    ),
}  # fmt: skip
LOUD_ONES: dict[str, Make] = {
    "kind of model": edited(loud_kind),
    "feature": edited(loud_feature),
    "array": of_section(LOUD, "<f8", [-1]),
    "key": of_meta(b"\xc0\xa3\x1b[2\xc0"),
}


def sparse(path: Path, size: int) -> Path:
    """A file of so many zeros behind a right preamble, which take no disk."""
    with path.open("wb") as file:
        file.write(
            pdx_file._FACTS.pack(pdx_file.MAGIC, pdx_file.FORMAT_VERSION, 0, 64, size)
            + b"\0" * 32
        )
        file.truncate(size)
    return path


def _peak_bytes() -> int:
    """Most memory that this process had since it was last asked."""
    status = Path("/proc/self/status").read_text()
    Path("/proc/self/clear_refs").write_text("5")
    return 1024 * int(status.partition("VmHWM:")[2].split()[0])


def _resident_bytes() -> int:
    return 4096 * int(Path("/proc/self/statm").read_text().split()[1])


if __name__ == "__main__":
    Index.load(sys.argv[1])
    for name in sys.argv[2:]:
        _peak_bytes()
        before, said, began_s = _resident_bytes(), "", time.process_time()
        try:
            Index.load(name)
        except BadIndexFile as error:
            said = str(error)
        took_s = time.process_time() - began_s
        facts = {"s": took_s, "bytes": _peak_bytes() - before, "said": said}
        print(msgspec.json.encode(facts).decode())
