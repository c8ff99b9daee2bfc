"""One run of `polydom score` into a folder: parts spread over workers, one total."""

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
from .journal import NAME, Journal
from .opened_index import IndexFile
from .output import refuse_among
from .part_scoring import PartJob, PartScored, digest_of, score_part
from .parts import Part, check_columns, divide
from .scored import OF_PLAN, check_kept, columns_of
from .shape_sample import ShapeSample
from .spending import Spending

log = logging.getLogger("polydom")

CURE = "use fewer workers; parts that are done stay for `--resume`"


@dataclass
class BatchRun:
    """What is to be scored in parts, with the options of `polydom score`.

    Attributes
    ----------
    unit
        What the index counts.
    parts
        Of the items, in order.
    scored
        Of each part that is done, in the order in which they ended.

    Raises
    ------
    BadInput
        If files or options cannot be used.
    BadIndexFile
        If the index holds no models.
    """

    index: Path
    items: Path
    features: Sequence[Path] = ()
    keep: Sequence[str] = ()
    exact: bool = False
    part_items: int | None = None
    scored: list[PartScored] = field(init=False, default_factory=list)

    def __post_init__(self) -> None:
        """Read the index, and divide the items."""
        self._file, package = IndexFile.of(self.index, self.features)
        check_kept(self.keep, (*columns_of(package.numeric), *OF_PLAN))
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
        """How many items there are."""
        return sum(part.count for part in self.parts)

    @cached_property
    def _sample(self) -> ShapeSample:
        return ShapeSample(self.parts, self._package, self._loaded.pairs)

    def foresee(self, total: float) -> BatchPlan:
        """Say what a total buys, by the index and a sample of the items."""
        return Spending(self._finder, self._sample, self.parts, total).find()

    def remarks(self) -> list[str]:
        """Say which columns the items lack, if any."""
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
        """Score all parts that are not done into a folder.

        Parameters
        ----------
        folder
            Gets a file for each part, each whole or not there.
        total
            What all parts may spend, those of runs before too.
        workers
            Carry them out.
        resume
            Go on where a run before was interrupted.
        stops
            Whether an item that has no answer ends it all.

        Raises
        ------
        BadInput
            If the folder holds something else, or an item has no answer and `stops`.
        WorkerLost
            If workers are lost again and again.
        """
        refuse_among(folder, self.items)
        import_parquet(folder)  # which refuses what Arrow cannot write
        facts = {
            "index": self._file.version,
            "items": str(self.items.resolve()),
            "parts": len(self.parts),
            "count": self.count,
            "keep": list(self.keep),
            "exact": self.exact,
        }
        spending = Spending(self._finder, self._sample, self.parts, total)
        job = PartJob(self._file, str(folder.absolute()), tuple(self.keep), stops)
        with Journal(folder, facts, resume=resume) as journal:
            left = self._skip_done(folder, journal, spending)
            calls = self._begin_each(job, left, journal, spending)
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
                journal.end(scored)
                spending.end(scored)
                self.scored.append(scored)
                done += scored.rows
                on_progress(done)
            journal.sweep()

    def _skip_done(
        self, folder: Path, journal: Journal, spending: Spending
    ) -> list[Part]:
        """Book the parts that are there as they were written; the others."""
        left, doubtful = [], []
        for part in self.parts:
            path, scored = folder / part.name, journal.scored.get(part.number)
            if scored is not None and scored.digest == digest_of(path) != "":
                spending.skip(part, scored)
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
        self, job: PartJob, parts: Sequence[Part], journal: Journal, spending: Spending
    ) -> Iterator[tuple[PartJob, Part, BatchPlan]]:
        """Price each part as a worker becomes free for it; once for all."""
        # where the largest come first, the last few could not take up what is left
        for part in random.Random(0).sample(parts, len(parts)):
            plan = journal.plans.get(part.number)
            if plan is None:
                plan = spending.find()
                journal.begin(part.number, plan)
            spending.begin(part, plan)
            yield job, part, plan
