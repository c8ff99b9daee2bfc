"""Spans of answers and errors, by the SDK and its exporter in memory."""

import time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from polydom.server.engine.budget import Deadline
from polydom.server.engine.executions.execution import execute
from polydom.server.engine.request import Outcome, Request
from polydom.server.errors import Failure
from polydom.server.schema.request_ids import RequestIds, make_ids, read_ids
from tests.support.clock import Clock
from tests.support.examples import few
from tests.support.otel import needs_otel
from tests.support.planners import TEXT_100, slow_planner

TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
PARENT = make_ids(b"a-1", f"00-{TRACE}-{SPAN}-01".encode(), b"vendor=1")


@pytest.fixture
def traced(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A `Tracing`, and the exporter that keeps its spans in memory."""
    needs_otel()
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import (
        InMemorySpanExporter,
    )

    from polydom.server.tracing.spans import Tracing

    for name in ("OTEL_TRACES_SAMPLER", "OTEL_SERVICE_NAME"):
        monkeypatch.delenv(name, raising=False)
    exporter = InMemorySpanExporter()
    return Tracing(exporter), exporter


def outcome_of(ids: RequestIds | None) -> tuple[Request, Outcome]:
    """Of a text whose features take 1, 4 and 4 ms, from a monotonic time on."""
    now_s = time.monotonic()
    planner = slow_planner(Clock(now_s), (1e-3, 4e-3, 4e-3))
    budget = Deadline(now_s, 1.0)
    request = Request(
        TEXT_100, budget, arrived_s=now_s, read_s=now_s, timed=True, ids=ids
    )
    return request, execute(planner, request)


def test_an_answer_is_a_span_with_its_parts(traced: Any) -> None:
    tracing, exporter = traced
    arrived_s = time.monotonic()
    ids = tracing.begin(PARENT, arrived_s)
    request, outcome = outcome_of(ids)
    ids.trace.answered(request, outcome, outcome.finished_s + 1e-3, {"polydom.x": "y"})
    tracing.stop()
    *parts, root = exporter.get_finished_spans()
    names = ["queue", "feature length", "feature marks", "feature words", "model"]
    assert [span.name for span in parts] == names
    assert {span.parent.span_id for span in parts} == {root.context.span_id}
    assert {span.context.trace_id for span in (*parts, root)} == {int(TRACE, 16)}
    assert root.parent.span_id == int(SPAN, 16)
    assert root.context.trace_state.get("vendor") == "1"
    took_ms = [round((one.end_time - one.start_time) / 1e6, 2) for one in parts]
    assert took_ms == [0, 1, 4, 4, 0]
    assert parts[1].attributes["polydom.planned"] == pytest.approx(1e-3)
    assert parts[2].attributes["polydom.left"] == pytest.approx(0.999)
    assert root.attributes["polydom.x"] == "y"
    assert root.attributes["polydom.request_id"] == "a-1"
    assert root.attributes["polydom.budget_met"]
    assert root.status.is_ok
    assert root.resource.attributes["service.name"] == "polydom"
    wall_ns = time.time_ns() - time.monotonic_ns()
    began_ns = [int(one.began_s * 1e9) + wall_ns for one in outcome.parts]
    for span, time_ns in zip(parts[1:], began_ns, strict=True):
        assert abs(span.start_time - time_ns) < 1e9
    # the reply names our span as the parent
    own = f"00-{TRACE}-{root.context.span_id:016x}-0"
    assert ids.traceparent.decode().startswith(own)
    assert ids.headers()[0] == (b"x-request-id", b"a-1")


def test_an_error_is_a_span_with_its_code(traced: Any) -> None:
    tracing, exporter = traced
    ids = tracing.begin(None, time.monotonic())
    ids.trace.failed(Failure("no such model", "unknown_model"), "")
    ids.trace.failed(Failure("a second end", "ignored"), "")
    tracing.stop()
    (span,) = exporter.get_finished_spans()
    assert not span.status.is_ok
    assert span.status.description == "no such model"
    assert span.attributes["error.type"] == "unknown_model"
    assert span.parent is None


def test_a_batch_is_one_span(traced: Any) -> None:
    tracing, exporter = traced
    ids = tracing.begin(PARENT, time.monotonic())
    ids.trace.batch_answered(time.monotonic(), {"polydom.items": 3})
    ids.trace.answered(*outcome_of(ids), time.monotonic(), {})
    tracing.stop()
    (span,) = exporter.get_finished_spans()
    assert (span.name, dict(span.attributes)["polydom.items"]) == ("batch", 3)


def test_nothing_is_made_of_what_is_not_sampled(traced: Any) -> None:
    tracing, exporter = traced
    ids = make_ids(b"", f"00-{TRACE}-{SPAN}-00".encode(), b"")
    assert tracing.begin(ids, time.monotonic()) is ids
    tracing.stop()
    assert not exporter.get_finished_spans()


@settings(max_examples=few(400), deadline=None)
@given(
    st.from_regex(r"[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}", fullmatch=True),
    st.integers(0, 54),
    st.sampled_from(["", "", "", "0", "-", "g", "A"]),
)
def test_a_parent_is_read_as_the_sdk_reads_it(value: str, place: int, put: str) -> None:
    needs_otel()
    from opentelemetry.trace import get_current_span
    from opentelemetry.trace.propagation.tracecontext import (
        TraceContextTextMapPropagator,
    )

    if put:
        value = value[:place] + put + value[place + 1 :]
    context = TraceContextTextMapPropagator().extract({"traceparent": value})
    expected = get_current_span(context).get_span_context()
    ids = read_ids((b"traceparent", value.encode()))
    assert (ids is not None) == expected.is_valid
    if ids is not None:
        assert int(ids.trace_id, 16) == expected.trace_id
        assert int(ids.traceparent[36:52], 16) == expected.span_id
        assert int(ids.traceparent[53:], 16) & 1 == expected.trace_flags & 1
