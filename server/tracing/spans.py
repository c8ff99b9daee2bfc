"""Spans of answers and errors, made by OpenTelemetry's SDK after they were written.

The SDK's own variables choose the sampler and the exporter, such as
`OTEL_TRACES_SAMPLER` and `OTEL_EXPORTER_OTLP_ENDPOINT`. A thread of the SDK exports.
"""

import os
import threading
import time
from collections.abc import Mapping
from typing import Any

from opentelemetry.context import Context
from opentelemetry.sdk.resources import SERVICE_NAME, Resource
from opentelemetry.sdk.trace import RandomIdGenerator, TracerProvider
from opentelemetry.sdk.trace.export import (
    BatchSpanProcessor,
    ConsoleSpanExporter,
    SpanExporter,
)
from opentelemetry.trace import (
    Span,
    SpanKind,
    Status,
    StatusCode,
    Tracer,
    set_span_in_context,
)
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from ..engine.request import Outcome, Part, Request
from ..errors import Failure
from ..schema.request_ids import RequestIds, make_ids
from .variables import exporter_name, make_draw

# Maximum seconds to export what waits when the server stops.
STOP_S = 5.0
Facts = Mapping[str, Any]


class Tracing:
    """Begins a `Trace` for each request that is sampled.

    Make one in each process, and after it forks, because a thread exports the spans.
    `exporter` is the one that the SDK's variables name, unless it is given.
    """

    def __init__(self, exporter: SpanExporter | None = None) -> None:
        resource = Resource.create()
        # the SDK's own name for a service without a name
        if str(resource.attributes[SERVICE_NAME]).startswith("unknown_service"):
            resource = resource.merge(Resource({SERVICE_NAME: "polydom"}))
        self._draw = make_draw(os.environ)
        self._ids = DrawnIds()
        self._provider = TracerProvider(
            resource=resource, id_generator=self._ids, shutdown_on_exit=False
        )
        processor = BatchSpanProcessor(exporter or _make_exporter())
        self._provider.add_span_processor(processor)
        self._tracer = self._provider.get_tracer("polydom")

    def begin(self, ids: RequestIds | None, arrived_s: float) -> RequestIds | None:
        """Return the ids of a request; with its `Trace` and our span if it is sampled.

        `arrived_s` is the monotonic time of the request's first byte.
        """
        trace_id = self._draw(ids)
        if not trace_id:
            return ids
        self._ids.drawn = trace_id
        offset_ns = time.time_ns() - time.monotonic_ns()
        span = self._tracer.start_span(
            "predict",
            _context_of(ids),
            SpanKind.SERVER,
            start_time=_nanoseconds(arrived_s, offset_ns),
        )
        if not span.is_recording():
            return ids
        own = span.get_span_context()
        parent = b"00-%032x-%016x-%02x" % (own.trace_id, own.span_id, own.trace_flags)
        request_id = b"" if ids is None else ids.request_id
        state = b"" if ids is None else ids.tracestate
        trace = Trace(self._tracer, span, offset_ns)
        if request_id:
            span.set_attribute("polydom.request_id", request_id.decode())
        return make_ids(request_id, parent, state, trace)

    def stop(self) -> None:
        """Export what waits, for at most `STOP_S` seconds."""
        stopping = threading.Thread(target=self._provider.shutdown, daemon=True)
        stopping.start()
        stopping.join(STOP_S)


class Trace:
    """The span of one sampled request, which ends with its answer or its error.

    `offset_ns` is the time since 1970 at which the monotonic clock was 0.
    """

    __slots__ = ("_offset_ns", "_span", "_tracer")

    def __init__(self, tracer: Tracer, span: Span, offset_ns: int) -> None:
        self._tracer, self._span, self._offset_ns = tracer, span, offset_ns

    def answered(
        self, request: Request, outcome: Outcome, sent_s: float, facts: Facts
    ) -> None:
        """End the span of an answer that was written at `sent_s`, with its parts.

        `facts` are attributes besides those of the request and its outcome.
        """
        if not self._span.is_recording():  # it was one of several items
            return
        budget = request.budget
        self._span.set_attributes(
            {
                "polydom.size": request.item.size,
                "polydom.budget": budget.amount,
                "polydom.predicted": outcome.predicted,
                "polydom.reason": outcome.reason or "",
                "polydom.early": outcome.early,
                "polydom.expected_quality": outcome.quality,
                "polydom.budget_met": sent_s <= budget.due_s,
                **facts,
            }
        )
        queued = ("queue", request.read_s, max(outcome.started_s, request.read_s))
        self._add(*queued, {})
        fetches = request.fetches
        for part in (*(fetches.parts if fetches else ()), *outcome.parts):
            self._add_part(part)
        self._span.end(_nanoseconds(sent_s, self._offset_ns))

    def batch_answered(self, sent_s: float, facts: Facts) -> None:
        """End the span of several items that were answered together."""
        self._span.update_name("batch")
        self._span.set_attributes(dict(facts))
        self._span.end(_nanoseconds(sent_s, self._offset_ns))

    def failed(self, failure: Failure, model: str, *, batch: bool = False) -> None:
        """End the span of an error now; `model` is empty if none was reached."""
        span = self._span
        if batch:
            span.update_name("batch")
        if span.is_recording():
            if model:
                span.set_attribute("polydom.model", model)
            span.set_attribute("error.type", failure.code)
            span.set_status(Status(StatusCode.ERROR, failure.error))
            span.end()

    def _add_part(self, part: Part) -> None:
        name = "model" if part.kind == "model" else f"{part.kind} {part.name}"
        facts = {"polydom.planned": part.planned, "polydom.left": part.left}
        self._add(name, part.began_s, part.ended_s, facts, failed=part.failed)

    def _add(
        self,
        name: str,
        began_s: float,
        ended_s: float,
        facts: Facts,
        *,
        failed: bool = False,
    ) -> None:
        span = self._tracer.start_span(
            name,
            set_span_in_context(self._span),
            attributes=facts,
            start_time=_nanoseconds(began_s, self._offset_ns),
        )
        if failed:
            span.set_status(Status(StatusCode.ERROR))
        span.end(_nanoseconds(ended_s, self._offset_ns))


class DrawnIds(RandomIdGenerator):  # type: ignore[misc]  # an extra
    """The SDK's generator of ids; a new trace gets the id in `drawn`."""

    drawn = 0

    def generate_trace_id(self) -> int:
        """Return the id of a new trace."""
        return self.drawn


def _make_exporter() -> SpanExporter:
    if exporter_name() == "console":
        return ConsoleSpanExporter()
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

    return OTLPSpanExporter()


def _context_of(ids: RequestIds | None) -> Context:
    """Return the SDK's context of a request, with the caller's span as parent."""
    context = Context()
    if ids is None or not ids.traceparent:
        return context
    carrier = {"traceparent": ids.traceparent.decode()}
    if ids.tracestate:
        carrier["tracestate"] = ids.tracestate.decode("latin-1")
    return TraceContextTextMapPropagator().extract(carrier, context)


def _nanoseconds(monotonic_s: float, offset_ns: int) -> int:
    return int(monotonic_s * 1e9) + offset_ns
