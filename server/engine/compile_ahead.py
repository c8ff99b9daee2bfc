"""Compiled code made ready before anything is asked: what an index calls, no more."""

import numpy as np

from polydom.indexer.index.index import Index

from .planner import Planner


def compile_ahead(planner: Planner, *, rescales: bool) -> None:
    """Call each compiled function that answers may need, so that no request waits.

    On this processor's first time that takes some ten seconds, later milliseconds.
    `rescales` says whether the index's skylines are made anew where that is possible.
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
    index.lookup.best(size, -1.0)  # none fits, so it looks at all
    index.skyline(size)
    if planner.anytime is not None:
        planner.anytime.target(planner.anytime.at(size), 0, 0.0)
    if rescales and "pace" in package.meta:
        Index.from_candidates(index.coefficients, index.qualities, index.sizes)
