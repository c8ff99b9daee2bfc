"""The `.pdx` file: named arrays and plain data, never code (docs/reference/file.md).

The rules follow safetensors: the reader checks every length against the real size of
the file before it allocates memory, sections may not overlap or leave holes, and a
checksum covers every byte.

The reader copies the file into memory and checks the copy. If it mapped the file
instead, another program could change numbers after the check, or crash the process by
truncating the file.
"""

import hashlib
import math
import mmap
import os
import stat
import struct
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, Annotated, Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from polydom.features.errors import BadIndexFile, BadInput
from polydom.features.outputs import head_of, refuse_output

from .safe_write import replace_when_done

Array = NDArray[Any]

MAGIC = b"\x89PDX\r\n\x1a\n"
FORMAT_VERSION = 2
ALIGNMENT = 64
# A reader takes about two seconds for such a file.
MAX_FILE_BYTES = 2 << 30
MAX_HEADER_BYTES = 16 << 20
# Limits on lists and maps, and on values of any kind. The largest real headers describe
# many models, with two lists and seven values for each array of a model.
MAX_CONTAINERS = 1 << 17
MAX_ENTRIES = 1 << 19
MAX_DIMENSIONS = 32
MAX_SPAN = 1 << 48  # product of the lengths above 0 of an empty array
DTYPES = ("|i1", "|u1", "<i2", "<u2", "<i4", "<u4", "<i8", "<u8", "<f4", "<f8")

# magic, format version, reserved (0), header bytes, file bytes; then the checksum
_FACTS = struct.Struct("<8sIIQQ")
_DIGEST_BYTES = 32
_PREAMBLE_BYTES = _FACTS.size + _DIGEST_BYTES
# Bytes of one read. Python handles signals between reads, so Ctrl-C waits for one.
_CHUNK_BYTES = 1 << 20

# msgpack: for a first byte from 0xc4 on, the bytes of the length that follows, and the
# bytes of content of fixed length. A first byte that is not listed stands alone.
_BINARY = {0xC4: (1, 0), 0xC5: (2, 0), 0xC6: (4, 0)}
_EXTENSION = {0xC7: (1, 1), 0xC8: (2, 1), 0xC9: (4, 1)}
_NUMBER = {0xCA: (0, 4), 0xCB: (0, 8)}
_NUMBER |= {first + k: (0, 1 << k) for first in (0xCC, 0xD0) for k in range(4)}
_FIXED = {0xD4 + k: (0, 1 + (1 << k)) for k in range(5)}
_TEXT = {0xD9: (1, 0), 0xDA: (2, 0), 0xDB: (4, 0)}
_LEAVES = _BINARY | _EXTENSION | _NUMBER | _FIXED | _TEXT
_LISTS = {0xDC: 2, 0xDD: 4}
_MAPS = {0xDE: 2, 0xDF: 4}


class _Section(msgspec.Struct, array_like=True, forbid_unknown_fields=True):
    """Position of one array; `offset` counts from the start of the file."""

    name: str
    dtype: str
    shape: Annotated[list[int], msgspec.Meta(max_length=MAX_DIMENSIONS)]
    offset: int


class _Header(msgspec.Struct, forbid_unknown_fields=True):
    meta: dict[str, Any]
    arrays: list[_Section]


def _refuse_extension(code: int, data: memoryview) -> Any:
    raise msgspec.ValidationError(f"extension type {code} is not plain data")


_encode = msgspec.msgpack.Encoder(order="deterministic").encode
_decode = msgspec.msgpack.Decoder(_Header, ext_hook=_refuse_extension).decode


def write_file(
    path: str | os.PathLike[str],
    meta: dict[str, Any],
    arrays: Mapping[str, Array],
    *,
    durable: bool = True,
) -> None:
    """Write plain data and arrays to a file, completely or not at all.

    `meta` may have only values that msgpack encodes. Equal arguments give equal bytes.
    With `durable`, the file is on the disk when this function returns. Without
    `durable`, a power failure may damage the file, and `read_file` then refuses it.
    Raises BadInput if `read_file` would refuse the arguments.
    """
    stored = {name: _storable(name, array) for name, array in arrays.items()}
    header = _place(meta, stored)
    _check_readable(header, stored, path)
    with replace_when_done(Path(path), durable=durable) as file:
        digest = hashlib.sha256()
        file.write(b"\0" * _PREAMBLE_BYTES)
        for chunk in _body(header, stored):
            digest.update(chunk)
            file.write(chunk)
        facts = _FACTS.pack(MAGIC, FORMAT_VERSION, 0, len(header), file.tell())
        digest.update(facts)
        file.seek(0)
        file.write(facts + digest.digest())


