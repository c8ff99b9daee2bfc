"""Running everything once before anything is asked, and timing it on this machine."""

import os
from collections.abc import Generator, Mapping, Sequence
from pathlib import Path

import numpy as np

from polydom.features.errors import BadIndexFile, BadItem
from polydom.features.items import Item, make_item, sample_items
from polydom.features.tables.column_features import Columns
from polydom.indexer.index.index import Index

from ..engine.loading import load_planner
from ..engine.planner import Planner
from ..engine.rescaling import first_state, read_machine_times, rescale
from ..schema.facts import Rescaling
from ..settings import Settings
from .translator import Translator

WARM_UP_ROUNDS = 3


class WarmUp:
    """Runs every feature on every sample, and every model on the rows they give.

    Parameters
    ----------
    planner
        With the index as it was built.
    rescales
        Whether the index's costs are made this machine's, where that is possible; the
        later rounds are timed then.

    Attributes
    ----------
    samples
        The index's.
    rescaling
        Whether the index's costs are this machine's.

    Raises
    ------
    BadIndexFile
        If a sample is no item of the index's kind, or one that its features cannot
        read; or if the index's times of its samples are not its own.
    """

    def __init__(self, planner: Planner, *, rescales: bool = True) -> None:
        self._planner = planner
        package = planner.package
        given = enumerate(package.meta.get("samples", []))
        self.samples = [_read(planner, number, payload) for number, payload in given]
        self._build_times = read_machine_times(planner)
        self.rescaling = Rescaling(first_state(planner, self._build_times, rescales))

    def run(self) -> None:
        """Do all of it."""
        for _ in self.steps():
            pass

    def steps(self) -> Generator[None, None, None]:
        """Do it in steps of one feature of one sample, or of one model.

        Between two of them requests may be answered by whoever carries them out.
        """
        planner = self._planner
        extractor = planner.extractor
        items = self.samples or list(sample_items(extractor.kind))
        rows = np.zeros((max(len(items), 1), extractor.width), np.float32)
        rescales = self.rescaling.state == "not_yet"
        for _ in range(1 if rescales else WARM_UP_ROUNDS):
            for item, row in zip(items, rows, strict=False):  # there may be no items
                extraction = extractor.begin(item, row)
                for feature in range(len(extractor.features)):
                    extraction.compute(feature)
                    yield
            whole = np.nan_to_num(rows)  # not every model takes what is missing
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
    """Read a sample wholly; nothing but an edited file has one that is no item."""
    try:
        item = make_item(payload, planner.package.kind, pair=planner.index.pairs)
        given = item.payload
        if isinstance(given, bytes):
            from polydom.features.ready_made.image_pixels import decode_small

            decode_small(given)
        for feature in planner.extractor.features:
            if isinstance(feature.function, Columns) and isinstance(given, Mapping):
                feature.function.check(given)
        return item
    except BadItem as error:
        raise BadIndexFile(f"damaged: sample {number} is no item: {error}") from error


def open_translator(
    index: str | os.PathLike[str] | Index, features: Sequence[Path]
) -> Translator:
    """Load an index and make it ready to answer in this process.

    Raises
    ------
    BadIndexFile, BadFeature
        As `load_planner`.
    """
    planner = load_planner(index, features)
    WarmUp(planner).run()
    return Translator(planner, Settings())
