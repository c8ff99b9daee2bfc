"""Several processes serve as one does, and one that dies is replaced."""

import os
import signal
import subprocess
import time
import urllib.request
from functools import partial
from pathlib import Path

import pytest
from prometheus_client import parser

from polydom.server.settings import DRAIN_S
from tests.support.indexes.served import FEATURES_FILE, HAM, save
from tests.support.processes.forked_process import ForkedProcess
from tests.support.processes.servers import (
    ADMIN,
    ask,
    complaints,
    reload,
    serving,
    version_of,
)
from tests.support.waiting import wait_until

# of processes, which kernels have no part in: once is enough
pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
OWN = f"--features={FEATURES_FILE}"
COUNT = 2


def answers(port: int) -> dict[str, float]:
    """How many answers each worker gave, as one of them says."""
    url = f"http://127.0.0.1:{port}/metrics"
    with urllib.request.urlopen(url, timeout=20) as reply:
        text = reply.read().decode()
    ready, counts = set[str](), dict[str, float]()
    for family in parser.text_string_to_metric_families(text):
        for sample in family.samples:
            if sample.name == "polydom_ready" and sample.value:
                ready.add(sample.labels["worker"])
            if sample.name == "polydom_request_seconds_count":
                counts[sample.labels["worker"]] = sample.value
    return counts if len(ready) == COUNT else {}


def children(process: ForkedProcess) -> list[int]:
    found = subprocess.run(
        ["ps", "-o", "pid=", "--ppid", str(process.pid)], capture_output=True, text=True
    )
    return [int(pid) for pid in found.stdout.split()]


def counts(port: int, number: int) -> bool:
    return sum(answers(port).values()) == number


def test_workers_count_every_answer_once_whoever_is_asked(tmp_path: Path) -> None:
    path = save(tmp_path / "tiny.pdx")
    with serving(path, OWN, f"--workers={COUNT}") as (process, port):
        wait_until(lambda: bool(answers(port)), process)
        for number in range(1, 21):
            text = HAM.encode()
            assert ask(port, "POST", "/v1/predict", text, content_type="text/plain")
            wait_until(partial(counts, port, number), process)
        assert answers(port).keys() == {"0", "1"}
        process.terminate()
        _, err = process.communicate(timeout=20)
    assert (process.returncode, complaints(err)) == (0, "")


def test_workers_are_replaced_when_they_die_and_end_with_their_parent(
    tmp_path: Path,
) -> None:
    path = save(tmp_path / "tiny.pdx")
    with serving(path, OWN, f"--workers={COUNT}") as (process, port):
        wait_until(lambda: bool(answers(port)), process)
        first = children(process)
        assert len(first) == COUNT
        os.kill(first[0], signal.SIGKILL)
        wait_until(lambda: len({*children(process)} - {first[0]}) == COUNT, process)
        wait_until(lambda: bool(answers(port)), process)
        now = children(process)
        process.kill()
        process.wait(timeout=20)
        wait_until(
            lambda: not any(Path(f"/proc/{pid}/cmdline").exists() for pid in now)
        )
        assert process.stderr is not None
        assert "ended with -9" in process.stderr.read()


def test_a_worker_that_was_stopped_keeps_nobody_waiting(tmp_path: Path) -> None:
    path = save(tmp_path / "tiny.pdx")
    with serving(path, OWN, f"--workers={COUNT}") as (process, port):
        wait_until(lambda: bool(answers(port)), process)
        os.kill(children(process)[0], signal.SIGSTOP)
        began_s = time.monotonic()
        process.terminate()
        _, err = process.communicate(timeout=60)
        took_s = time.monotonic() - began_s
    assert (process.returncode, complaints(err)) == (0, "")
    assert took_s < DRAIN_S


def test_workers_survive_the_end_of_what_features_started(tmp_path: Path) -> None:
    path, helper = save(tmp_path / "tiny.pdx"), tmp_path / "helper.py"
    helper.write_text(
        "import subprocess, sys\nsubprocess.Popen([sys.executable, '-c', 'pass'])\n"
        "from polydom.features import feature\n"
        "@feature(kind='text')\ndef unused(text): return [0]\n"
    )
    own = (OWN, f"--features={helper}")
    with serving(path, *own, f"--workers={COUNT}") as (process, port):
        wait_until(lambda: bool(answers(port)), process)
        wait_until(lambda: len(children(process)) == COUNT, process)
        process.terminate()
        _, err = process.communicate(timeout=20)
    assert (process.returncode, complaints(err)) == (0, "")


@pytest.mark.parametrize(
    ("option", "ways"),
    [("--watch", ["watch"]), ("--admin-token-file=admin", ["signal", "admin"])],
)
def test_workers_all_take_a_new_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, option: str, ways: list[str]
) -> None:
    path = save(tmp_path / "tiny.pdx")
    (tmp_path / "admin").write_text(ADMIN)
    monkeypatch.chdir(tmp_path)
    with serving(path, OWN, "--workers=2", option) as (process, port):
        wait_until(lambda: bool(answers(port)), process)

        def versions() -> set[str]:
            url = f"http://127.0.0.1:{port}/metrics"
            with urllib.request.urlopen(url, timeout=20) as reply:
                lines = reply.read().decode().splitlines()
            found = [line for line in lines if line.startswith("polydom_index_info")]
            assert all('worker="' in line for line in found)
            return {line.partition('version="')[2][:64] for line in found}

        def take_another(way: str, accuracy: float) -> None:
            old = version_of(port)
            save(path, accuracy)
            if way == "signal":
                process.send_signal(signal.SIGHUP)
            elif way == "admin":
                assert reload(port, ADMIN)[0] == 200
            wait_until(lambda: old not in versions(), process)

        for number, way in enumerate(ways):
            take_another(way, 0.9 - 0.01 * number)
        new = version_of(port)
        # one that is started now has the new file too
        os.kill(children(process)[0], signal.SIGKILL)
        wait_until(lambda: bool(answers(port)), process)
        assert {version_of(port) for _ in range(20)} == {new}
        wait_until(lambda: versions() == {new}, process)  # metrics are kept a moment
