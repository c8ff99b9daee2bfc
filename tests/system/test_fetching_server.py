"""A real server answers in time, whatever its fetches do."""

import asyncio
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from tests.support.indexes import fetched
from tests.support.processes.servers import ADMIN, ask, reload, serving

# The first part of a key says what its call does.
FETCHES = """
import asyncio
import pathlib
import time
from polydom.features import fetch

calls = pathlib.Path(__file__).with_name("calls")

async def behave(keys):
    with calls.open("a") as file:
        file.writelines(f"{key[0]}\\n" for key in keys)
    what = str(keys[0][0]).partition("-")[0]
    if what == "never":
        await asyncio.sleep(300)
    if what == "slow":
        await asyncio.sleep(0.4)
    if what == "blocks":
        time.sleep(1)
    if what == "raises":
        raise OSError("no route")
    return what

ANSWERS = {
    "few": [],
    "many": [{"job": "pilot"}] * 3,
    "strange": [{"wages": 3}],
    "nan": [{"job": float("nan")}],
    "huge": [{"job": "x" * 100_000_000}],
    "type": [{"job": 3}],
    "object": [object()],
    "nothing": [None],
}

@fetch(key=["customer_id"], columns=["job"], batch=1, at_most_ms=2_000, keep_s=60)
async def employer(keys, left_s):
    return ANSWERS.get(await behave(keys), [{"job": "pilot"}])
"""
GIVEN = {"age": 52.5, "height": 1.8, "n_orders": 9, "mean_amount": 75.5}
STATES = {
    "never": "late",
    **dict.fromkeys(("raises", "few", "many", "strange", "huge", "object"), "failed"),
    **dict.fromkeys(("type", "nan", "nothing", "good"), "came"),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("fetching")
    (folder / "fetches.py").write_text(FETCHES)
    (folder / "admin").write_text(ADMIN)
    fetched.save_index(folder)
    return folder


@pytest.fixture(scope="module")
def port(folder: Path) -> Iterator[int]:
    options = ["--fetches", str(folder / "fetches.py"), "--no-rescale"]
    options += ["--admin-token-file", str(folder / "admin")]
    # all who come at once may wait to be read
    options += ["--budget-ms=20000", "--max-budget-ms=20000"]
    log = folder / "log"
    with serving(folder / "fetched.pdx", *options, log=log) as (_, port):
        yield port


def body(key: str, budget_ms: float, **terms: Any) -> bytes:
    record = {**GIVEN, "customer_id": key}
    return json.dumps({"record": record, "budget_ms": budget_ms, **terms}).encode()


def predict(port: int, key: str, budget_ms: float, **terms: Any) -> Any:
    sent = body(key, budget_ms, **terms)
    status, answer = ask(
        port, "POST", "/v1/predict", sent, content_type="application/json"
    )
    assert status == 200, answer
    return answer


def state(answer: Any) -> str:
    return str(answer["fetched"]["employer"]["state"])


def good_again(port: int) -> None:
    """Wait until a source that was down is tried, and found to be up."""
    end_s = time.monotonic() + 30
    number = 0
    while state(predict(port, f"good-{time.monotonic_ns()}", 10_000)) != "came":
        number += 1
        assert time.monotonic() < end_s
        time.sleep(0.05)


async def ask_at_once(port: int, keys: list[str], **terms: Any) -> list[Any]:
    """Ask for many records on connections of their own, all at the same time."""
    timeout = aiohttp.ClientTimeout(60)
    connector = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(timeout=timeout, connector=connector) as session:

        async def one(key: str) -> Any:
            url = f"http://127.0.0.1:{port}/v1/predict"
            sent = body(key, **terms)
            headers = {"content-type": "application/json"}
            async with session.post(url, data=sent, headers=headers) as reply:
                return await reply.json()

        return await asyncio.gather(*map(one, keys))


@pytest.mark.parametrize("what", STATES)
def test_whatever_a_call_does_its_request_is_answered(port: int, what: str) -> None:
    good_again(port)
    answer = predict(port, f"{what}-1", 900, fetch="all")
    assert state(answer) == STATES[what]
    used = what in ("good", "type")  # 3 is a job that the index does not know
    assert ("work" in answer["features"]) == (used and state(answer) == "came")
    # a busy machine may end the whole wait too late for anything but the prior
    if what != "never" or answer["features"]:
        assert {"person", "history"} <= {*answer["features"]}
    assert answer["elapsed_us"] < 5e6


def test_a_call_that_blocks_the_loop_is_told(port: int, folder: Path) -> None:
    good_again(port)
    predict(port, "blocks-1", 10_000, fetch="all")
    answer = predict(port, "good-after", 10_000)
    assert answer["features"] == ["person", "work", "history"]
    assert "blocked the event loop" in (folder / "log").read_text()


def test_one_call_serves_all_who_ask_for_a_key(port: int, folder: Path) -> None:
    good_again(port)
    keys = ["slow-shared"] * 300
    answers = asyncio.run(ask_at_once(port, keys, budget_ms=15_000, fetch="all"))
    assert {tuple(a["features"]) for a in answers} == {("person", "work", "history")}
    assert (folder / "calls").read_text().split().count("slow-shared") == 1


def test_a_reload_while_records_wait_loses_none(port: int, folder: Path) -> None:
    good_again(port)

    async def run() -> list[Any]:
        keys = [f"slow-{number}" for number in range(100)]
        waiting = asyncio.create_task(
            ask_at_once(port, keys, budget_ms=15_000, fetch="all")
        )
        await asyncio.sleep(0.1)
        path = folder / "fetched.pdx"
        path.write_bytes(path.read_bytes())
        status, _ = await asyncio.to_thread(reload, port, ADMIN)
        assert status == 200
        return await waiting

    answers = asyncio.run(run())
    assert {state(answer) for answer in answers} == {"came"}


def test_callers_that_leave_disturb_nobody(port: int) -> None:
    good_again(port)

    async def run() -> None:
        for number in range(20):
            _, writer = await asyncio.open_connection("127.0.0.1", port)
            sent = body(f"slow-gone{number}", 10_000, fetch="all")
            head = (
                f"POST /v1/predict HTTP/1.1\r\nhost: x\r\ncontent-length: {len(sent)}"
            )
            writer.write(f"{head}\r\ncontent-type: application/json\r\n\r\n".encode())
            writer.write(sent)
            await writer.drain()
            writer.close()

    asyncio.run(run())
    answer = predict(port, "good-then", 10_000)
    assert answer["features"] == ["person", "work", "history"]
    # what came for those who left is kept for the next
    assert state(predict(port, "slow-gone7", 10_000, fetch="all")) in ("kept", "came")


def raw(key: str, budget_ms: float, **terms: Any) -> bytes:
    """Return a whole request."""
    sent = body(key, budget_ms, **terms)
    head = f"POST /v1/predict HTTP/1.1\r\nhost: x\r\ncontent-length: {len(sent)}"
    return f"{head}\r\ncontent-type: application/json\r\n\r\n".encode() + sent


async def answers(reader: asyncio.StreamReader, count: int) -> list[Any]:
    """Read so many answers."""
    found = []
    for _ in range(count):
        head = await reader.readuntil(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 200"), head
        length = head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0]
        found.append(json.loads(await reader.readexactly(int(length))))
    return found


def test_answers_come_in_order_though_one_waits(port: int) -> None:
    good_again(port)

    async def run() -> list[Any]:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        some = [raw("slow-first", 15_000, fetch="all"), raw("good-2", 15_000)]
        for _ in range(2):  # the connection is kept
            writer.write(b"".join(some))
            found = await asyncio.wait_for(answers(reader, 2), 60)
        writer.close()
        return found

    first, second = asyncio.run(run())
    assert (state(first), state(second)) == ("kept", "kept")


def test_a_server_that_stops_answers_who_waits(folder: Path) -> None:
    options = ["--fetches", str(folder / "fetches.py"), "--no-rescale"]
    options += ["--budget-ms=20000", "--max-budget-ms=20000"]

    async def run(process: Any, port: int) -> tuple[Any, bytes]:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(raw("slow-stop", 15_000, fetch="all"))
        while "slow-stop" not in (folder / "calls").read_text():
            await asyncio.sleep(0.01)
        process.terminate()
        (answer,) = await answers(reader, 1)
        rest = await reader.read()
        writer.close()
        return answer, rest

    with serving(folder / "fetched.pdx", *options) as (process, port):
        predict(port, "good-begin", 10_000)  # so that there are calls
        answer, rest = asyncio.run(asyncio.wait_for(run(process, port), 60))
    # a busy machine may stop before the values come
    assert state(answer) in ("came", "failed")
    assert rest == b""
