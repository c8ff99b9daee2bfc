"""A server in a process of its own, with settings that no option of `serve` makes."""

import contextlib
import http.client
import multiprocessing
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from polydom.server.app import create_app
from polydom.server.engine.planning import planner
from polydom.server.ops.server import listen, run
from polydom.server.settings import Settings

from ..report import CORES, pin

START_S = 60.0
# servers are forked from a process that has imported this and done nothing else
CONTEXT = multiprocessing.get_context("forkserver")
CONTEXT.set_forkserver_preload([__name__])
Indexes = Path | Mapping[str, Path]


@contextlib.contextmanager
def serving(
    path: Indexes,
    settings: Settings,
    pressure: float = planner.PRESSURE,
    files: Sequence[Path] = (),
) -> Iterator[int]:
    """Serve on the second core, if there is one, and ask from the first: the port."""
    with started(serve, path, settings, pressure, files) as port:
        yield port


@contextlib.contextmanager
def started(serve: Callable[..., None], *arguments: Any) -> Iterator[int]:
    """Run `serve(port, *arguments)` on the second core, if there is one: the port."""
    with running(serve, *arguments) as (port, _):
        yield port


@contextlib.contextmanager
def running(serve: Callable[..., None], *arguments: Any) -> Iterator[tuple[int, int]]:
    """Do as `started`; the port, and the number of the process."""
    with listen("127.0.0.1", 0) as free:
        port = int(free.getsockname()[1])
    core = 1 if len(CORES) > 1 else None
    if core is not None:
        pin(0)
    process = CONTEXT.Process(target=on_core, args=(core, serve, port, *arguments))
    process.start()
    try:
        end_s = time.monotonic() + START_S
        while probe(port, "/readyz") == np.inf:
            if time.monotonic() > end_s or not process.is_alive():
                raise TimeoutError("the server did not become ready")
            time.sleep(0.02)
        assert process.pid is not None
        yield port, process.pid
    finally:
        process.kill()
        process.join()


def on_core(core: int | None, serve: Callable[..., None], *arguments: Any) -> None:
    """Call a function in this process, on a core if one is named."""
    if core is not None:
        pin(core)
    serve(*arguments)


def serve(
    port: int, path: Indexes, settings: Settings, pressure: float, files: Sequence[Path]
) -> None:
    """Serve in this process."""
    planner.PRESSURE = pressure
    with listen("127.0.0.1", port) as listener:
        run(create_app(path, features=files, settings=settings), listener)


def probe(port: int, path: str) -> float:
    """Seconds until a 200 came over a new connection; infinite if none did."""
    start_s = time.perf_counter()
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    try:
        connection.request("GET", path)
        status = connection.getresponse().status
    except OSError:
        return np.inf
    finally:
        connection.close()
    return time.perf_counter() - start_s if status == 200 else np.inf
