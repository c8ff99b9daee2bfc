"""The demo's index of digits, and the digits that no model of it was trained on."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from polydom.features.items import Item
from polydom.indexer import build
from polydom.indexer.building.data.read_items import load_data
from polydom.indexer.building.data.split import split
from polydom.indexer.building.project import Project

from ...places import DEMO
from .image_sets import few_index, project_of


def project(quick: bool = False) -> Project:
    """The demo's; or one of few small digits."""
    return project_of("few") if quick else Project.load(DEMO)


def held_out(demo: Project) -> tuple[list[Item], list[str]]:
    """Items that no model was trained on in a drawn order, and their labels."""
    dataset = load_data(demo)
    share = demo.search.held_out or 0.25
    ((_, rows),) = split(dataset, seed=demo.seed, held_out=share, folds=None)
    rows = np.random.default_rng(demo.seed).permutation(rows)
    labels = [dataset.labels[dataset.codes[row]] for row in rows]
    return [dataset.items[row] for row in rows.tolist()], labels


def built(folder: Path, quick: bool = False) -> Path:
    """Its index, built if it is not in the folder."""
    path = folder / "digits.pdx"
    if quick:
        path.write_bytes(few_index())
    elif not path.exists():
        build(DEMO, output=path, cache=folder / "digits")
    return path


@contextmanager
def index_file(given: Path | None, quick: bool = False) -> Iterator[Path]:
    """What was given, or else the demo's, built where it is gone afterwards."""
    if given is not None:
        yield given
        return
    with tempfile.TemporaryDirectory() as folder:
        yield built(Path(folder), quick)
