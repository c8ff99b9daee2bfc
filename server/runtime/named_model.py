"""A model of the repository: its name, its file, and the index that answers now."""

import asyncio
from dataclasses import dataclass
from pathlib import Path

from ..errors import ChangedContract
from ..metrics.counts import Metrics
from .contract import Contract, contract_of, differences
from .served_model import ServedModel


@dataclass(slots=True, eq=False)
class NamedModel:
    """A model's name and file, and the index that answers now (None if not loaded).

    `next` is a reload that has not begun; further callers of `reload` wait for it, too.
    If one of them allows changes, `allows_changes` is True until it begins. `contract`
    is that of the last index that answered.
    """

    name: str
    path: Path
    metrics: Metrics
    served: ServedModel | None = None
    loading: bool = False
    reason: str = ""
    next: asyncio.Task[None] | None = None
    allows_changes: bool = False
    contract: Contract | None = None

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
