"""One server of small models of every kind that the page shows."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from polydom.indexer.index.index import Index
from tests.support.indexes import (
    free_records,
    learned,
    numbers,
    records,
    served,
    three_kinds,
)
from tests.support.indexes.zoo import with_exits
from tests.support.processes.servers import serving

OWN = f"--features={served.FEATURES_FILE}"
# Costs as the index has them, so that pages and `polydom plan` say the same.
AS_BUILT = (OWN, "--no-rescale", "--no-correct", "--budget-ms=20")


@dataclass(frozen=True)
class PageModels:
    """Where they are served, and their indexes by name."""

    port: int
    indexes: dict[str, Index]

    def address(self, model: str, **chosen: Any) -> str:
        """Of the page of a model, and what is chosen there: `size`, `budget`."""
        return page_of(self.port, model=model, **chosen)


def page_of(port: int, **chosen: Any) -> str:
    fragment = f"#{urlencode(chosen)}" if chosen else ""
    return f"http://127.0.0.1:{port}/{fragment}"


def save_models(folder: Path) -> dict[str, Path]:
    """Write an index of each kind; those without samples are `images` and `bare`."""
    (folder / "money").mkdir()
    paths = {
        "texts": served.save_index(folder),
        "people": records.save_index(folder),
        "numbers": numbers.save_index(folder),
        "money": served.save_index(folder / "money", "usd"),
        "images": three_kinds.save_images(folder),
        "bare": free_records.save_records(folder),
    }
    for name, index in {
        "pairs": served.make_pair_index(),
        "balanced": with_exits(numbers.make_balanced_index()),
        "learned": learned.make_index(),
    }.items():
        paths[name] = folder / f"{name}.pdx"
        index.save(paths[name])
    return paths


@contextmanager
def serving_models(folder: Path) -> Iterator[PageModels]:
    """Serve them all in a process of its own, until it ends."""
    paths = save_models(folder)
    first, *others = (f"{name}={path}" for name, path in paths.items())
    with serving(first, *others, *AS_BUILT) as (_, port):
        indexes = {name: Index.load(path) for name, path in paths.items()}
        yield PageModels(port, indexes)
