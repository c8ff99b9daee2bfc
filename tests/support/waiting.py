"""Wait for what does not come at once, and not for ever."""

import time
from collections.abc import Callable
from typing import Protocol

import pytest
from starlette.testclient import TestClient

WAIT_S = 180.0
ATTEMPTS = 4


class Process(Protocol):
    def poll(self) -> int | None: ...


def wait_until(true: Callable[[], object], process: Process | None = None) -> None:
    """Ask again and again until it is so, for `WAIT_S`, while the process lives."""
    end_s = time.monotonic() + WAIT_S
    while not true():
        assert process is None or process.poll() is None
        if time.monotonic() > end_s:
            pytest.fail(f"it did not become so within {WAIT_S:g} s")
        time.sleep(0.01)


def once_of_several(true: Callable[[], bool]) -> None:
    """Try what a machine that stalls for seconds would spoil; once it is to be so."""
    assert any(true() for _ in range(ATTEMPTS))


def until_ready(client: TestClient, path: str = "/readyz") -> None:
    """Wait until an application says that it is ready."""
    wait_until(lambda: client.get(path).status_code == 200)
