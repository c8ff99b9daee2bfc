"""Score one part of a batch into one file, in one process."""

import hashlib
import os
from pathlib import Path
from secrets import token_hex
from typing import Any

import msgspec

from polydom.features.errors import BadInput, PolydomError
from polydom.features.readers.table_file import import_parquet
from polydom.features.threads import one_thread
from polydom.indexer.index.file.safe_write import naming

from ..batch.batch_budget import Assignment
from ..batch.batch_plan import BatchPlan, answer_by_plan
from ..engine.request import Outcome
from .output_row import OF_PLAN, arrow_batch, as_item, columns_of, row_of
from .parts import ROWS, Part, Rows
from .worker_index import IndexFile, WorkerIndex

# readers of folders ignore names that begin with an underscore
UNFINISHED = "_unfinished-"


class PartScored(msgspec.Struct):
    """The counts and costs of one part that was scored."""

    # Number of the part; number of its items; number of items without an answer
    number: int
    rows: int = 0
    errors: int = 0
    # Predicted cost of its plans by the index, for the machine of the build
    planned: float = 0.0
    # Measured cost of the plans: processor seconds converted to the index's machine, or
    # an amount in the index's unit
    plans: float = 0.0
    # Measured cost of plans, reading and writing; if costs are money, equal to `plans`
    spent: float = 0.0
    measured_s: float = 0.0  # Processor seconds on the machine that scored the part
    quality: float = 0.0  # Sum of the expected qualities of its answers
    is_first: bool = False  # True if this was the first part of its process
    digest: str = ""  # Digest of its file, by `digest_of`


class PartJob(msgspec.Struct, frozen=True):
    """The settings that all parts of a batch share."""

    file: IndexFile  # File of the index
    folder: str  # Folder for the files with answers
    keep: tuple[str, ...]  # Columns of the items to copy beside the answers
    stops: bool  # True to stop the run at an item that cannot be answered


def score_part(job: PartJob, part: Part, plan: BatchPlan) -> PartScored:
    """Score a part into its own file, which appears only when it is complete.

    The same part and plan give the same answers on any machine. Raises BadInput if an
    item has no answer and `job.stops` is True.
    """
    opened = job.file.open()
    with one_thread():
        return _PartScoring(job, part, plan, opened).run()


def digest_of(path: Path) -> str:
    """Return the SHA-256 digest of a file, or "" if the file cannot be read."""
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError:
        return ""


class _PartScoring:
    """Scores one part, and measures only the processor time of its own thread."""

    def __init__(
        self, job: PartJob, part: Part, plan: BatchPlan, opened: WorkerIndex
    ) -> None:
        self._job = job
        self._part = part
        self._plan = plan
        self._opened = opened
        self._planner = opened.translator.planner
        self._result = PartScored(part.number, is_first=opened.is_fresh)
        opened.is_fresh = False
        self._predicted_here = self._predicted_reference = 0.0

    def run(self) -> PartScored:
        busy = self._planner.busy
        folder = Path(self._job.folder)
        path = folder / f"{UNFINISHED}{token_hex(8)}"
        began_s = busy()
        try:
            with naming(path):
                self._write(path, began_s)
                self._result.digest = digest_of(path)
                path.replace(folder / self._part.name)
        finally:
            path.unlink(missing_ok=True)
        return self._result

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
            if self._result.rows != self._part.count:
                raise BadInput(
                    f"part {self._part.number} has {self._result.rows} items, and had "
                    f"{self._part.count}: they changed meanwhile"
                )
            self._sum_up(self._planner.busy() - began_s)
        finally:
            if writer is not None:
                writer.close()
        with path.open("r+b") as file:
            os.fsync(file.fileno())

    def _batch(self, rows: Rows) -> Any:
        """Score rows; return an Arrow batch of names, kept columns and answers."""
        import pyarrow as pa

        translator, plan, scored = self._opened.translator, self._plan, self._result
        numbered = enumerate(as_item(translator, item) for item in rows.items)
        assigner = self._opened.assigner(plan)
        results = answer_by_plan(self._planner, assigner, numbered, self._charge)
        answers = []
        for name, result in zip(rows.names, results, strict=True):
            row = row_of(translator, result)
            if row.error is not None and self._job.stops:
                raise BadInput(f"item {name}: {row.error}")
            row.item = name
            scored.rows += 1
            scored.errors += row.error is not None
            scored.quality += row.expected_quality or 0.0
            answers.append(row)
        columns = (*columns_of(self._planner.package.numeric), *OF_PLAN)
        same = {"price": plan.price, "index_version": plan.index_version}
        batch = arrow_batch(answers, columns, **same)
        kept = zip(self._job.keep, rows.kept, strict=True)
        named = {"item": batch.column(0)} | dict(kept)
        named |= dict(zip(columns[1:], batch.columns[1:], strict=True))
        return pa.RecordBatch.from_pydict(named)

    def _charge(
        self, assignment: Assignment, outcome: Outcome | PolydomError, busy_s: float
    ) -> None:
        result, size = self._result, assignment.item.size
        result.planned += assignment.cost
        self._predicted_reference += self._opened.index.cost_s(assignment.row, size)
        self._predicted_here += self._planner.index.cost_s(assignment.row, size)
        if self._planner.unit == "s":
            result.plans += busy_s
        elif isinstance(outcome, Outcome):
            result.plans += outcome.charged
        else:  # the cost until the failure is unknown
            result.plans += assignment.cost

    def _sum_up(self, measured_s: float) -> None:
        """Set the part's costs; `measured_s` is the processor time of the whole part.

        Seconds are converted to those of the machine that measured the index.
        """
        result = self._result
        result.measured_s, result.spent = measured_s, result.plans
        if self._planner.unit == "s":
            here, reference = self._predicted_here, self._predicted_reference
            slower = here / reference if reference else 1.0
            result.plans /= slower
            result.spent = measured_s / slower
