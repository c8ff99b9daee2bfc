"""One part scored, by whichever process has it: its items in, one file out."""

import hashlib
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from secrets import token_hex
from typing import Any

import msgspec

from polydom.features.errors import BadInput, PolydomError
from polydom.features.readers.table_file import import_parquet
from polydom.features.threads import one_thread
from polydom.indexer.index.safe_write import naming

from ..batch.batch_plan import BatchPlan, answer_by_plan
from ..batch.ledger import Assignment, Numbered, Result
from ..engine.outcome import Outcome
from .opened_index import IndexFile, OpenedIndex
from .parts import ROWS, Part, Rows
from .scored import OF_PLAN, Scored, arrow_batch, as_item, columns_of, row_of

UNFINISHED = "_unfinished-"  # readers of folders leave such files out


class PartScored(msgspec.Struct):
    """What became of a part.

    Attributes
    ----------
    number, rows, errors
        Which, its items, and those that have no answer.
    planned
        What its plans were to cost by the index, on average.
    plans, spent
        What carrying them out took, and all of it, reading and writing too: reference
        seconds of a processor; or an amount in the index's unit, the same for both.
    measured_s
        Seconds of the processor that had it.
    quality
        Sum of what is expected of its answers.
    is_first
        Whether its process had scored none before.
    digest
        Of its file, by `digest_of`.
    """

    number: int
    rows: int = 0
    errors: int = 0
    planned: float = 0.0
    plans: float = 0.0
    spent: float = 0.0
    measured_s: float = 0.0
    quality: float = 0.0
    is_first: bool = False
    digest: str = ""


class PartJob(msgspec.Struct, frozen=True):
    """What all parts of a batch have in common.

    Attributes
    ----------
    file
        The index.
    folder
        Where files with answers go.
    keep
        Columns of the items that stand beside the answers.
    stops
        Whether an item that has no answer ends it all.
    """

    file: IndexFile
    folder: str
    keep: tuple[str, ...]
    stops: bool


def score_part(job: PartJob, part: Part, plan: BatchPlan) -> PartScored:
    """Score a part into a file of its own, which appears whole or not at all.

    The same part and plan make the same answers, wherever and however often.

    Raises
    ------
    BadInput
        If the items cannot be read, or one has no answer and that ends it all.
    BadIndexFile, BadFeature
        If another index is at the path, or it cannot answer.
    CannotWrite
        If the disk is full, or for another such reason.
    """
    opened = job.file.open()
    with one_thread():
        return _PartScoring(job, part, plan, opened).run()


def digest_of(path: Path) -> str:
    """Identify what a file holds; nothing where it cannot be read."""
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError:
        return ""


class _PartScoring:
    """A part being scored.

    Time is counted of the thread: a process may have several.
    """

    def __init__(
        self, job: PartJob, part: Part, plan: BatchPlan, opened: OpenedIndex
    ) -> None:
        self._job = job
        self._part = part
        self._plan = plan
        self._opened = opened
        self._planner = opened.translator.planner
        self._assigner = opened.assigner(plan)
        self._columns = columns_of(self._planner.package.numeric)
        self._found = PartScored(part.number, is_first=opened.is_fresh)
        opened.is_fresh = False
        self._here = self._reference = self._plans_s = 0.0

    def run(self) -> PartScored:
        busy = self._planner.busy
        folder = Path(self._job.folder)
        path = folder / f"{UNFINISHED}{token_hex(8)}"
        began_s = busy()
        try:
            with naming(path):
                self._write(path, began_s)
                self._found.digest = digest_of(path)
                path.replace(folder / self._part.name)
        finally:
            path.unlink(missing_ok=True)
        return self._found

    def _write(self, path: Path, began_s: float) -> None:
        parquet = import_parquet(path)
        package, keep = self._planner.package, self._job.keep
        writer: Any = None
        try:
            for rows in self._part.read(package, keep, ROWS):
                batch = self._batch(rows)
                if writer is None:
                    writer = parquet.ParquetWriter(path, batch.schema)
                writer.write_batch(batch)
            if self._found.rows != self._part.count:
                raise BadInput(
                    f"part {self._part.number} has {self._found.rows} items, and had "
                    f"{self._part.count}: they changed meanwhile"
                )
            self._sum_up(self._planner.busy() - began_s)
        finally:
            if writer is not None:
                writer.close()
        with path.open("r+b") as file:
            os.fsync(file.fileno())

    def _batch(self, rows: Rows) -> Any:
        """Score some items; their names, what is kept of them, and the answers."""
        import pyarrow as pa

        translator = self._opened.translator
        numbered = enumerate(as_item(translator, item) for item in rows.items)
        answers = []
        for name, result in zip(rows.names, self._results(numbered), strict=True):
            row = row_of(translator, result)
            if row.error is not None and self._job.stops:
                raise BadInput(f"item {name}: {row.error}")
            row.item = name
            self._count(row)
            answers.append(row)
        columns = (*self._columns, *OF_PLAN)
        plan = self._plan
        same = {"price": plan.price, "index_version": plan.index_version}
        batch = arrow_batch(answers, columns, **same)
        kept = zip(self._job.keep, rows.kept, strict=True)
        named = {"item": batch.column(0)} | dict(kept)
        named |= dict(zip(columns[1:], batch.columns[1:], strict=True))
        return pa.RecordBatch.from_pydict(named)

    def _count(self, row: Scored) -> None:
        found = self._found
        found.rows += 1
        found.errors += row.error is not None
        found.quality += row.expected_quality or 0.0

    def _results(self, items: Iterable[Numbered]) -> Iterator[Result]:
        return answer_by_plan(self._planner, self._assigner, items, self._book)

    def _book(
        self, assignment: Assignment, outcome: Outcome | PolydomError, busy_s: float
    ) -> None:
        found, size = self._found, assignment.item.size
        found.planned += assignment.cost
        self._reference += self._opened.index.cost_s(assignment.row, size)
        self._here += self._planner.index.cost_s(assignment.row, size)
        if self._planner.unit == "s":
            found.plans += busy_s
        elif isinstance(outcome, Outcome):
            found.plans += outcome.charged
        else:  # what it took before it failed is not known
            found.plans += assignment.cost

    def _sum_up(self, measured_s: float) -> None:
        """Make reference seconds of what was measured here."""
        found = self._found
        found.measured_s, found.spent = measured_s, found.plans
        if self._planner.unit == "s":
            slower = self._here / self._reference if self._reference else 1.0
            found.plans /= slower
            found.spent = measured_s / slower
