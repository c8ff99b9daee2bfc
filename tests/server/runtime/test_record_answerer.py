"""Usual requests about records are answered, and counted, as in the ordinary way."""

import json
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.linear_model import LinearRegression

from polydom.features.errors import BadRow, PolydomError
from polydom.features.items import Gaps, record_item
from polydom.indexer.index.index import Index
from polydom.models.importers.compile_model import compile_model
from polydom.models.scoring.prior import Mean
from polydom.server.engine.planning.planner import Planner
from polydom.server.engine.request import Caller, FetchOutcome, Outcome, Request
from polydom.server.engine.send_time import HEAVY, LEAST, SendTime, SendTimes
from polydom.server.metrics import answer_batch
from polydom.server.metrics.counts import BOUNDS
from polydom.server.runtime import record_answerer, served_model
from polydom.server.runtime.record_decoder import Row, record_of
from polydom.server.runtime.served_model import ServedModel
from polydom.server.runtime.translator import Translator
from polydom.server.runtime.work_queue import WorkQueue
from polydom.server.schema.wire import Fetched, Terms, encode
from polydom.server.settings import Settings
from tests.support.clock import Clock
from tests.support.examples import few
from tests.support.indexes import fetched, records, stopping_records

NOW_S, SENT_S = 50.0, 50.00025


@pytest.fixture(autouse=True)
def each_answer_is_counted_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answer_batch, "WAIT_S", 0.0)
    for module in (record_answerer, served_model):
        monkeypatch.setattr(module, "EVERY", 1)


def make_numbers() -> Index:
    """The index of people, whose labels are their heights in centimetres."""
    index = records.make_index()
    package = index.package
    assert package is not None
    extractor = package.extractor()
    rows = np.array([extractor.extract(record_item(one)) for one in records.PEOPLE])
    heights = [170.0, 180.0, 160.0, 190.0]
    models: list[Any] = [Mean.fit(heights)]
    for mask in records.MASKS[1:]:
        own = extractor.columns_of(mask)
        fitted = LinearRegression().fit(rows[:, own].astype(float), heights)
        models.append(compile_model(fitted, own))
    numbers = replace(
        package,
        labels=(),
        models=tuple(models),
        measure="r2",
        intervals=np.array([(-20.0, 20.0), (-5.0, 4.0), (-1.0, 2.0)]),
        meta=package.meta | {"coverage": 0.9},
    )
    return Index.from_candidates(
        index.coefficients, records.ACCURACIES, index.sizes, numbers
    )


def paid_records() -> Index:
    """The index of people, in a currency."""
    index = records.make_index()
    package = index.package
    assert package is not None
    paid = replace(package, meta=package.meta | {"unit": "usd"})
    return Index.from_candidates(index.coefficients, index.qualities, index.sizes, paid)


def make_stopping(classes: int, scale: float = 0.1) -> Index:
    """Records whose models stop early, at other costs."""
    index = stopping_records.make_index(classes)
    return Index.from_candidates(
        scale * index.coefficients, index.qualities, index.sizes, index.package
    )


# Of the last two models know what is missing, and need what is.
SOME: tuple[dict[str, Any], ...] = (
    {"age": 20, "height": 1.8, "job": "nurse"},
    {"age": 20, "job": "nurse"},
    {"age": 20, "height": 1.8},
)
PEOPLE = st.sampled_from([*records.PEOPLE, *SOME])
ROWS = list(map(stopping_records.record_of, stopping_records.draw_rows(60, 5)))
KINDS: dict[str, tuple[Callable[[], Index], st.SearchStrategy[Any]]] = {
    "linear": (records.make_index, PEOPLE),
    "numbers": (make_numbers, PEOPLE),
    "trees": (lambda: make_stopping(2), st.sampled_from(ROWS)),
    "three classes": (lambda: make_stopping(3), st.sampled_from(ROWS)),
}
FIRST: dict[str, Any] = {
    "linear": records.PEOPLE[0],
    "numbers": records.PEOPLE[0],
    "trees": ROWS[0],
    "three classes": ROWS[0],
}
TERMS = st.fixed_dictionaries(
    {},
    optional={
        "budget_ms": st.sampled_from([0, 0.03, 0.15, 0.4, 5, 50, 1e4, -1]),
        "budget": st.sampled_from([None, 1]),
        "on_infeasible": st.sampled_from(["prior", "cheapest", "error"]),
        "min_quality": st.sampled_from([0, 0.6, 0.9, 0.95, 1.5, -0.1]),
        "exact": st.booleans(),
    },
)


