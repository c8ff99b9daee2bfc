"""What there is to say of an index that is served."""

from typing import Annotated

import msgspec

from ..indexer.package import Package
from .schema_facts import ExitFacts, PlanExitFacts

Share = Annotated[float, msgspec.Meta(ge=0, le=1)]


class _Plan(msgspec.Struct):
    row: Annotated[int, msgspec.Meta(ge=0)]
    early: Share
    saved: Share
    changed: Share


class _Built(msgspec.Struct):
    """What the build wrote down."""

    alpha: Share
    plans: Annotated[list[_Plan], msgspec.Meta(min_length=1)]
    fitted: Annotated[int, msgspec.Meta(ge=0)]
    calibrated: Annotated[int, msgspec.Meta(ge=0)]
    confidence: Share | None = None


def read_exits(
    package: Package, names: tuple[tuple[str, ...], ...]
) -> ExitFacts | None:
    """Read what a package's report says of its exits; None where there are none.

    `names` (C,) are the features of each candidate's set. A report that says less, or
    something else than a build writes, counts as none.
    """
    if not package.margins:
        return None
    try:
        built = msgspec.convert(package.meta.get("exits"), _Built)
        plans = [
            PlanExitFacts(names[plan.row], plan.early, plan.saved, plan.changed)
            for plan in built.plans
        ]
    except (msgspec.ValidationError, IndexError):
        return None
    return ExitFacts(
        alpha=built.alpha,
        confidence=built.confidence,
        fitted=built.fitted,
        calibrated=built.calibrated,
        early=sum(plan.early for plan in plans) / len(plans),
        saved=sum(plan.saved for plan in plans) / len(plans),
        plans=plans,
    )
