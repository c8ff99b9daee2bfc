"""The index that a script serves: one that is named, or the demo's."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from polydom.indexer import build

from ..places import DEMO


@contextmanager
def index_file(given: Path | None) -> Iterator[Path]:
    """What was given, or else the demo's, built where it is gone afterwards."""
    if given is not None:
        yield given
        return
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "digits.pdx")
        build(DEMO, output=path, cache=Path(folder, "cache"))
        yield path