def read_file(
    path: str | os.PathLike[str],
) -> tuple[dict[str, Any], dict[str, Array], str]:
    """Return a file's plain data, its arrays, and its checksum in hex.

    The arrays are read-only views of a copy in memory, which forked processes share.
    Raises BadIndexFile for a damaged file. What the numbers mean is not checked.
    """
    try:
        with _open(path) as file:
            pages, header_bytes, digest = _copy(file)
        start = _PREAMBLE_BYTES + header_bytes
        header = _decode_header(pages[_PREAMBLE_BYTES:start])
        return header.meta, _view_sections(header.arrays, pages, start), digest
    except OSError as error:
        raise BadIndexFile(f"{os.fspath(path)}: {error.strerror or error}") from error
    except MemoryError as error:
        raise BadIndexFile(f"{os.fspath(path)}: does not fit into memory") from error
    except BadIndexFile as error:
        raise BadIndexFile(f"{os.fspath(path)}: {error}") from error


def refuse_index(path: Path) -> None:
    """Raise an error if `path` is not writable, or is a file that is not an index."""
    refuse_output(path, "an index", is_index, example="my.pdx")


def is_index(path: Path) -> bool:
    """Return True if a file begins with the first bytes of an index."""
    return head_of(path).startswith(MAGIC)


def _check_readable(
    header: bytes, arrays: Mapping[str, Array], path: str | os.PathLike[str]
) -> None:
    size = _PREAMBLE_BYTES + len(header)
    size += sum(_align(array.nbytes) for array in arrays.values())
    if reason := excess(header):
        raise BadInput(f"{os.fspath(path)} cannot be written: {reason}")
    if size > MAX_FILE_BYTES:
        raise BadInput(
            f"{os.fspath(path)} would have {size:,} bytes; a .pdx file has at most "
            f"{MAX_FILE_BYTES:,}: index fewer sets, or smaller models"
        )


def _storable(name: str, array: Array) -> Array:
    array = np.asarray(array, order="C")
    array = array.astype(array.dtype.newbyteorder("<"), copy=False)
    if array.dtype.str not in DTYPES:
        raise BadInput(
            f"array {name!r} has dtype {array.dtype.str}; a .pdx file holds "
            f"{', '.join(DTYPES)}"
        )
    return array


def _align(offset: int) -> int:
    return -(-offset // ALIGNMENT) * ALIGNMENT


def _place(meta: dict[str, Any], arrays: Mapping[str, Array]) -> bytes:
    """Encode the header, padded so that the first array is aligned.

    The header holds the offsets of the arrays, and the offsets depend on the header's
    length. So the header is encoded again until its length no longer changes.
    """
    header_bytes = 0
    while True:
        offset, sections = _PREAMBLE_BYTES + header_bytes, []
        for name, array in arrays.items():
            sections.append(_Section(name, array.dtype.str, list(array.shape), offset))
            offset = _align(offset + array.nbytes)
        header = _encode(_Header(meta, sections))
        padded = _align(_PREAMBLE_BYTES + len(header)) - _PREAMBLE_BYTES
        if padded <= header_bytes:
            return header.ljust(header_bytes, b"\xc1")
        header_bytes = padded


def _body(header: bytes, arrays: Mapping[str, Array]) -> Iterator[bytes]:
    yield header
    for array in arrays.values():
        content = array.tobytes()
        yield content
        yield b"\0" * (_align(len(content)) - len(content))


def _open(path: str | os.PathLike[str]) -> IO[bytes]:
    # to open a pipe without this flag would wait until another process writes to it
    waiting = getattr(os, "O_NONBLOCK", 0)
    binary = getattr(os, "O_BINARY", 0)
    descriptor = os.open(path, os.O_RDONLY | waiting | binary)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise BadIndexFile("not a regular file")
    return open(descriptor, "rb", buffering=0)


def read_version(path: str | os.PathLike[str]) -> str:
    """Return the checksum in hex that a file states, without a look at its content.

    Raises OSError if the file cannot be opened, and BadIndexFile if it is no index.
    """
    with _open(path) as file:
        preamble = file.read(_PREAMBLE_BYTES)
        _check_preamble(preamble, os.fstat(file.fileno()).st_size)
        return preamble[_FACTS.size :].hex()


def _copy(file: IO[bytes]) -> tuple[memoryview, int, str]:
    """Copy a file into memory; return its bytes, header length and checksum."""
    preamble = file.read(_PREAMBLE_BYTES)
    size = os.fstat(file.fileno()).st_size
    header_bytes = _check_preamble(preamble, size)
    pages = memoryview(_allocate(size))
    pages[:_PREAMBLE_BYTES] = preamble
    digest, at = hashlib.sha256(), _PREAMBLE_BYTES
    while at < size:
        count = file.readinto(pages[at : at + _CHUNK_BYTES])  # type: ignore[attr-defined]
        if not count:
            raise BadIndexFile("truncated while it was read")
        digest.update(pages[at : at + count])
        at += count
    digest.update(preamble[: _FACTS.size])
    if digest.digest() != preamble[_FACTS.size :]:
        raise BadIndexFile("damaged: its checksum does not match its contents")
    return pages.toreadonly(), header_bytes, digest.hexdigest()


def _allocate(size: int) -> mmap.mmap:
    """Allocate page-aligned memory, which forked processes share."""
    if sys.platform == "win32":
        return mmap.mmap(-1, size)
    # private: the kernel takes several times as long to give shared pages
    return mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)


