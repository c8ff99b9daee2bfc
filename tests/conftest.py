"""What every test shares: where the real data is, and a fixed seed for draws."""

import contextlib
import gc
import signal
import subprocess
import time
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from tests.support.examples import few
from tests.support.places import DATA

settings.register_profile(
    "polydom",
    max_examples=few(100),
    derandomize=True,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("polydom")


# A script may have begun the tests in the background, where Ctrl-C is ignored: all that
# they start, and interrupt, would ignore it as well.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


# To look for garbage among thousands of tests takes a quarter of what collecting them
# does, and a twelfth of what running them does.
gc.disable()


COLLECT_S = 120.0  # that others wait for the first process, if that has gone


@pytest.hookimpl(wrapper=True)
def pytest_collection(session: pytest.Session) -> Generator[None, object, object]:
    """Collect in one process first, and in the others what it compiled.

    In a clean clone each process would compile every file of tests, and every library.
    """
    worker = getattr(session.config, "workerinput", {"workerid": ""})["workerid"]
    if not worker:
        return (yield)
    collected = Path(session.config.option.basetemp).with_name("collected")
    end_s = time.monotonic() + COLLECT_S
    while worker != "gw0" and not collected.exists() and time.monotonic() < end_s:
        time.sleep(0.05)
    try:
        return (yield)
    finally:
        collected.touch()


def pytest_collection_finish() -> None:
    """Look for garbage, but less often, in what tests make."""
    gc.freeze()
    gc.set_threshold(50_000, 20, 50)
    gc.enable()


def pytest_runtest_logfinish() -> None:
    """Look for garbage once in what a test leaves.

    Servers go through all there is when they start, and when they stop make it be gone
    through again: half a second for each, late in the run.
    """
    gc.freeze()


# Folders whose tests share what takes seconds to start: a browser, two clusters.
WHOLE = ("tests/browser/", "tests/cluster/")
# Where the longest files are, and one that would be among the last.
LONG = (
    "tests/system/",
    "tests/tutorials/",
    "tests/benchmarks/",
    "tests/server/v1/test_openapi.py",
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with what takes longest, so that all processes end together."""
    items.sort(key=lambda item: not item.nodeid.startswith((*WHOLE, *LONG)))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Give each process whole files, and these folders whole."""
    from xdist.scheduler import LoadFileScheduling

    class Scheduling(LoadFileScheduling):  # type: ignore[misc]
        def _split_scope(self, nodeid: str) -> str:
            file: str = super()._split_scope(nodeid)
            return next((one for one in WHOLE if file.startswith(one)), file)

    return Scheduling(config, log)


@pytest.fixture(scope="session")
def data() -> Path:
    """Folder of the real data sets; a test that needs it skips where it is absent."""
    if not DATA.is_dir():
        pytest.skip(f"the real data sets are not here: {DATA} is no folder")
    return DATA


@pytest.fixture
def pem(tmp_path: Path) -> Path:
    """A certificate of 127.0.0.1 that it signed itself, and its key."""
    made = ["openssl", "req", "-x509", "-newkey", "ec", "-nodes", "-days", "2"]
    made += ["-pkeyopt", "ec_paramgen_curve:prime256v1"]  # RSA takes half a second
    made += ["-keyout", "key", "-out", "certificate", "-subj", "/CN=127.0.0.1"]
    made += ["-addext", "subjectAltName=IP:127.0.0.1"]
    with contextlib.suppress(FileNotFoundError):
        subprocess.run(made, cwd=tmp_path, check=True, capture_output=True)
        return tmp_path
    pytest.skip("openssl is not here")
