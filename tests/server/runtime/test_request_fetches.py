"""Requests wait for columns that are fetched, as long as their budgets allow."""

import asyncio
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from starlette.testclient import TestClient

from polydom.features import fetch
from polydom.server.app import create_app
from polydom.server.engine.planning.planner import Planner
from polydom.server.engine.request import Caller, Request
from polydom.server.fetching.fetchers import Fetchers
from polydom.server.http.bearer_tokens import Access, Tokens
from polydom.server.runtime.request_fetches import RequestFetches
from polydom.server.runtime.translator import Translator
from polydom.server.runtime.waiting import Waiting
from polydom.server.schema.wire import Terms
from polydom.server.settings import Settings
from tests.support.indexes import fetched
from tests.support.processes.servers import ADMIN
from tests.support.waiting import until_ready

# A key has the seconds until its values come, and what goes wrong then.
FETCHES = """
import asyncio
from polydom.features import fetch

TERMS = {"batch": 1, "at_most_ms": 60_000}

async def wait(keys):
    seconds, _, fault = keys[0][0].partition(" ")
    await asyncio.sleep(float(seconds))
    if fault.startswith("raises"):
        raise ValueError("the table is locked")
    return fault

@fetch(key=["customer_id"], columns=["job"], **TERMS)
async def employer(keys, left_s):
    fault = await wait(keys)
    return [None if fault == "nothing" else {"job": "pilot"}]

@fetch(key=["customer_id"], columns=["n_orders", "mean_amount"], **TERMS)
async def orders(keys, left_s):
    fault = await wait(keys)
    if fault == "no-orders":
        return [None]
    return [["many" if fault == "word" else 9, 75.5]]
"""
GIVEN = {"age": 52.5, "height": 1.8}
NEVER_S = 30.0


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    folder = tmp_path_factory.mktemp("fetches")
    file = folder / "fetches.py"
    file.write_text(FETCHES)
    path = fetched.save_index(folder)
    settings = Settings(max_budget_s=60.0, rescale=False)
    with TestClient(create_app(path, fetches=[file], settings=settings)) as client:
        while client.get("/readyz").status_code != 200:
            time.sleep(0.01)
        yield client


def ask(client: TestClient, key: str | None, budget_ms: float, **more: Any) -> Any:
    terms = {name: more.pop(name, None) for name in ("fetch", "max_price")}
    record: dict[str, Any] = {**GIVEN, **more}
    if key is not None:
        record["customer_id"] = key
    body = {"record": record, "budget_ms": budget_ms, **terms}
    reply = client.post("/v1/predict", json=body)
    assert reply.status_code == 200, reply.text
    return reply.json()


def states(answer: Any) -> dict[str, str]:
    return {name: one["state"] for name, one in answer["fetched"].items()}


def test_all_columns_that_come_in_time_are_used(client: TestClient) -> None:
    answer = ask(client, "0.01", 20_000)
    assert answer["features"] == ["person", "work", "history"]
    assert states(answer) == {"employer": "came", "orders": "came"}
    assert answer["fetched"]["orders"]["ms"] >= 9
    assert answer["fetch_us"] >= 9e3
    assert answer["elapsed_us"] >= answer["fetch_us"]
    assert answer["expected_quality"] == 0.9
    assert answer["price"] == 0.002
    assert (answer["reason"], answer["budget_met"]) == (None, True)


def test_the_answer_is_that_of_a_record_with_all_columns(client: TestClient) -> None:
    brought = {"job": "pilot", "n_orders": 9, "mean_amount": 75.5}
    whole = ask(client, None, 20_000, **brought)
    assert "fetched" not in whole
    assert ask(client, "0.0", 20_000)["scores"] == whole["scores"]


def test_columns_that_the_request_has_are_not_fetched(client: TestClient) -> None:
    answer = ask(client, "0.0", 20_000, job="clerk")
    assert states(answer) == {"employer": "given", "orders": "came"}
    assert answer["features"] == ["person", "work", "history"]
    null = ask(client, "0.0", 20_000, job=None)
    assert null["features"] == ["person", "history"]  # no item of the build lacked it


