"""The metrics that a server shows."""

from collections.abc import Iterator

from polydom.server.http import cpu_throttling
from polydom.server.http.prometheus import COUNTER, FAMILIES, GAUGE, HELP, HISTOGRAM
from tools.generated_parts import table

KINDS = {HISTOGRAM: "histogram", COUNTER: "counter", GAUGE: "gauge"}
ENDS = {"counter": "_total", "info": "_info"}


def parts() -> dict[str, str]:
    """One table of all."""
    return {"metrics": table(("metric", "kind", "labels", "what"), rows())}


def rows() -> Iterator[tuple[str, str, str, str]]:
    """A row for each metric: those of models, then of the whole process."""
    for family in FAMILIES:
        kind = KINDS.get(family.kind, "info")
        labels = ("version",) if kind == "info" else family.labels
        shown = ", ".join(f"`{label}`" for label in ("model", *labels))
        name = f"{family.name}{ENDS.get(kind, '')}"
        yield f"`{name}`", kind, shown, HELP[family.name]
    waiting = "polydom_waiting"
    yield f"`{waiting}`", "gauge", "", HELP[waiting]
    yield f"`{cpu_throttling.NAME}_total`", "counter", "", cpu_throttling.HELP
