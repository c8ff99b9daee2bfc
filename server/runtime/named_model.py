"""A model of the repository: its name, its file, and the index that answers now."""

import asyncio
from dataclasses import dataclass, field
from pathlib import Path

from ..errors import ChangedContract
from ..metrics.counts import CandidateMetrics, Metrics
from .contract import Contract, contract_of, differences
from .rollout.index_files import version_at
from .rollout.orders import RolloutOrder
from .rollout.shadow import Shadow, ShadowCounts
from .rollout.split import Split
from .served_model import ServedModel


@dataclass(slots=True, eq=False)
class NamedModel:
    """A model's name and file, and the index that answers now (None if not loaded).

    `next` is a reload that has not begun; further callers of `reload` wait for it, too.
    If one of them allows changes, `allows_changes` is True until it begins. `contract`
    is that of the last index that answered. `candidate` is the index of the file
    `candidate_path`, beside the served index; None if there is none.
    """

    name: str
    path: Path
    metrics: Metrics
    candidate_path: Path | None = None
    served: ServedModel | None = None
    loading: bool = False
    reason: str = ""
    next: asyncio.Task[None] | None = None
    allows_changes: bool = False
    contract: Contract | None = None
    candidate: ServedModel | None = None
    order: RolloutOrder = field(default_factory=RolloutOrder)
    candidate_metrics: CandidateMetrics = field(init=False)
    compared: ShadowCounts = field(default_factory=ShadowCounts)

    def __post_init__(self) -> None:
        self.candidate_metrics = CandidateMetrics(self.metrics)

    def source(self) -> Path | None:
        """Return the file to serve; None if what is served stays. This reads files.

        After a promotion that moved no files, it is the candidate's file until the
        served file is replaced. If only the candidate's file is replaced, what is
        served stays.
        """
        if self.order.in_stead is None or self.candidate_path is None:
            return self.path
        before, promoted = self.order.in_stead
        if version_at(self.path) != before:
            return self.path
        return self.candidate_path if self.has_file(promoted) else None

    def has_file(self, version: str) -> bool:
        """Return True if the candidate's file has this version. This reads the file."""
        path = self.candidate_path
        return path is not None and version_at(path) == version

    def check(self, new: ServedModel) -> None:
        """Raise ChangedContract if the index `new` would break callers of this one."""
        if self.contract is None:
            return
        changed = differences(self.contract, contract_of(new.planner.package))
        if changed:
            raise ChangedContract(
                f"model {self.name!r}: the new index would break callers: "
                f"{'; '.join(changed)} (--allow-changes, or allow_changes=true, lets "
                "it in)"
            )

    def serve(self, new: ServedModel) -> None:
        """Let the index `new` answer from now on."""
        self.contract = contract_of(new.planner.package)
        self.served, self.reason = new, ""
        self.follow(self.order)

    def takes(self, new: ServedModel) -> bool:
        """Return True if `new` is the candidate's index: then promote the candidate."""
        candidate = self.candidate
        if candidate is None or not candidate.ready or candidate.version != new.version:
            return False
        self.promote()
        return True

    def promote(self) -> None:
        """Let the candidate answer from now on. It is warm; its counts go on."""
        candidate, self.candidate = self.candidate, None
        assert candidate is not None
        candidate.metrics = self.metrics
        self.metrics.planners.add(candidate.planner, candidate.traffic)
        self.serve(candidate)

    def follow(self, order: RolloutOrder) -> None:
        """Use the candidate as the operator has ordered."""
        self.order = order
        served, candidate = self.served, self.candidate
        if served is None:
            return
        served.split = None
        if candidate is None or not candidate.ready or order.mode == "off":
            return
        shadow = None
        if order.mode == "shadow":
            shadow = Shadow(candidate, self.compared, order.share)
        drawn = order.share, order.by
        served.split = Split(self.name, candidate, *drawn, shadow=shadow)