def test_a_late_fetch_is_left_behind(client: TestClient) -> None:
    # a busy machine may wake a request too late for anything but the prior
    for _ in range(50):
        began_s = time.monotonic()
        answer = ask(client, f"{NEVER_S}", 300, fetch="all")
        assert time.monotonic() - began_s < NEVER_S / 2
        assert states(answer) == {"employer": "late", "orders": "late"}
        assert answer["reason"] == "late_fetch"
        if answer["features"]:
            break
    assert answer["features"] == ["person"]


def test_waiting_ends_when_nothing_more_can_come_in_time(client: TestClient) -> None:
    # the longest draws of the index take a second, and two of 100 never come
    answer = ask(client, f"{NEVER_S} patience", 50_000)
    assert answer["reason"] == "late_fetch"
    assert answer["elapsed_us"] < 20e6


@pytest.mark.parametrize("fault", ["raises", "word"])
def test_what_fails_or_cannot_be_read_is_left_out(
    client: TestClient, fault: str
) -> None:
    answer = ask(client, f"0.0 {fault}", 20_000)
    assert states(answer)["orders"] == "failed"
    assert "history" not in answer["features"]
    assert answer["reason"] == "late_fetch"


def test_nothing_found_is_a_missing_value(client: TestClient) -> None:
    answer = ask(client, "0.0 nothing", 20_000)
    assert states(answer) == {"employer": "came", "orders": "came"}
    assert (answer["features"], answer["reason"]) == (["person", "history"], "missing")
    assert "best_next" not in answer  # nobody could bring what is not there


def test_only_columns_that_may_come_are_named_as_best_next(client: TestClient) -> None:
    absent = ask(client, "0.0 nothing", 20_000, max_price=0)
    assert states(absent) == {"employer": "came", "orders": "not_sent"}
    columns = ["n_orders", "mean_amount"]
    assert absent["best_next"] == {"columns": columns, "expected_quality": 0.8}
    unsent = ask(client, "0.0 nothing", 20_000, fetch="never")
    assert unsent["best_next"] == {"columns": columns, "expected_quality": 0.8}
    # what would help most was found empty
    second = ask(client, "0.0 no-orders", 20_000, age=None, height=None)
    assert second["features"] == ["work"]
    columns = ["age", "height"]
    assert second["best_next"] == {"columns": columns, "expected_quality": 0.75}


def test_a_record_without_a_key_is_answered_by_what_it_has(client: TestClient) -> None:
    answer = ask(client, None, 20_000)
    assert states(answer) == {"employer": "not_sent", "orders": "not_sent"}
    assert (answer["features"], answer["reason"]) == (["person"], "missing")


def test_a_caller_can_forbid_fetches_and_prices(client: TestClient) -> None:
    never = ask(client, "0.0", 20_000, fetch="never")
    assert states(never) == {"employer": "not_sent", "orders": "not_sent"}
    assert "price" not in never
    # if the budget ends before the answer, no fetch is to blame
    small = (ask(client, "0.0", tenths / 10, fetch="never") for tenths in range(1, 25))
    assert "late_fetch" not in {answer["reason"] for answer in small}
    cheap = ask(client, "0.0", 20_000, max_price=0.001)
    assert states(cheap) == {"employer": "came", "orders": "not_sent"}
    assert cheap["reason"] == "budget"


def test_who_asks_for_all_gets_all_that_the_price_pays_for(client: TestClient) -> None:
    def orders(**terms: Any) -> Any:
        record = {**GIVEN, "customer_id": "0.0"}
        # no set of features is so good, so nothing is gained
        wanted = {"record": record, "budget_ms": 20_000, "min_quality": 0.99}
        answer = client.post("/v1/predict", json=wanted | terms).json()
        return answer["fetched"]["orders"]["state"], answer.get("price")

    assert orders() == ("not_sent", None)
    assert orders(fetch="all") == ("came", 0.002)
    assert orders(fetch="all", max_price=0.002) == ("came", 0.002)
    assert orders(fetch="all", max_price=0.001) == ("not_sent", None)


