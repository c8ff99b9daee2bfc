"""One run of `polydom score-parts`: workers score parts within one total budget."""

import logging
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from polydom.features.errors import BadInput
from polydom.features.readers.table_file import import_parquet
from polydom.features.wording import listed
from polydom.indexer.cluster.workers import Workers
from polydom.indexer.progress import OnProgress

from ..batch.batch_plan import BatchPlan, PlanFinder
from ..engine.loading import load_index
from .checkpoint import NAME, Checkpoint
from .folder_budget import FolderBudget, ShapeSample
from .output_file import refuse_among
from .output_row import OF_PLAN, check_kept, columns_of
from .part_scoring import PartJob, PartScored, digest_of, score_part
from .parts import Part, check_columns, divide
from .worker_index import IndexFile

log = logging.getLogger("polydom")

CURE = "use fewer workers; parts that are done stay for `--resume`"


@dataclass
class FolderRun:
    """A run that scores items in parts. Its fields are options of the command line.

    `scored` has the results of finished parts, in the order in which they finished.
    """

    index: Path
    items: Path
    features: Sequence[Path] = ()
    keep: Sequence[str] = ()
    exact: bool = False
    part_items: int | None = None
    scored: list[PartScored] = field(init=False, default_factory=list)

    def __post_init__(self) -> None:
        """Read the index, and divide the items into parts."""
        self._file, package = IndexFile.of(self.index, self.features)
        self._columns = (*columns_of(package.numeric), *OF_PLAN)
        check_kept(self.keep, self._columns)
        self._package = package
        self._loaded, _ = load_index(self.index)
        self._finder = PlanFinder(self._loaded, self.exact)
        self.unit = self._finder.unit
        self.parts = divide(self.items, package, self.part_items)
        check_columns(self.items, self.keep)
        if not self.parts:
            raise BadInput(f"{self.items} holds no item")

    @property
    def count(self) -> int:
        """The number of items in all parts together."""
        return sum(part.count for part in self.parts)

    @cached_property
    def _sample(self) -> ShapeSample:
        return ShapeSample(self.parts, self._package, self._loaded.pairs)

    def foresee(self, total: float) -> BatchPlan:
        """Return the plan that the budget `total` allows, estimated from a sample."""
        return FolderBudget(self._finder, self._sample, self.parts, total).find()

    def remarks(self) -> list[str]:
        """Return remarks on the index's columns that no sampled item has."""
        lacking = self._sample.lacking
        if not lacking:
            return []
        return [
            f"columns that the index knows, in no row looked at: {listed(lacking)}; "
            "what needs them does not answer"
        ]

    def carry_out(
        self,
        folder: Path,
        total: float,
        workers: Workers,
        *,
        resume: bool = False,
        stops: bool = False,
        on_progress: OnProgress = lambda done, left=None: None,
    ) -> None:
        """Score all unfinished parts into `folder`, one file for each part.

        A file appears when its part is complete. `total` limits the cost of all parts,
        including parts of earlier runs. If `stops`, an item that cannot be answered
        ends the run with BadInput. Raises WorkerLost if worker processes are killed
        again and again.
        """
        refuse_among(folder, self.items)
        import_parquet(folder)  # raises BadInput if Arrow is missing
        facts = {
            "index": self._file.version,
            "items": str(self.items.resolve()),
            "parts": len(self.parts),
            "count": self.count,
            "keep": list(self.keep),
            "exact": self.exact,
            "columns": self._columns,
        }
        budget = FolderBudget(self._finder, self._sample, self.parts, total)
        job = PartJob(self._file, str(folder.absolute()), tuple(self.keep), stops)
        with Checkpoint(folder, facts, resume=resume) as checkpoint:
            left = self._skip_done(folder, checkpoint, budget)
            calls = self._begin_each(job, left, checkpoint, budget)
            done = sum(part.rows for part in self.scored)
            on_progress(done)
            for scored in workers.run(
                score_part,
                calls,
                stage="scoring",
                ordered=False,
                doing=lambda job, part, plan: f"scoring part {part.number}",
                cure=CURE,
            ):
                checkpoint.end(scored)
                budget.end(scored)
                self.scored.append(scored)
                done += scored.rows
                on_progress(done)
            checkpoint.remove_unfinished()

    def _skip_done(
        self, folder: Path, checkpoint: Checkpoint, budget: FolderBudget
    ) -> list[Part]:
        """Subtract finished parts from the budget, and return all other parts."""
        left, doubtful = [], []
        for part in self.parts:
            path, scored = folder / part.name, checkpoint.scored.get(part.number)
            if scored is not None and scored.digest == digest_of(path) != "":
                budget.skip(part, scored)
                self.scored.append(scored)
                continue
            left.append(part)
            if path.exists():
                doubtful.append(part.name)
        if doubtful:
            log.warning(
                "%s: parts that are not what %s says, or of which it says nothing, are "
                "scored again: %s",
                folder,
                NAME,
                listed(doubtful),
            )
        return left

    def _begin_each(
        self,
        job: PartJob,
        parts: Sequence[Part],
        checkpoint: Checkpoint,
        budget: FolderBudget,
    ) -> Iterator[tuple[PartJob, Part, BatchPlan]]:
        """Yield each part with its plan when a worker is free.

        A part that an earlier run began gets the same plan again.
        """
        # random order: if parts came by size, the last few could not correct the
        # spending
        for part in random.Random(0).sample(parts, len(parts)):
            plan = checkpoint.plans.get(part.number)
            if plan is None:
                plan = budget.find()
                checkpoint.begin(part.number, plan)
            budget.begin(part, plan)
            yield job, part, plan
