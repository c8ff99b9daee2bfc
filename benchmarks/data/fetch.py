"""Fetch public data sets to where benchmarks look for them, and check what came.

python -m benchmarks.data.fetch                 says which there are
python -m benchmarks.data.fetch adult sms_spam  fetches some
python -m benchmarks.data.fetch all             fetches all that may be fetched

A set appears whole or not at all: each of its files must have the checksum of the file
that the results here were measured on, else it is not kept. public_sets.py has the
addresses, and says which of them were tried: none.
"""

import argparse
import gzip
import hashlib
import http.client
import lzma
import shutil
import sys
import tarfile
import tempfile
import urllib.request
import zipfile
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path

from ..places import FETCHED
from .public_sets import ELSEWHERE, SETS, File

ALL = "all"
TIMEOUT_S = 60.0
NOT_SENT = (OSError, http.client.HTTPException)
NO_ARCHIVE = (
    *(EOFError, ValueError, KeyError),
    *(zlib.error, zipfile.BadZipFile, tarfile.TarError),
)


class NotFetched(Exception):
    """No address of a file gave what it should."""


def fetch(name: str, files: Sequence[File], folder: Path) -> Path:
    """Fetch a set, unless its folder is there already; that folder.

    Raises
    ------
    NotFetched
        If some file came from none of its addresses, or not as it should be.
    """
    place = folder / name
    if place.is_dir():
        return place
    folder.mkdir(parents=True, exist_ok=True)
    partial = Path(tempfile.mkdtemp(prefix=f".{name}.", dir=folder))
    try:
        for file in files:
            (partial / file.name).write_bytes(pack(file.name, content(file)))
        partial.rename(place)
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    return place


def content(file: File) -> bytes:
    """What is in a file, from the first address that gives it."""
    faults = []
    for source in file.sources:
        try:
            with urllib.request.urlopen(source.address, timeout=TIMEOUT_S) as reply:
                found = source.unpack(reply.read())
        except (*NOT_SENT, *NO_ARCHIVE) as error:
            faults.append(f"{source.address}: {error or type(error).__name__}")
            continue
        checksum = hashlib.sha256(found).hexdigest()
        if checksum == file.sha256:
            return found
        faults.append(f"{source.address}: sha256 {checksum}, not {file.sha256}")
    raise NotFetched("\n".join([f"{file.name} did not come", *faults]))


def pack(name: str, found: bytes) -> bytes:
    """Compress as a file's name says."""
    if name.endswith(".gz"):
        return gzip.compress(found, mtime=0)
    return lzma.compress(found) if name.endswith(".xz") else found


def main(
    arguments: list[str] | None = None, sets: Mapping[str, Sequence[File]] = SETS
) -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.data.fetch",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("names", nargs="*", choices=[*sets, *ELSEWHERE, ALL, []])
    parser.add_argument(
        "--folder", type=Path, default=FETCHED, help=f"default: {FETCHED}"
    )
    given = parser.parse_args(arguments)
    if not given.names:
        print("\n".join([*sets, *(f"{name} (by hand)" for name in ELSEWHERE)]))
    failed = False
    for name in [*sets, *ELSEWHERE] if ALL in given.names else given.names:
        if name in ELSEWHERE:
            print(ELSEWHERE[name].format(folder=given.folder / name))
            continue
        try:
            print(fetch(name, sets[name], given.folder))
        except NotFetched as error:
            failed = True
            print(f"{name}: {error}", file=sys.stderr)
    if failed:
        sys.exit(1)


if __name__ == "__main__":
    main()