@pytest.mark.parametrize(
    ("terms", "said"),
    [({"max_price": -1}, "0 or more"), ({"fetch": "some"}, "as_planned")],
)
def test_wrong_terms_are_refused(
    client: TestClient, terms: dict[str, Any], said: str
) -> None:
    record = {**GIVEN, "customer_id": "0.0"}
    reply = client.post("/v1/predict", json={"record": record, **terms})
    assert reply.status_code == 422 or reply.status_code == 400
    assert said in reply.text or "fetch" in reply.text


def test_a_source_that_is_down_costs_nothing_and_comes_back(
    client: TestClient,
) -> None:
    for number in range(6):
        ask(client, f"0.0 raises{number}", 20_000, job="clerk")
    down = ask(client, "0.001", 20_000, job="clerk")
    assert down["reason"] == "late_fetch"
    end_s = time.monotonic() + 30
    number = 0
    while states(ask(client, f"0.0 {number}", 20_000, job="clerk"))["orders"] != "came":
        number += 1
        assert time.monotonic() < end_s
        time.sleep(0.05)


@pytest.mark.parametrize("key", [f"{NEVER_S} late", "0.0 raises"])
def test_what_a_fetch_did_not_bring_is_no_fault_of_the_record(
    client: TestClient, key: str
) -> None:
    terms = {"on_infeasible": "error", "min_quality": 0.8, "budget_ms": 300}
    record: dict[str, Any] = {**GIVEN, "job": "clerk", "customer_id": key}
    reply = client.post("/v1/predict", json={"record": record, **terms})
    assert (reply.status_code, reply.json()["code"]) == (504, "nothing_fits")
    state = "late" if "late" in key else "failed"
    # a busy machine may wake the request too late for anything
    assert f"orders ({state})" in reply.text or "are left, below" in reply.text
    # without a key, and where the caller forbids the fetch, it is the caller's
    for lacking in ({"record": {**GIVEN, "job": "clerk"}}, {"fetch": "never"}):
        body: dict[str, Any] = {"record": record, **terms, **lacking}
        reply = client.post("/v1/predict", json=body)
        assert (reply.status_code, reply.json()["code"]) == (400, "bad_item")
        assert "give those of history" in reply.text


def test_many_records_wait_at_once(client: TestClient) -> None:
    def one(number: int) -> Any:
        return ask(client, f"0.3{number:03d}", 30_000, fetch="all")

    began_s = time.monotonic()
    with ThreadPoolExecutor(32) as pool:
        answers = list(pool.map(one, range(64)))
    assert {tuple(a["features"]) for a in answers} == {("person", "work", "history")}
    assert time.monotonic() - began_s < 64 * 0.3 / 2


def test_an_index_is_served_without_its_fetches(tmp_path: Path) -> None:
    path = fetched.save_index(tmp_path)
    with TestClient(create_app(path)) as client:
        while client.get("/readyz").status_code != 200:
            time.sleep(0.01)
        answer = ask(client, "0.0", 900)
    assert states(answer) == {"employer": "not_sent", "orders": "not_sent"}
    assert answer["features"] == ["person"]


