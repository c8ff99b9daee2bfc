"""Requests are as old as the turn of the event loop that read them."""

import asyncio
import json
import time
from pathlib import Path
from typing import Any

from polydom.server.http.loop_turn import LATER_S, turn_of
from polydom.server.http.protocol import HttpProtocol
from tests.support.indexes.served import FEATURES_FILE, HAM, make_index
from tests.support.processes.servers import ask, serving


def test_a_turn_ends_before_the_next_one_reads() -> None:
    async def main() -> list[float]:
        loop = asyncio.get_running_loop()
        turn = turn_of(loop)
        assert turn_of(loop) is turn
        began = [turn.began_s(now_s, loop) for now_s in (1.0, 2.0, 3.0)]
        turn.at_end(lambda: began.append(-1.0))
        loop.call_soon(lambda: began.append(turn.began_s(4.0, loop)))
        assert began == [1.0, 1.0, 1.0]
        await asyncio.sleep(0)
        return began

    assert asyncio.run(main()) == [1.0, 1.0, 1.0, -1.0, 4.0]


def test_what_is_read_behind_others_has_waited_for_them() -> None:
    """Two connections are ready in one turn; the first takes its time to be parsed."""
    seen = list[tuple[float, bool]]()

    class Protocol(HttpProtocol):
        def __init__(self) -> None:
            super().__init__(config, state, {})

        def on_headers_complete(self) -> None:
            arrived_s = self._request.arrived_s
            seen.append((arrived_s, self.caller.read_s > arrived_s))
            time.sleep(0.02)
            self.transport.close()

    async def main() -> None:
        loop = asyncio.get_running_loop()
        server = await loop.create_server(Protocol, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        ways = [await asyncio.open_connection("127.0.0.1", port) for _ in range(2)]
        await asyncio.sleep(0.05)
        for _, writer in ways:
            writer.write(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n")
        time.sleep(0.05)  # both are there before the loop looks
        for reader, writer in ways:
            assert await reader.read() == b""
            writer.close()
        server.close()

    config, state = _config()
    asyncio.run(asyncio.wait_for(main(), 20))
    (first_s, first_waited), (second_s, second_waited) = seen
    assert first_s == second_s
    assert (first_waited, second_waited) == (False, True)


def _config() -> tuple[Any, Any]:
    from uvicorn.config import Config
    from uvicorn.server import ServerState

    app: Any = None
    config = Config(app, http=HttpProtocol, log_config=None, lifespan="off")
    config.http_protocol_class, config.loaded_app = HttpProtocol, app
    return config, ServerState()


def test_nobody_who_asks_alone_says_that_he_waited(tmp_path: Path) -> None:
    """Reading, decoding and the way to the thread are nobody else's requests."""
    index = make_index(scale=40.0)
    path = tmp_path / "index.pdx"
    index.save(path)
    # what the sets cost, and a little more that is gone when the request is read
    budgets_ms = [
        index.cost_s(row, len(HAM)) * 1e3 + more_ms / 20
        for row in (1, 2, 3)
        for more_ms in range(20)
    ]
    with serving(path, "--features", str(FEATURES_FILE)) as (_, port):
        reasons = set()
        for budget_ms in budgets_ms:
            body = json.dumps({"text": HAM, "budget_ms": budget_ms}).encode()
            reasons.add(ask(port, "POST", "/v1/predict", body)[1]["reason"])
    assert reasons <= {"budget", "infeasible", "overrun", None}
    assert "budget" in reasons


def test_what_is_answered_between_turns_is_counted_in_the_same_one() -> None:
    """A request that was held begins when nothing is read, and perhaps is the last."""

    async def main() -> list[str]:
        turn, called = turn_of(asyncio.get_running_loop()), list[str]()
        turn.at_end(lambda: called.append("first"))
        turn.at_end(lambda: called.append("second"))
        assert called == []
        await asyncio.sleep(0)
        return called

    assert asyncio.run(main()) == ["first", "second"]


def test_what_is_left_for_later_has_a_small_part_of_each_turn() -> None:
    """Three take half of what a turn has, each time, and each of them has its turns."""

    async def main() -> list[list[str]]:
        loop = asyncio.get_running_loop()
        turn, turns, left = turn_of(loop), [list[str]()], {"a": 3, "b": 3, "c": 3}

        def work(name: str) -> None:
            turns[-1].append(name)
            time.sleep(0.6 * LATER_S)
            left[name] -= 1
            if left[name]:
                turn.later(lambda: work(name))

        for name in left:
            turn.later(lambda name=name: work(name))  # type: ignore[misc]
        while any(left.values()):
            turns.append([])
            await asyncio.sleep(0)
        return [names for names in turns if names]

    turns = asyncio.run(main())
    # a machine that stalls makes turns shorter, and changes no order
    assert "".join(name for names in turns for name in names) == "abc" * 3
    assert all(len(names) <= 2 for names in turns)
