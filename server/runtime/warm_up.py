"""The warm-up before the first request: all features and models run on samples."""

import os
import time
from collections.abc import Generator, Mapping, Sequence
from pathlib import Path

import numpy as np

from polydom.features.errors import BadIndexFile, BadItem
from polydom.features.items import Item, make_item, sample_items
from polydom.features.tables.column_features import Columns
from polydom.indexer.index.index import Index

from ..engine.loading import load_planner
from ..engine.planning.planner import Clock, Planner
from ..engine.rescaling import first_state, read_machine_times, rescale
from ..schema.facts import Rescaling
from ..settings import Settings
from .translator import Translator

WARM_UP_ROUNDS = 3


class WarmUp:
    """Runs the candidates' features on every sample, and all models on the last sample.

    If `rescales` is True, the runs are timed, and the costs in `planner` are rescaled
    to this machine.
    """

    def __init__(self, planner: Planner, *, rescales: bool = True) -> None:
        self._planner = planner
        package = planner.package
        given = enumerate(package.meta.get("samples", []))
        self.samples = [_read(planner, number, payload) for number, payload in given]
        self._build_times = read_machine_times(planner)
        self.rescaling = Rescaling(first_state(planner, self._build_times, rescales))

    def run(self) -> None:
        """Run all steps of the warm-up."""
        for _ in self.steps():
            pass

    def steps(self) -> Generator[None, None, None]:
        """Run one step per iteration: one feature on one sample, or one model."""
        planner = self._planner
        extractor = planner.extractor
        items = self.samples or [*map(extractor.filled, sample_items(extractor.kind))]
        rows = np.zeros((max(len(items), 1), extractor.width), np.float32)
        rescales = self.rescaling.state == "not_yet"
        for _ in range(1 if rescales else WARM_UP_ROUNDS):
            # without sample items there is a single row
            for item, row in zip(items, rows, strict=False):
                extraction = extractor.begin(item, row)
                for feature in planner.package.used:
                    extraction.attempt(feature)
                    yield
            whole = np.nan_to_num(rows)  # some models do not accept missing values
            for model in planner.package.models:
                model.answer(whole[-1])
                yield
            for exits in planner.package.early_exits:
                if exits is not None:
                    exits.answer(whole[-1])
                    yield
        if rescales and self._build_times is not None:
            self.rescaling = yield from rescale(
                planner, self._build_times, items, list(whole)
            )


def _read(planner: Planner, number: int, payload: object) -> Item:
    """Return sample `number` as an item; raise BadIndexFile if it is invalid."""
    try:
        item = make_item(payload, planner.package.kind, pair=planner.index.pairs)
        given = item.payload
        if isinstance(given, bytes):
            from polydom.features.ready_made.image_pixels import decode_small

            decode_small(given)
        for feature in planner.extractor.features:
            if isinstance(feature.function, Columns) and isinstance(given, Mapping):
                feature.function.check(given)
        return planner.extractor.filled(item)
    except BadItem as error:
        raise BadIndexFile(f"damaged: sample {number} is no item: {error}") from error


def open_translator(
    index: str | os.PathLike[str] | Index,
    features: Sequence[Path],
    now: Clock = time.monotonic,
) -> Translator:
    """Load an index, warm it up, and return its translator, ready to answer.

    `now` is the clock of budgets.
    """
    planner = load_planner(index, features, now=now)
    WarmUp(planner).run()
    return Translator(planner, Settings())