@cache
def index_of(kind: str) -> Index:
    return KINDS[kind][0]()


class Scene:
    """The same request to one index in both ways; the time stands still meanwhile."""

    def __init__(self, index: Index, reserve_s: float = 1e-5, **options: Any) -> None:
        assert index.package is not None
        self.clock = Clock(NOW_S)
        extractor = index.package.extractor()
        planner = Planner(index, extractor, now=self.clock, **options)
        self.served = ServedModel(Translator(planner, Settings()), WorkQueue())
        times = SendTime([reserve_s] * LEAST, NOW_S)
        self.served.send_times = SendTimes(times, times)
        self.served.ready = True
        self.written: list[Callable[[], object]] = []

    def read(self, record: Any, terms: Any) -> tuple[Terms, Row, Gaps | None]:
        decoder = self.served.translator.record_decoder
        assert decoder is not None
        read = decoder.read(json.dumps({"record": record, **terms}).encode())
        assert read is not None
        return read

    def in_one_go(self, record: Any, terms: Any, arrived_s: float) -> bytes | None:
        read, then = self.read(record, terms), self.written.append
        return self.served.records.answer(*read, arrived_s, then)

    def ordinary(
        self, record: Any, terms: Any, arrived_s: float
    ) -> tuple[Request, Outcome] | None:
        read, row, gaps = self.read(record, terms)
        try:
            request, outcome = self.served.begin(
                read, record_of(row, gaps), arrived_s, Caller()
            )
        except PolydomError:
            return None
        return (request, outcome) if isinstance(outcome, Outcome) else None

    def counts(self) -> Any:
        metrics, audit = self.served.metrics, self.served.planner.audit
        histograms = [metrics.histogram(name) for name in BOUNDS]
        return (
            [(one.counts.tolist(), one.total) for one in histograms],
            (metrics.answers, metrics.answered_s),
            audit.counts(),
            self.served.traffic.counts(),
            self.served.send_times.loop.levels(SENT_S),
        )


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=few(150), deadline=None)
@given(
    data=st.data(),
    terms=TERMS,
    waited_s=st.sampled_from([0.0, 1e-5, 1e-3, 1.0]),
    reserve_s=st.sampled_from([1e-5, 1e-4, 1e-3]),
    drifts=st.booleans(),
    suspects=st.booleans(),
)
def test_records_are_answered_and_counted_as_in_the_ordinary_way(
    kind: str,
    data: st.DataObject,
    terms: dict[str, Any],
    waited_s: float,
    reserve_s: float,
    drifts: bool,
    suspects: bool,
) -> None:
    asked = data.draw(KINDS[kind][1]), terms, NOW_S - waited_s
    direct, other = (Scene(index_of(kind), reserve_s) for _ in range(2))
    for scene in (direct, other):
        scene.served.planner.suspects = suspects
        if drifts:
            scene.served.planner.drift.add(True, NOW_S)
    answer, done = direct.in_one_go(*asked), other.ordinary(*asked)
    if answer is None:
        assert not direct.written
        if done is not None and not (drifts or suspects or terms.get("exact")):
            request, outcome = done
            weighs = reserve_s > HEAVY * request.budget.amount
            ordinary = weighs or request.item.withheld
            assert ordinary or outcome.reason not in (None, "sure")
        return
    assert done is not None
    assert answer == encode(other.served.translator.answer(*done))
    direct.clock.now_s = other.clock.now_s = SENT_S
    for count in direct.written:
        count()
    other.served.sent(*done)
    assert direct.counts() == other.counts()