def test_a_dear_fetch_that_seems_too_slow_is_tried_now_and_then() -> None:
    index = fetched.make_index()
    assert index.package is not None
    package = index.package
    planner = Planner(index, package.extractor())
    translator = Translator(planner, Settings())

    @fetch(key=["customer_id"], columns=["n_orders", "mean_amount"])
    async def orders(keys: Sequence[Any], left_s: float) -> list[Any]:
        return [[9, 75.5] for _ in keys]

    async def main() -> list[int]:
        fetchers = Fetchers({"orders": orders})
        slow = np.full((200, 2), 5.0)  # seconds, and no request has so many
        fetches = RequestFetches(translator, fetchers.of(package.fetches, slow))
        asked = []
        for number in range(3):
            item = translator.read({**GIVEN, "customer_id": number})
            terms = Terms(budget_ms=900.0)
            request = translator.request(terms, item, planner.now(), Caller())
            waiting = fetches.send(request, terms)
            assert waiting is not None
            asked.append(len(waiting.arrivals))
        await fetchers.close()
        return asked

    assert asyncio.run(main()) == [1, 0, 0]


def test_a_call_that_is_not_made_costs_nothing() -> None:
    index = fetched.make_index()
    assert index.package is not None
    fetches_of, draws = index.package.fetches, index.package.arrivals
    planner = Planner(index, index.package.extractor())
    translator = Translator(planner, Settings())

    @fetch(key=["customer_id"], columns=["n_orders", "mean_amount"])
    async def orders(keys: Sequence[Any], left_s: float) -> list[Any]:
        return [[9, 75.5]] * len(keys)

    async def main() -> list[tuple[str, float]]:
        fetchers = Fetchers({"orders": orders})
        fetches = RequestFetches(translator, fetchers.of(fetches_of, draws))
        found = list[tuple[str, float]]()
        for stall_s, budget_ms in ((0.0, 10_000.0), (0.6, 500.0)):
            item = translator.read({**GIVEN, "customer_id": stall_s})
            terms = Terms(budget_ms=budget_ms, fetch="all")
            request = translator.request(terms, item, planner.now(), Caller())
            waiting = fetches.send(request, terms)
            assert waiting is not None
            ended = asyncio.Event()
            fetches.then(request, waiting, ended.set)
            time.sleep(stall_s)
            await ended.wait()
            outcome = fetches.settled(request, waiting).fetches
            assert outcome is not None
            found.append((outcome.fetched["orders"].state, outcome.price))
        await fetchers.close()
        return found

    assert asyncio.run(main()) == [("came", 0.002), ("not_sent", 0.0)]


def test_after_a_stall_fetches_are_sent_as_before() -> None:
    index = fetched.make_index()
    assert index.package is not None
    fetches_of, draws = index.package.fetches, index.package.arrivals
    planner = Planner(index, index.package.extractor())
    translator = Translator(planner, Settings())

    @fetch(key=["customer_id"], columns=["job"], batch=1)
    async def employer(keys: Sequence[Any], left_s: float) -> list[Any]:
        await asyncio.sleep(NEVER_S)
        return []

    async def main() -> None:
        fetchers = Fetchers({"employer": employer})
        fetches = RequestFetches(translator, fetchers.of(fetches_of, draws))

        def send(key: str, budget_ms: float) -> tuple[Request, Waiting]:
            item = translator.read({**GIVEN, "customer_id": key})
            terms = Terms(budget_ms=budget_ms, fetch="all")
            request = translator.request(terms, item, planner.now(), Caller())
            waiting = fetches.send(request, terms)
            assert waiting is not None
            return request, waiting

        loop = asyncio.get_running_loop()
        request, waiting = send("stalled", 50)
        loop.call_later(0.01, time.sleep, 1.0)
        await fetches.arrive(request, waiting)
        began_s = planner.now()
        request, waiting = send("next", 500)
        assert waiting.until_s > began_s + 0.25
        await fetchers.close()

    asyncio.run(main())


