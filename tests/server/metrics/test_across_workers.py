"""Workers hear each other's counts, and do without those that are silent."""

import asyncio
import contextlib
from pathlib import Path

import pytest

from polydom.server.metrics import across_workers
from polydom.server.metrics.across_workers import WorkerMetrics
from polydom.server.metrics.counts import Samples

pytestmark = pytest.mark.skipif(
    not hasattr(asyncio, "start_unix_server"), reason="needs Unix sockets"
)


def samples(value: float) -> Samples:
    return {"polydom_waiting": [("polydom_waiting", {"model": "a"}, value)]}


def test_peers_hear_what_the_others_count_at_that_moment(tmp_path: Path) -> None:
    async def main() -> None:
        worker_metrics = [WorkerMetrics(tmp_path, number, 3) for number in range(3)]
        counts = [0.0, 0.0, 0.0]

        async with contextlib.AsyncExitStack() as stack:
            for number, peer in enumerate(worker_metrics):
                told = lambda n=number: samples(counts[n])  # noqa: E731
                await stack.enter_async_context(peer.telling(told))
            for _ in range(3):
                counts[:] = [count + number for number, count in enumerate(counts)]
                assert await worker_metrics[0].ask() == {
                    1: samples(counts[1]),
                    2: samples(counts[2]),
                }
        # all have gone
        assert await worker_metrics[0].ask() == {}

    asyncio.run(main())


def test_peers_leave_out_who_is_silent_or_talks_nonsense(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(across_workers, "ANSWER_S", 0.05)

    async def main() -> None:
        never = asyncio.Event()

        async def silent(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await never.wait()
            writer.close()

        async def foolish(
            _: asyncio.StreamReader, writer: asyncio.StreamWriter
        ) -> None:
            writer.write(b"\x00nonsense")
            writer.close()

        async with (
            await asyncio.start_unix_server(silent, tmp_path / "1.sock"),
            await asyncio.start_unix_server(foolish, tmp_path / "2.sock"),
            WorkerMetrics(tmp_path, 3, 4).telling(lambda: samples(1.0)),
        ):
            assert await WorkerMetrics(tmp_path, 0, 4).ask() == {3: samples(1.0)}
            never.set()
            await asyncio.sleep(0)

    asyncio.run(main())


def test_peers_take_the_place_of_one_that_died(tmp_path: Path) -> None:
    (tmp_path / "1.sock").touch()

    async def main() -> None:
        async with WorkerMetrics(tmp_path, 1, 2).telling(lambda: samples(2.0)):
            assert await WorkerMetrics(tmp_path, 0, 2).ask() == {1: samples(2.0)}

    asyncio.run(main())