def _check_preamble(preamble: bytes, size: int) -> int:
    """Check a file's first bytes, and return the length of its header."""
    if len(preamble) < _PREAMBLE_BYTES:
        raise BadIndexFile("too short to be a .pdx file")
    magic, version, reserved, header_bytes, file_bytes = _FACTS.unpack_from(preamble)
    if magic != MAGIC:
        raise BadIndexFile("not a .pdx file (its first bytes are others)")
    if version != FORMAT_VERSION:
        raise BadIndexFile(
            f"written in format version {version}; this polydom reads version "
            f"{FORMAT_VERSION}: build the index again with it"
        )
    if file_bytes != size:
        raise BadIndexFile(
            f"truncated or extended: it says {file_bytes} bytes and has {size}"
        )
    if size > MAX_FILE_BYTES:
        raise BadIndexFile(
            f"{size:,} bytes; a .pdx file has at most {MAX_FILE_BYTES:,}"
        )
    if reserved or header_bytes > min(MAX_HEADER_BYTES, size - _PREAMBLE_BYTES):
        raise BadIndexFile(f"damaged: a header of {header_bytes} bytes cannot be")
    return int(header_bytes)


def _decode_header(content: memoryview) -> _Header:
    # the padding byte 0xc1 is the one that msgpack never uses
    header = bytes(content).rstrip(b"\xc1")
    if reason := excess(header):
        raise BadIndexFile(f"damaged: {reason}")
    try:
        return _decode(header)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise BadIndexFile(f"damaged: its header cannot be read ({error})") from error


def excess(header: bytes) -> str:
    """Return why a msgpack header is too large; "" if it is not.

    One byte of msgpack can be an empty map, which takes seventy times as much memory
    once decoded. So this function counts lists, maps and values without decoding them.
    """
    if len(header) > MAX_HEADER_BYTES:
        return f"a header of {len(header):,} bytes is over {MAX_HEADER_BYTES:,}"
    at, due, entries, containers = 0, 1, 1, 0
    while due and at < len(header):
        first = header[at]
        due, at = due - 1, at + 1
        if first < 0x80 or first >= 0xE0:  # a small number
            continue
        if 0xA0 <= first < 0xC0:  # a short text
            at += first & 31
            continue
        if first in _LEAVES:
            width, more = _LEAVES[first]
            at += width + more + int.from_bytes(header[at : at + width])
            continue
        if first < 0xA0:  # a short map or list
            held = (first & 15) << (first < 0x90)
        elif first in _LISTS or first in _MAPS:
            width = _LISTS.get(first) or _MAPS[first]
            held = int.from_bytes(header[at : at + width]) << (first in _MAPS)
            at += width
        else:
            continue
        due, entries, containers = due + held, entries + held, containers + 1
        if entries > MAX_ENTRIES or containers > MAX_CONTAINERS:
            return (
                f"its header holds over {MAX_ENTRIES:,} entries, or over "
                f"{MAX_CONTAINERS:,} lists and maps"
            )
    return ""


def _view_sections(
    sections: list[_Section], pages: memoryview, start: int
) -> dict[str, Array]:
    """Return views of all arrays by name; raise BadIndexFile at a misplaced one."""
    arrays: dict[str, Array] = {}
    end = start
    for section in sections:
        if section.name in arrays:
            raise BadIndexFile(f"damaged: array {section.name!r} comes twice")
        if not _is_usable(section):
            raise BadIndexFile(f"damaged: array {section.name!r} has no usable form")
        dtype, count = np.dtype(section.dtype), math.prod(section.shape)
        after = section.offset + count * dtype.itemsize
        if section.offset != _align(end) or after > len(pages):
            raise BadIndexFile(f"damaged: array {section.name!r} is out of place")
        if any(pages[end : section.offset]):
            raise BadIndexFile(f"damaged: bytes before array {section.name!r}")
        view = np.frombuffer(pages, dtype, count, section.offset)
        arrays[section.name] = view.reshape(section.shape)
        end = after
    if _align(end) != len(pages) or any(pages[end:]):
        raise BadIndexFile("damaged: bytes after the last array")
    return arrays


def _is_usable(section: _Section) -> bool:
    if section.dtype not in DTYPES or any(n < 0 for n in section.shape):
        return False
    spanned = math.prod(n or 1 for n in section.shape)
    return 0 not in section.shape or spanned <= MAX_SPAN
