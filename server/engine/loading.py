"""From an index file to the planner that answers with it: the only way."""

import os
from collections.abc import Sequence
from pathlib import Path

from polydom.features.errors import BadIndexFile
from polydom.indexer.index.index import Index
from polydom.indexer.index.package import Package

from ..settings import Settings
from .compile_ahead import compile_ahead
from .planner import Planner

_AnyPath = str | os.PathLike[str]
DEFAULTS = Settings()


def package_of(index: Index, name: _AnyPath = "this index") -> Package:
    """Return what an index needs to answer: features, models, labels.

    Raises
    ------
    BadIndexFile
        If it holds bare candidates; `name` is what it is called then.
    """
    if index.package is None:
        raise BadIndexFile(
            f"{os.fspath(name)}: candidates without models: it was made of cost curves "
            "and qualities alone; `polydom build` makes one that can answer"
        )
    return index.package


def load_index(path: _AnyPath) -> tuple[Index, Package]:
    """Read and check an index file that can answer.

    Raises
    ------
    BadIndexFile
        If it is damaged or foreign, or holds no models.
    """
    index = Index.load(path)
    return index, package_of(index, path)


def load_planner(
    index: _AnyPath | Index,
    features: Sequence[Path] = (),
    settings: Settings = DEFAULTS,
) -> Planner:
    """Make the planner of an index, or of its file, with its kernels compiled.

    `features` are Python files with the operator's own features.

    Raises
    ------
    BadIndexFile
        As `load_index`.
    BadFeature
        If a feature's code is not there, or is not what was indexed.
    """
    if isinstance(index, Index):
        package = package_of(index)
    else:
        index, package = load_index(index)
    extractor = package.extractor(features)
    planner = Planner(index, extractor, corrects=settings.correct, audit=settings.audit)
    compile_ahead(planner, rescales=settings.rescale)
    return planner