def test_a_record_that_was_read_slowly_takes_no_fetches_from_a_batch(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    index = fetched.make_index()
    assert index.package is not None
    fetches_of, draws = index.package.fetches, index.package.arrivals
    planner = Planner(index, index.package.extractor())
    translator = Translator(planner, Settings(max_budget_s=60.0))

    @fetch(key=["customer_id"], columns=["job"])
    async def employer(keys: Sequence[Any], left_s: float) -> list[Any]:
        return [["pilot"]] * len(keys)

    async def main() -> None:
        fetchers = Fetchers({"employer": employer})
        fetches = RequestFetches(translator, fetchers.of(fetches_of, draws))

        async def answer(count: int) -> list[Request]:
            terms = Terms(budget_ms=10_000.0, fetch="all")
            began_s, requests = planner.now(), []
            for number in range(count):
                item = translator.read({**GIVEN, "customer_id": f"{count} {number}"})
                asked = translator.request(terms, item, began_s, Caller())
                requests.append(asked)
            shared = fetches.shared_by(count, terms)
            return await fetches.arrive_all(requests, terms, shared)

        read = translator.read_fetched

        def slowly(*arguments: Any) -> Any:
            time.sleep(0.2)
            return read(*arguments)

        monkeypatch.setattr(translator, "read_fetched", slowly)
        await answer(2)
        monkeypatch.setattr(translator, "read_fetched", read)
        for one in await answer(100):
            assert one.fetches is not None
            assert one.fetches.fetched["employer"].state == "came"
        await fetchers.close()

    asyncio.run(main())


def test_a_reload_buys_no_more_than_the_mean_price_allows(tmp_path: Path) -> None:
    (tmp_path / "fetches.py").write_text(FETCHES)
    path = fetched.save_index(tmp_path)
    # 150 requests make a unit of price worth more than any fetch gains
    settings = Settings(max_budget_s=60.0, rescale=False, mean_price=0.0)
    app = create_app(
        path,
        fetches=[tmp_path / "fetches.py"],
        settings=settings,
        access=Access(admin=Tokens([ADMIN])),
    )
    with TestClient(app) as client:
        until_ready(client)
        for number in range(150):
            last = ask(client, f"0.0 before{number}", 20_000)
        assert states(last)["orders"] == "not_sent"
        index = fetched.make_index()
        assert index.package is not None
        meta = {**index.package.meta, "seed": 5}
        replace(index, package=replace(index.package, meta=meta)).save(path)
        head = {"authorization": f"Bearer {ADMIN}"}
        assert client.post("/v1/admin/reload", headers=head).status_code == 200
        assert (
            ask(client, "0.0 after", 20_000)["index_version"] != last["index_version"]
        )
        paid = [ask(client, f"0.0 after{n}", 20_000).get("price", 0) for n in range(20)]
        assert sum(paid) == 0


def test_a_wait_that_is_stopped_calls_nothing_and_can_go_on() -> None:
    index = fetched.make_index()
    assert index.package is not None
    package = index.package
    planner = Planner(index, package.extractor())
    translator = Translator(planner, Settings(max_budget_s=60.0))
    may_answer = asyncio.Event()

    @fetch(key=["customer_id"], columns=["job"])
    async def employer(keys: Sequence[Any], left_s: float) -> list[Any]:
        await may_answer.wait()
        return [{"job": "pilot"} for _ in keys]

    async def main() -> tuple[list[str], dict[str, Any]]:
        fetchers = Fetchers({"employer": employer})
        draws = np.full((200, 2), 5.0)
        fetches = RequestFetches(translator, fetchers.of(package.fetches, draws))
        item = translator.read({**GIVEN, "customer_id": 1})
        terms, called = Terms(budget_ms=50_000.0, fetch="all"), list[str]()
        request = translator.request(terms, item, planner.now(), Caller())
        waiting = fetches.send(request, terms)
        assert waiting is not None
        fetches.then(request, waiting, lambda: called.append("stopped"))
        await asyncio.sleep(0.01)
        waiting.stop()
        arriving = asyncio.create_task(fetches.arrive(request, waiting))
        await asyncio.sleep(0.01)
        may_answer.set()
        arrived = await asyncio.wait_for(arriving, 30)
        await fetchers.close()
        assert arrived.fetches is not None
        return called, arrived.fetches.fetched

    called, brought = asyncio.run(main())
    assert called == []
    assert brought["employer"].state == "came"
