"""The index of photographs with a network, and the same without: as by `headline`."""

import argparse
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from .. import report
from ..serving.indexes.image_sets import ImageSet, network_file, prepare

ASKED, QUICK_ASKED = 400, 10


class Photos(NamedTuple):
    """Two indexes of the same photographs, and photographs that no build has seen."""

    network: Path  # ONNX file
    with_network: ImageSet
    without: ImageSet


def options(module: str) -> argparse.ArgumentParser:
    """Read the options of a benchmark of these indexes."""
    parser = report.options(module, data=True)
    parser.add_argument("--cache", type=Path, help="keep the indexes here")
    return parser


@contextmanager
def photos(given: argparse.Namespace) -> Iterator[Photos]:
    """Build both indexes, unless `--cache` has them; of small digits for `--quick`."""
    name = "few" if given.quick else "scenes"
    if not given.quick:
        report.need(given, "scene15", "networks")
    count = QUICK_ASKED if given.quick else ASKED
    with tempfile.TemporaryDirectory() as made:
        folder = given.cache or Path(made)
        folder.mkdir(parents=True, exist_ok=True)
        network = network_file(name, folder)
        own = prepare(name, folder, count, network=network)
        yield Photos(network, own, prepare(name, folder, count))
