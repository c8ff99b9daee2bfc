"""The `.pdx` file: named arrays and plain data, never code (docs/file-format.md).

A preamble of 64 bytes, a msgpack header, then the arrays, each starting on a multiple
of 64 bytes, all gaps zero, nothing after the last. The rules follow safetensors: every
length is checked against the file's real size before anything is allocated, sections
may not overlap or leave holes, and a checksum covers every byte.
"""

import contextlib
import hashlib
import mmap
import os
import struct
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from ..features.errors import BadIndexFile, BadInput

Array = NDArray[Any]

MAGIC = b"\x89PDX\r\n\x1a\n"
FORMAT_VERSION = 1
ALIGNMENT = 64
MAX_HEADER_BYTES = 64 << 20
DTYPES = ("|i1", "|u1", "<i2", "<u2", "<i4", "<u4", "<i8", "<u8", "<f4", "<f8")

# magic, format version, reserved (0), header bytes, file bytes; then the checksum
_FACTS = struct.Struct("<8sIIQQ")
_DIGEST_BYTES = 32
_PREAMBLE_BYTES = _FACTS.size + _DIGEST_BYTES


class _Section(msgspec.Struct, array_like=True, forbid_unknown_fields=True):
    """Where one array lies: `offset` counts from the start of the file."""

    name: str
    dtype: str
    shape: list[int]
    offset: int


class _Header(msgspec.Struct, forbid_unknown_fields=True):
    meta: dict[str, Any]
    arrays: list[_Section]


def _refuse_extension(code: int, data: memoryview) -> Any:
    raise msgspec.ValidationError(f"extension type {code} is not plain data")


_encode = msgspec.msgpack.Encoder(order="deterministic").encode
_decode = msgspec.msgpack.Decoder(_Header, ext_hook=_refuse_extension).decode


def write_file(
    path: str | os.PathLike[str], meta: dict[str, Any], arrays: Mapping[str, Array]
) -> None:
    """Write `meta` (msgpack-able plain data) and `arrays` to `path`, all or nothing.

    The bytes depend on nothing but the arguments. They go to a temporary name beside
    `path`, are synced to the disk, and take `path`'s place in one step; whatever goes
    wrong before, an older file at `path` stays as it was.

    Raises
    ------
    BadInput
        If an array has a dtype that the format does not know.
    """
    stored = {name: _storable(name, array) for name, array in arrays.items()}
    header = _place(meta, stored)
    with replace_when_done(Path(path)) as file:
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
    """Map the file at `path`: its plain data, its arrays, its checksum in hex.

    The arrays are read-only views of the mapped pages, which processes share. Only
    the form is checked here; what the numbers mean is checked by whoever uses them.

    Raises
    ------
    BadIndexFile
        If the file is absent, damaged, truncated, foreign or of another version.
    """
    pages = _map(path)
    try:
        header_bytes, digest = _check_preamble(pages)
        header = _decode_header(pages[_PREAMBLE_BYTES : _PREAMBLE_BYTES + header_bytes])
        arrays = _view_sections(header.arrays, pages, _PREAMBLE_BYTES + header_bytes)
        return header.meta, arrays, digest
    except BadIndexFile as error:
        raise BadIndexFile(f"{os.fspath(path)}: {error}") from error


@contextlib.contextmanager
def replace_when_done(path: Path) -> Iterator[IO[bytes]]:
    """Open a file that takes `path`'s place when the block ends without an error."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with temporary.open("wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
    if os.name == "posix":
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


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

    Offsets are in the header, whose length depends on them: they are placed again
    until the length no longer changes.
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


def _map(path: str | os.PathLike[str]) -> memoryview:
    try:
        with open(path, "rb") as file:
            if os.fstat(file.fileno()).st_size < _PREAMBLE_BYTES:
                raise BadIndexFile(f"{os.fspath(path)}: too short to be a .pdx file")
            return memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
    except OSError as error:
        raise BadIndexFile(f"{os.fspath(path)}: {error.strerror or error}") from error


def _check_preamble(pages: memoryview) -> tuple[int, str]:
    magic, version, reserved, header_bytes, file_bytes = _FACTS.unpack_from(pages)
    if magic != MAGIC:
        raise BadIndexFile("not a .pdx file (its first bytes are others)")
    if version != FORMAT_VERSION:
        raise BadIndexFile(
            f"written in format version {version}; this polydom reads version "
            f"{FORMAT_VERSION}: build the index again with it"
        )
    if file_bytes != len(pages):
        raise BadIndexFile(
            f"truncated or extended: it says {file_bytes} bytes and has {len(pages)}"
        )
    if reserved or header_bytes > min(MAX_HEADER_BYTES, file_bytes - _PREAMBLE_BYTES):
        raise BadIndexFile(f"damaged: a header of {header_bytes} bytes cannot be")
    stored = bytes(pages[_FACTS.size : _PREAMBLE_BYTES])
    digest = hashlib.sha256(pages[_PREAMBLE_BYTES:])
    digest.update(pages[: _FACTS.size])
    if digest.digest() != stored:
        raise BadIndexFile("damaged: its checksum does not match its contents")
    return header_bytes, stored.hex()


def _decode_header(content: memoryview) -> _Header:
    try:
        # the padding byte 0xc1 is the one that msgpack never uses
        return _decode(bytes(content).rstrip(b"\xc1"))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise BadIndexFile(f"damaged: its header cannot be read ({error})") from error


def _view_sections(
    sections: list[_Section], pages: memoryview, start: int
) -> dict[str, Array]:
    """View all sections, which must lie end to end but for zeros up to alignment."""
    arrays: dict[str, Array] = {}
    end = start
    for section in sections:
        if section.name in arrays:
            raise BadIndexFile(f"damaged: array {section.name!r} comes twice")
        if section.dtype not in DTYPES or any(n < 0 for n in section.shape):
            raise BadIndexFile(f"damaged: array {section.name!r} has no usable form")
        dtype, count = np.dtype(section.dtype), 1
        for n in section.shape:
            count *= n
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
