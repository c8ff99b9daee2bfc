"""The metrics that a server shows."""

from collections.abc import Iterator

from polydom.server.metrics.fetch_metrics import FETCH_FAMILIES
from polydom.server.metrics.prometheus import (
    COUNTER,
    DROPPED,
    DROPPED_HELP,
    FAMILIES,
    GAUGE,
    HISTOGRAM,
    THROTTLED,
    THROTTLED_HELP,
    WAITING,
    WAITING_HELP,
)
from polydom.server.metrics.version_metrics import (
    SHADOW,
    SHADOW_HELP,
    SHADOW_LABELS,
    VERSION_FAMILIES,
)
from tools.generated_parts import table

KINDS = {HISTOGRAM: "histogram", COUNTER: "counter", GAUGE: "gauge"}
ENDS = {"counter": "_total", "info": "_info"}


def parts() -> dict[str, str]:
    """One table of all."""
    return {"metrics": table(("metric", "kind", "labels", "what"), rows())}


def rows() -> Iterator[tuple[str, str, str, str]]:
    """A row for each metric: of models, of fetches, by version, then of the process."""
    for family in FAMILIES:
        kind = KINDS.get(family.kind, "info")
        labels = ("version",) if kind == "info" else family.labels
        shown = ", ".join(f"`{label}`" for label in ("model", *labels))
        yield f"`{family.name}{ENDS.get(kind, '')}`", kind, shown, family.help
    for fetch_family in FETCH_FAMILIES:
        kind = KINDS[fetch_family.kind]
        shown = ", ".join(f"`{label}`" for label in fetch_family.labels)
        name = f"`{fetch_family.name}{ENDS.get(kind, '')}`"
        yield name, kind, shown, fetch_family.help
    for version_family in VERSION_FAMILIES:
        kind = KINDS[version_family.kind]
        shown = ", ".join(f"`{label}`" for label in version_family.labels)
        name = f"`{version_family.name}{ENDS.get(kind, '')}`"
        yield name, kind, shown, version_family.help
    shown = ", ".join(f"`{label}`" for label in SHADOW_LABELS)
    yield f"`{SHADOW}_total`", "counter", shown, SHADOW_HELP
    yield f"`{WAITING}`", "gauge", "", WAITING_HELP
    yield f"`{DROPPED}_total`", "counter", "`file`", DROPPED_HELP
    yield f"`{THROTTLED}_total`", "counter", "", THROTTLED_HELP
