"""Edits of an index file whose checksum is made good again, drawn from a seed."""

import copy
import hashlib
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polydom.indexer.index.file import pdx_file

Draw = np.random.Generator
Meta = dict[str, Any]
Arrays = dict[str, NDArray[Any]]

ODD: list[Any] = [
    *(None, True, "", "x" * 70, [], {}, [[]], [0], {"a": 1}, b"\0\xff"),
    *(0, 1, -1, 2, 7, 62, 63, 64, 2**31, 2**63 - 1, -(2**63)),
    *(0.0, -1.0, 0.5, 1.5, 1e-320, 1e308, -1e308, np.inf, -np.inf, np.nan),
]


def edited(content: tuple[Meta, Arrays], draw: Draw) -> bytes:
    """Edit a file's plain data or arrays, once or a few times; its bytes, sealed."""
    meta, arrays = copy.deepcopy(content[0]), dict(content[1])
    for _ in range(int(draw.choice([1, 1, 1, 2, 4]))):
        edits = [_change_numbers] * 8 + [_lengthen, _reshape, _retype, _swap, _repeat]
        edits += [_change_meta] * 2 + [_share_child, _drop]
        edits[int(draw.integers(len(edits)))](meta, arrays, draw)
    try:
        whole = bytearray(sealed(meta, arrays))
    except (OverflowError, TypeError):  # msgpack has no such number
        whole = bytearray(sealed(content[0], arrays))
    if draw.random() < 0.05:
        for _ in range(int(draw.integers(1, 4))):
            whole[int(draw.integers(64, len(whole)))] = int(draw.integers(256))
        _seal(whole)
    return bytes(whole)


def sealed(meta: Meta, arrays: Arrays) -> bytes:
    """Give the bytes of a file that holds these."""
    stored = {name: np.ascontiguousarray(a) for name, a in arrays.items()}
    stored = {name: a.reshape(arrays[name].shape) for name, a in stored.items()}
    header = pdx_file._place(meta, stored)
    whole = bytearray(64) + b"".join(pdx_file._body(header, stored))
    facts = pdx_file._FACTS.pack(
        pdx_file.MAGIC, pdx_file.FORMAT_VERSION, 0, len(header), len(whole)
    )
    whole[: len(facts)] = facts
    _seal(whole)
    return bytes(whole)


def _seal(whole: bytearray) -> None:
    size = pdx_file._FACTS.size
    whole[size:64] = hashlib.sha256(whole[64:] + whole[:size]).digest()


def _pick(arrays: Arrays, draw: Draw) -> str:
    """Name an array; the models', of which there are many, as often as the others."""
    names = [n for n in arrays if n.startswith("models/") == (draw.random() < 0.5)]
    return str(draw.choice(names or list(arrays)))


def _change_numbers(meta: Meta, arrays: Arrays, draw: Draw) -> None:
    name = _pick(arrays, draw)
    array = arrays[name] = arrays[name].copy()
    if name.endswith("/nodes") and array.size:
        _change_nodes(array, draw)
    elif array.size:
        for _ in range(int(draw.choice([1, 1, 2, 8]))):
            flat = array.reshape(-1)
            flat[int(draw.integers(flat.size))] = _number(flat, draw)


