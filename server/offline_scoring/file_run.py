"""One run of `polydom score`, which writes the answers to all items into one file."""

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from polydom.features.errors import BadInput
from polydom.indexer.progress import OnProgress

from ..batch.batch_budget import CHUNK
from ..engine.loading import load_index
from .item_rows import read_items
from .output_file import PartialOutput, refuse_answers
from .output_row import ScorableItem, Scored
from .score_items import ReadyIndex, score_by


@dataclass
class FileRun:
    """A run that scores all items into one file.

    The fields are the options of `polydom score`.
    """

    index: Path
    items: Path
    output: Path
    features: Sequence[Path]
    resume: bool
    label: str | None
    top: int | None
    separator: str | None = None
    encoding: str | None = None
    exact: bool = False
    rows: int = field(init=False, default=0)

    def __post_init__(self) -> None:
        """Read the index and find the items; raise BadInput if options conflict."""
        refuse_answers(self.output, [self.index, self.items, *self.features])
        label, top = self.label, self.top
        index, package = load_index(self.index)
        if (label is None) != (top is None):
            one, other = ("label", "top") if top is None else ("top", "label")
            raise BadInput(
                f"--{one} needs --{other}: the class to look for, and how many of its "
                "likeliest items to keep"
            )
        if self.resume and top is not None:
            raise BadInput("a run with --top has no rows before its end to resume from")
        self._loaded = index
        self._numeric = package.numeric
        self.unit = str(package.meta.get("unit", "s"))
        self.source = read_items(self.items, package, self.separator, self.encoding)
        self._facts = {
            "index": index.version,
            "items": str(self.items.resolve()),
            "count": self.source.total,
            "label": label,
            "top": top,
            "exact": self.exact,
        }

    def warm_up(self, workers: int) -> ReadyIndex:
        """Return the index, ready to answer in this process or in `workers` others."""
        index = self._loaded if workers == 1 else self.index
        return ReadyIndex.of(index, self.features, workers)

    def carry_out(
        self, ready: ReadyIndex, amount: float, stops: bool, on_progress: OnProgress
    ) -> int:
        """Score the remaining items, and return how many of them got an error.

        `ready` is what `warm_up` returned. `amount` is the budget of these items:
        seconds, or an amount in the index's unit. If `stops`, an item that cannot be
        answered raises BadInput; the rows before it stay, so that the run can be
        resumed.
        """
        errors = 0
        with PartialOutput(
            self.output, self._facts, resume=self.resume, numeric=self._numeric
        ) as partial:
            self.rows = partial.done
            for name, row in self._scored(ready, amount):
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

    def _scored(self, ready: ReadyIndex, amount: float) -> Iterator[tuple[str, Scored]]:
        names: dict[int, str] = {}
        count = self.source.total
        left = itertools.islice(self.source.rows, self.rows, None)

        def items() -> Iterator[ScorableItem]:
            for number, row in enumerate(left):
                names[number] = row.name
                yield row.item

        rows = score_by(
            ready,
            items(),
            amount,
            count=None if count is None else count - self.rows,
            label=self.label,
            top=self.top,
            exact=self.exact,
        )
        for row in rows:
            assert isinstance(row.item, int)
            yield names.pop(row.item), row
