"""What the variables of OpenTelemetry's SDK say, without the SDK."""

import os
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from random import getrandbits

from polydom.features.errors import BadInput

from ..schema.request_ids import RequestIds

# The SDK's samplers (OTEL_TRACES_SAMPLER) that a request's ids alone decide.
RATIO = "traceidratio"
PARENT_BASED = "parentbased_"
DEFAULT = "parentbased_always_on"
# The ratio samplers compare the lower 64 bits of the trace id with the ratio.
_BITS = 64
_MASK = (1 << _BITS) - 1


# Values of OTEL_TRACES_EXPORTER; the first is the default.
EXPORTERS = ("otlp", "console")


def check_tracing() -> None:
    """Raise BadInput if the SDK is not installed, or its variables name no exporter."""
    exporter_name()
    for package in ("opentelemetry.sdk", "opentelemetry.exporter.otlp.proto.http"):
        try:
            found = find_spec(package)
        except ModuleNotFoundError:
            found = None
        if found is None:
            raise BadInput("--traces needs OpenTelemetry: pip install 'polydom[otel]'")


def exporter_name() -> str:
    """Return which of `EXPORTERS` the variables name; raise BadInput for another."""
    name = os.environ.get("OTEL_TRACES_EXPORTER") or EXPORTERS[0]
    if name not in EXPORTERS:
        known = " or ".join(EXPORTERS)
        raise BadInput(f"OTEL_TRACES_EXPORTER is {name[:40]!r}; it must be {known}")
    return name


def make_draw(
    environment: Mapping[str, str],
) -> Callable[[RequestIds | None], int]:
    """Return a function that draws the trace id of a request, or 0.

    0 means that the sampler which the variables name would not sample the request. Of
    a request with a `traceparent`, the trace id is that of its caller. The SDK takes
    several microseconds to decide, and then decides as drawn here.
    """
    name = environment.get("OTEL_TRACES_SAMPLER", DEFAULT).lower()
    ratio = _ratio(environment.get("OTEL_TRACES_SAMPLER_ARG", ""))
    bounds = {
        "always_on": _MASK + 1,
        "always_off": 0,
        RATIO: round(ratio * (_MASK + 1)),
    }
    follows = name.startswith(PARENT_BASED)
    bound = bounds.get(name.removeprefix(PARENT_BASED), _MASK + 1)

    def draw(ids: RequestIds | None) -> int:
        if ids is None or not ids.traceparent:
            trace_id = getrandbits(128)
            return trace_id if trace_id & _MASK < bound else 0
        if follows:
            return int(ids.trace_id, 16) if ids.traceparent[-1] in b"13" else 0
        trace_id = int(ids.trace_id, 16)
        return trace_id if trace_id & _MASK < bound else 0

    return draw


def _ratio(said: str) -> float:
    """Return the ratio that a variable says; 1 for others, as the SDK reads it."""
    try:
        ratio = float(said)
    except ValueError:
        return 1.0
    return ratio if 0 <= ratio <= 1 else 1.0
