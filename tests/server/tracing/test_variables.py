"""Which requests are traced is drawn as the SDK's own samplers decide it."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from polydom.features.errors import BadInput
from polydom.server.schema.request_ids import make_ids
from polydom.server.tracing.variables import check_tracing, make_draw
from tests.support.examples import few
from tests.support.otel import needs_otel

SAMPLERS = ("always_on", "always_off", "traceidratio")
NAMES = (*SAMPLERS, *(f"parentbased_{name}" for name in SAMPLERS), "Always_OFF", "mine")
RATIOS = ("0", "0.01", "0.5", "1", "2", "-1", "nan", "half", "")


def sampler_of(name: str, ratio: str) -> Any:
    """The SDK's own, made as it makes it of its variables."""
    from opentelemetry.sdk.trace import TracerProvider

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OTEL_TRACES_SAMPLER", name)
        patch.setenv("OTEL_TRACES_SAMPLER_ARG", ratio)
        return TracerProvider(shutdown_on_exit=False).sampler


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("ratio", RATIOS)
def test_the_sdk_decides_as_drawn(name: str, ratio: str) -> None:
    needs_otel()
    if "ratio" not in name and ratio != RATIOS[0]:
        return
    from opentelemetry.trace.propagation.tracecontext import (
        TraceContextTextMapPropagator,
    )

    sampler = sampler_of(name, ratio)
    draw = make_draw({"OTEL_TRACES_SAMPLER": name, "OTEL_TRACES_SAMPLER_ARG": ratio})

    @settings(max_examples=few(100), deadline=None)
    @given(st.integers(1, 2**128 - 1), st.sampled_from(["00", "01", "02", "03"]))
    def check(trace_id: int, flags: str) -> None:
        parent = f"00-{trace_id:032x}-b7ad6b7169203331-{flags}"
        drawn = draw(make_ids(b"", parent.encode(), b""))
        context = TraceContextTextMapPropagator().extract({"traceparent": parent})
        decided = sampler.should_sample(context, trace_id, "predict").decision
        assert (drawn == trace_id) == decided.is_sampled() or name == "mine"
        assert drawn or not decided.is_sampled()
        drawn = draw(None)
        if drawn:
            assert sampler.should_sample(None, drawn, "x").decision.is_sampled()

    check()


def test_a_share_of_requests_without_a_parent_is_drawn() -> None:
    ratio = {"OTEL_TRACES_SAMPLER": "traceidratio", "OTEL_TRACES_SAMPLER_ARG": "0.25"}
    draw = make_draw(ratio)
    drawn = [draw(None) for _ in range(4000)]
    assert 800 <= sum(map(bool, drawn)) <= 1200  # 7 standard deviations
    assert len({*drawn}) == sum(map(bool, drawn)) + 1
    assert all(make_draw({})(None) for _ in range(10))


def test_another_exporter_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_TRACES_EXPORTER", "zipkin")
    with pytest.raises(BadInput, match="'zipkin'; it must be otlp or console"):
        check_tracing()
