"""One run of `polydom score`: from files to a file."""

import itertools
from collections.abc import Iterator, Sequence
from pathlib import Path

from polydom.features.errors import BadInput
from polydom.indexer.progress import OnProgress

from ..batch.ledger import CHUNK
from ..engine.loading import load_index
from .output import PartialOutput
from .scorer import ScorableItem, Scored, score_items
from .sources import read_items


class ScoreRun:
    """What is to be scored, and how far an interrupted run came with it.

    Parameters
    ----------
    index, items, output, features
        Files, as `polydom score` has them.
    resume
        Go on after the rows of an interrupted run.
    label, top
        Keep only the `top` items most likely of class `label`.
    separator, encoding
        Of a CSV file of items; None where they are to be found.

    Attributes
    ----------
    unit
        What the index counts.
    count
        How many items there are, None where that is not known.
    rows
        Rows of the output so far.
    remarks
        Says which columns were not read by now, and which there never were.

    Raises
    ------
    BadInput
        If files or options cannot be used.
    BadIndexFile
        If the index holds no models.
    """

    def __init__(
        self,
        index: Path,
        items: Path,
        output: Path,
        features: Sequence[Path],
        resume: bool,
        label: str | None,
        top: int | None,
        separator: str | None = None,
        encoding: str | None = None,
    ) -> None:
        loaded, package = load_index(index)
        if (label is None) != (top is None):
            one, other = ("label", "top") if top is None else ("top", "label")
            raise BadInput(
                f"--{one} needs --{other}: the class to look for, and how many of its "
                "likeliest items to keep"
            )
        if resume and top is not None:
            raise BadInput("a run with --top has no rows before its end to resume from")
        self.unit = str(package.meta.get("unit", "s"))
        source = read_items(items, package, separator, encoding)
        self.count = source.number
        self._items = source.items
        self.remarks = source.remarks
        self._index, self._features = index, features
        self._label, self._top = label, top
        self._facts = {
            "index": loaded.version,
            "items": str(items.resolve()),
            "count": source.number,
            "label": label,
            "top": top,
        }
        self._output, self._resume = output, resume
        self.rows = 0

    def carry_out(
        self, amount: float, workers: int, stops: bool, on_progress: OnProgress
    ) -> int:
        """Score what is left under a budget, write the output; how many errors.

        Raises
        ------
        BadInput
            If an item cannot be answered and `stops` says so; the rows before it stay
            for a run that resumes.
        """
        errors = 0
        with PartialOutput(self._output, self._facts, resume=self._resume) as partial:
            self.rows = partial.done
            for name, row in self._scored(amount, workers):
                if row.error is not None:
                    errors += 1
                    if stops:
                        raise BadInput(f"item {name}: {row.error}")
                row.item = name
                partial.add(row)
                self.rows += 1
                if self.rows % CHUNK == 0:
                    partial.flush()
                    on_progress(self.rows)
            on_progress(self.rows)
            partial.finish()
        return errors

    def _scored(self, amount: float, workers: int) -> Iterator[tuple[str, Scored]]:
        names: dict[int, str] = {}
        left = itertools.islice(self._items, self.rows, None)

        def items() -> Iterator[ScorableItem]:
            for number, (name, item) in enumerate(left):
                names[number] = name
                yield item

        counts_time = self.unit == "s"
        rows = score_items(
            self._index,
            items(),
            amount if counts_time else None,
            total_budget=None if counts_time else amount,
            features=self._features,
            count=None if self.count is None else self.count - self.rows,
            label=self._label,
            top=self._top,
            workers=workers,
        )
        for row in rows:
            assert isinstance(row.item, int)
            yield names.pop(row.item), row