def _number(flat: NDArray[Any], draw: Draw) -> Any:
    kind, other = flat.dtype, flat[int(draw.integers(flat.size))]
    if draw.random() < 0.1:
        return np.frombuffer(draw.bytes(kind.itemsize), kind)[0]
    if kind.kind == "f":
        with np.errstate(all="ignore"):
            odd = [0.0, -0.0, 1.0, -other, 2 * other, other / 2, np.inf, np.nan, -1e300]
            odd += [1e300, 1e-300, np.nextafter(other, np.inf), -1e9, np.pi]
            return np.array(odd).astype(kind)[int(draw.integers(len(odd)))]
    ends = np.iinfo(kind)
    near = [int(other), int(other) + 1, int(other) - 1, ~int(other), 0, 1, 2, -1, 300]
    near += [ends.min, ends.max, flat.size, len(flat) // 2, int(draw.integers(1000))]
    return min(max(near[int(draw.integers(len(near)))], ends.min), ends.max)


def _change_nodes(array: NDArray[Any], draw: Draw) -> None:
    """Change a field of a node of trees, which are stored as bytes."""
    from polydom.models.trees.nodes import NODE

    if array.ndim != 2 or array.shape[1] != NODE.itemsize or array.dtype != np.uint8:
        return
    nodes = array.reshape(-1).view(NODE)
    for _ in range(int(draw.choice([1, 1, 2, 8]))):
        field = nodes[str(draw.choice(NODE.names or ()))]
        field[int(draw.integers(len(field)))] = _number(field, draw)


def _share_child(meta: Meta, arrays: Arrays, draw: Draw) -> None:
    """Let two nodes of a tree have the same children."""
    from polydom.models.trees.nodes import NODE

    names = [n for n in arrays if n.endswith("/nodes") and arrays[n].size]
    if not names:
        return
    name = str(draw.choice(names))
    array = arrays[name] = arrays[name].copy()
    if array.ndim == 2 and array.shape[1] == NODE.itemsize and array.dtype == np.uint8:
        nodes = array.reshape(-1).view(NODE)
        inner = np.flatnonzero(nodes["column"] >= 0)
        if len(inner):
            one, other = np.sort(draw.choice(inner, 2))
            nodes["child"][one] = nodes["child"][other]


def _lengthen(meta: Meta, arrays: Arrays, draw: Draw) -> None:
    """Repeat or leave out rows; sometimes where an array ends is put right."""
    name = _pick(arrays, draw)
    array = arrays[name]
    if not array.ndim or not len(array):
        return
    count = int(draw.choice([0, 1, len(array) - 1, len(array) + 1, 2 * len(array), 99]))
    arrays[name] = array[np.sort(np.arange(count) % len(array))]
    if name == "lookup/stays" and draw.random() < 0.8:
        offsets = arrays["lookup/offsets"] = arrays["lookup/offsets"].copy()
        if offsets.size and offsets.dtype.kind == "i":
            offsets.reshape(-1)[-1] = min(count, np.iinfo(offsets.dtype).max)


def _repeat(meta: Meta, arrays: Arrays, draw: Draw) -> None:
    """List the stays of one block again and again: more than there are ranks."""
    stays, offsets = arrays.get("lookup/stays"), arrays.get("lookup/offsets")
    if stays is None or offsets is None or offsets.shape[0:] != (2,) or stays.ndim != 2:
        return
    times = int(draw.integers(2, 40))
    repeated = np.tile(stays, (times, 1))
    arrays["lookup/stays"] = repeated[np.argsort(repeated[:, 0], kind="stable")]
    arrays["lookup/offsets"] = np.array([0, len(repeated)], np.int32)


def _reshape(meta: Meta, arrays: Arrays, draw: Draw) -> None:
    name = _pick(arrays, draw)
    array = arrays[name]
    shapes: list[Any] = [(-1,), (-1, 1), (1, *array.shape), array.shape[::-1]]
    if array.size == 1:
        shapes.append(())
    arrays[name] = array.reshape(shapes[int(draw.integers(len(shapes)))])


def _retype(meta: Meta, arrays: Arrays, draw: Draw) -> None:
    name = _pick(arrays, draw)
    array = np.ascontiguousarray(arrays[name])
    dtype = np.dtype(str(draw.choice(pdx_file.DTYPES)))
    if draw.random() < 0.5 and array.ndim and dtype.itemsize == array.dtype.itemsize:
        arrays[name] = array.view(dtype)
    else:
        with np.errstate(all="ignore"):
            arrays[name] = array.astype(dtype)


def _swap(meta: Meta, arrays: Arrays, draw: Draw) -> None:
    """Put an array, or a whole model, in the place of another."""
    one, other = _pick(arrays, draw), _pick(arrays, draw)
    arrays[one] = arrays[other]


def _drop(meta: Meta, arrays: Arrays, draw: Draw) -> None:
    name = _pick(arrays, draw)
    array = arrays.pop(name)
    if draw.random() < 0.3:
        arrays[name + str(draw.choice(["/", "x", "\0", "é"]))] = array


def _change_meta(meta: Meta, arrays: Arrays, draw: Draw) -> None:
    """Change something somewhere in the plain data."""
    at: Any = meta
    while True:
        keys = list(at) if isinstance(at, dict) else list(range(len(at)))
        if not keys:
            return
        key = keys[int(draw.integers(len(keys)))]
        if not isinstance(at[key], dict | list) or draw.random() < 0.1:
            break
        at = at[key]
    _EDITS_OF_META[int(draw.integers(len(_EDITS_OF_META)))](at, key, draw)


def _put_odd(at: Any, key: Any, draw: Draw) -> None:
    at[key] = ODD[int(draw.integers(len(ODD)))]


def _put_near(at: Any, key: Any, draw: Draw) -> None:
    if isinstance(at[key], int | float):
        at[key] = at[key] * [2, -1, 0, 0.5][int(draw.integers(4))]
    elif isinstance(at[key], str):
        at[key] += "\x1b[2J"


def _remove(at: Any, key: Any, draw: Draw) -> None:
    del at[key]


_EDITS_OF_META: list[Callable[[Any, Any, Draw], None]] = [_put_odd, _put_near, _remove]
