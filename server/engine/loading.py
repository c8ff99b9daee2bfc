"""Load an index file, and compile all code that its answers need."""

import os
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from polydom.features.costs.stopwatch import busy_clock
from polydom.features.errors import BadIndexFile
from polydom.indexer.index.index import Index
from polydom.indexer.index.package import Package

from ..settings import Settings
from .planning.planner import Clock, Planner

_AnyPath = str | os.PathLike[str]
DEFAULTS = Settings()


def package_of(index: Index, name: _AnyPath = "this index") -> Package:
    """Return the package of an index: its features, models and labels.

    Raise BadIndexFile if the index has no package; the message calls the index `name`.
    """
    if index.package is None:
        raise BadIndexFile(
            f"{os.fspath(name)}: candidates without models: it was made of cost curves "
            "and qualities alone; `polydom build` makes one that can answer"
        )
    return index.package


def load_index(path: _AnyPath) -> tuple[Index, Package]:
    """Read an index file; return the index and its package.

    Raise BadIndexFile if the file is damaged, or if the index has no package.
    """
    index = Index.load(path)
    return index, package_of(index, path)


def load_planner(
    index: _AnyPath | Index,
    features: Sequence[Path] = (),
    settings: Settings = DEFAULTS,
    now: Clock = time.monotonic,
) -> Planner:
    """Return a planner for an index or an index file, with all code compiled.

    `features` are Python files with the operator's own features. `now` is the clock of
    budgets. Raises the errors of
    `load_index`, and BadFeature if a feature's code is missing, invalid or changed, or
    if a network of the index cannot be run here.
    """
    if isinstance(index, Index):
        package = package_of(index)
    else:
        index, package = load_index(index)
    extractor = package.extractor(features)
    for network in package.networks:
        network.open()
    planner = Planner(
        index,
        extractor,
        now=now,
        busy=busy_clock(),
        corrects=settings.correct,
        audit=settings.audit,
    )
    _compile_ahead(planner, rescales=settings.rescale)
    return planner


def _compile_ahead(planner: Planner, *, rescales: bool) -> None:
    """Call each compiled function that answers may need, so that no request waits.

    The first calls on a machine compile for some ten seconds; later, code is cached.
    """
    index, package = planner.index, planner.package
    row = np.zeros(planner.extractor.width, np.float32)
    for model in package.models:
        model.answer(row)
    for exits in package.early_exits:
        if exits is not None:
            exits.answer(row)
    size, _ = index.sizes
    index.lookup.best(size, np.inf)
    # nothing fits, so that the search visits all candidates
    index.lookup.best(size, -1.0)
    index.skyline(size)
    if planner.anytime is not None:
        planner.anytime.target(planner.anytime.at(size), 0, 0.0)
    if rescales and "pace" in package.meta:
        Index.from_candidates(index.coefficients, index.qualities, index.sizes)