@settings(max_examples=few(150), deadline=None)
@given(
    lacks=st.sets(st.sampled_from(fetched.NAMES)),
    job=st.sampled_from(["pilot", "poet"]),
    terms=TERMS,
    hoped=st.sampled_from([0.0, 0.9, 0.95]),
    spared=st.booleans(),
    price=st.sampled_from([0.0, 0.002]),
)
def test_fetched_records_are_answered_and_counted_as_in_the_ordinary_way(
    lacks: set[str],
    job: str,
    terms: dict[str, Any],
    hoped: float,
    spared: bool,
    price: float,
) -> None:
    record = {n: v for n, v in fetched.PEOPLE[1].items() if n not in lacks}
    if "job" in record:
        record["job"] = job
    direct, other = (Scene(fetched.make_index()) for _ in range(2))
    told = {"employer": Fetched("came", 1.25), "orders": Fetched("late")}
    outcome = FetchOutcome(told, 0.00325, price, hoped, spared)
    asked = Terms(**terms)
    try:
        requests = [
            msgspec.structs.replace(
                scene.served.translator.request(
                    asked,
                    scene.served.translator.read({"customer_id": 1, **record}),
                    NOW_S - 0.004,
                    Caller(),
                    scene.served.send_times.loop,
                ),
                fetches=outcome,
            )
            for scene in (direct, other)
        ]
        done = other.served.begin_fetched(requests[1])
    except PolydomError:
        return
    then = direct.written.append
    answer = direct.served.records.answer_fetched(asked, requests[0], then)
    if answer is None:
        assert not direct.written
        assert lacks or job == "poet" or terms or hoped > max(fetched.ACCURACIES)
        return
    request, ordinary = done
    assert isinstance(ordinary, Outcome)
    assert answer == encode(other.served.translator.answer(request, ordinary))
    assert direct.in_one_go(fetched.PEOPLE[0], {}, NOW_S) == other.in_one_go(
        fetched.PEOPLE[0], {}, NOW_S
    )  # it has nothing of the fetches before
    direct.clock.now_s = other.clock.now_s = SENT_S
    for count in [*direct.written, *other.written]:
        count()
    other.served.sent(request, ordinary)
    assert direct.counts() == other.counts()


@pytest.mark.parametrize("kind", KINDS)
def test_usual_requests_are_answered_in_one_go(kind: str) -> None:
    scene = Scene(index_of(kind))
    for terms in ({}, {"budget_ms": 50}):
        answer = scene.in_one_go(FIRST[kind], terms, NOW_S - 1e-4)
        assert answer is not None
        assert json.loads(answer)["elapsed_us"] == 100.0
    (count,) = scene.written  # those of one turn are counted together
    count()
    assert scene.served.metrics.answers.total() == 2
    assert scene.in_one_go(FIRST[kind], {}, NOW_S) is not None
    assert len(scene.written) == 2


def test_what_one_go_cannot_do_is_left_to_the_ordinary_way() -> None:
    assert not Scene(make_stopping(2, 2.0)).served.records.applies  # it takes long
    assert not Scene(make_stopping(2), audit=0.5).served.records.applies
    assert Scene(records.make_index(), audit=0.5).served.records.applies
    assert not Scene(paid_records()).served.records.applies


def test_a_plan_that_seemed_to_take_long_is_timed_the_next_time() -> None:
    scene = Scene(records.make_index())
    direct = scene.served.records
    ask = direct._ask

    def slow(row: Row) -> Any:
        scene.clock.now_s += 1e-3
        return ask(row)

    direct._ask = slow
    assert scene.in_one_go(FIRST["linear"], {}, NOW_S) is not None
    assert scene.served.planner.suspects
    assert scene.in_one_go(FIRST["linear"], {}, NOW_S) is None


def test_gaps_of_a_model_are_errors_of_the_ordinary_way() -> None:
    scene = Scene(records.make_index())
    scene.served.records._ask = refuse
    with pytest.raises(BadRow):
        scene.in_one_go(FIRST["linear"], {}, NOW_S)
    assert not scene.written


def refuse(row: Row) -> Any:
    raise BadRow("no number", 0)
