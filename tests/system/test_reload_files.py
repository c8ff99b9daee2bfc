"""A server goes on whatever becomes of the file it serves, and of those it reloads."""

import asyncio
import os
import signal
import threading
import urllib.request
from pathlib import Path

import pytest
from prometheus_client import parser

from polydom.indexer.index.file.pdx_file import read_file, write_file
from polydom.server.errors import ReloadFailed
from polydom.server.runtime import repository as repository_module
from tests.support.edited_files.hostile_files import DEAR, LOUD_ONES, MIB, UNEXPECTED
from tests.support.indexes import records
from tests.support.indexes.repositories import run, started
from tests.support.indexes.served import FEATURES_FILE, HAM, SPAM, save
from tests.support.processes.forked_process import ForkedProcess
from tests.support.processes.servers import ADMIN, STOP_S, ask, reload, serving
from tests.support.waiting import wait_until

OWN = f"--features={FEATURES_FILE}"
WORKERS = pytest.param(
    ("--workers=2",), marks=pytest.mark.skipif(not hasattr(os, "fork"), reason="fork")
)
each_server = pytest.mark.parametrize("options", [(), WORKERS], ids=["one", "workers"])


def labels(port: int) -> list[object]:
    """What a server with time enough says of two texts."""
    answers: list[object] = []
    for text in (HAM, SPAM):
        path = "/v1/predict?budget_ms=900"
        status, answer = ask(
            port, "POST", path, text.encode(), content_type="text/plain"
        )
        assert status == 200, answer
        answers.append((answer["label"], answer["index_version"]))
    return answers


def counted(port: int, result: str) -> float:
    """Reloads with a result, of all workers together."""
    url = f"http://127.0.0.1:{port}/metrics"
    with urllib.request.urlopen(url, timeout=STOP_S) as reply:
        text = reply.read().decode()
    return sum(
        sample.value
        for family in parser.text_string_to_metric_families(text)
        for sample in family.samples
        if sample.name == "polydom_reloads_total" and sample.labels["result"] == result
    )


def stopped(process: ForkedProcess) -> str:
    """Tell a server to stop; what it had to say."""
    process.terminate()
    _, err = process.communicate(timeout=STOP_S)
    assert process.returncode == 0
    return err


def both_ready(port: int, options: tuple[str, ...]) -> bool:
    """Whether all workers are warm; one that is not hears no signal yet."""
    url = f"http://127.0.0.1:{port}/metrics"
    with urllib.request.urlopen(url, timeout=STOP_S) as reply:
        lines = reply.read().decode().splitlines()
    ready = [line for line in lines if line.startswith("polydom_ready{")]
    return [line[-4:] for line in ready] == [" 1.0"] * (1 + len(options))


@each_server
def test_a_served_file_changed_in_place_changes_no_answer(
    tmp_path: Path, options: tuple[str, ...]
) -> None:
    path = save(tmp_path / "tiny.pdx")
    with serving(path, OWN, *options) as (process, port):
        before, done = labels(port), threading.Event()
        wrong: list[object] = []

        def load() -> None:
            while not done.is_set():
                wrong.extend(found for found in [labels(port)] if found != before)

        asking = threading.Thread(target=load)
        asking.start()
        try:
            with path.open("r+b") as file:
                file.write(os.urandom(path.stat().st_size))
            assert [labels(port) for _ in range(10)] == [before] * 10
            os.truncate(path, 100)
            assert [labels(port) for _ in range(10)] == [before] * 10
        finally:
            done.set()
            asking.join()
        assert not wrong
        wait_until(lambda: both_ready(port, options), process)
        process.send_signal(signal.SIGHUP)
        wait_until(lambda: counted(port, "failed") == 1 + len(options), process)
        assert labels(port) == before
        said = stopped(process)
    assert "Traceback" not in said
    assert said.count("tiny.pdx: not a .pdx file") == 1 + len(options)
    assert "ended with" not in said


@each_server
def test_no_file_that_is_reloaded_ends_a_server(
    tmp_path: Path, options: tuple[str, ...]
) -> None:
    path = save(tmp_path / "tiny.pdx")
    names = ("lists in lists", "15 MiB of empty maps", "600,000 dimensions")
    hostile = [*UNEXPECTED.values(), LOUD_ONES["feature"], *map(DEAR.get, names)]
    with serving(path, OWN, *options) as (process, port):
        before = labels(port)
        wait_until(lambda: both_ready(port, options), process)
        for number, make in enumerate(hostile, start=1):
            assert make is not None
            make(tmp_path / "new.pdx")
            (tmp_path / "new.pdx").replace(path)
            process.send_signal(signal.SIGHUP)
            failed = number * (1 + len(options))
            wait_until(lambda n=failed: counted(port, "failed") == n, process)  # type: ignore[misc]
            assert labels(port) == before
        save(path, 0.9)
        process.send_signal(signal.SIGHUP)
        wait_until(lambda: labels(port) != before, process)
        said = stopped(process)
    assert "Traceback" not in said
    assert "ended with" not in said
    lines = [line for line in said.splitlines() if "not loaded: " in line]
    assert len(lines) == len(hostile) * (1 + len(options))
    assert all(len(line) < 1100 and line.isprintable() for line in lines)


@each_server
def test_no_reload_breaks_callers_unless_it_is_allowed(
    tmp_path: Path, options: tuple[str, ...]
) -> None:
    path, admin = save(tmp_path / "tiny.pdx"), tmp_path / "admin"
    admin.write_text(ADMIN)
    own = (OWN, f"--admin-token-file={admin}", *options)
    with serving(path, *own) as (process, port):
        before = labels(port)
        wait_until(lambda: both_ready(port, options), process)
        records.make_index().save(path)
        process.send_signal(signal.SIGHUP)
        refused = 1 + len(options)
        wait_until(lambda: counted(port, "refused") == refused, process)
        assert labels(port) == before
        status, body = reload(port, ADMIN)
        assert (status, body["code"]) == (422, "changed_contract")
        assert "of the kind record, not text" in str(body["error"])
        assert labels(port) == before
        if options:  # a worker that is replaced serves as the others do
            listed = f"/proc/{process.pid}/task/{process.pid}/children"
            os.kill(int(Path(listed).read_text().split()[0]), signal.SIGKILL)
            wait_until(lambda: both_ready(port, options), process)
            assert [labels(port) for _ in range(20)] == [before] * 20
        status, body = reload(port, ADMIN, "?allow_changes=maybe")
        assert (status, body["code"]) == (400, "bad_input")
        assert reload(port, ADMIN, "?allow_changes=true")[0] == 200

        def kinds() -> set[object]:
            return {ask(port, "GET", "/v1/index")[1]["kind"] for _ in range(20)}

        wait_until(lambda: kinds() == {"record"}, process)
        assert counted(port, "failed") == 0


def trap(folder: Path, what: str) -> Path:
    """Features of one's own, whose file does `what` once there is a trap."""
    path = folder / "trap.py"
    path.write_text(
        "import os, pathlib, signal, sys, time\n"
        "from polydom.features import feature\n"
        "@feature(kind='text')\ndef unused(text): return [0]\n"
        f"if pathlib.Path({str(folder / 'set')!r}).exists():\n    {what}\n"
    )
    return path


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.parametrize(
    ("what", "code"),
    [("os.kill(os.getpid(), signal.SIGKILL)", -9), ("sys.exit(7)", 1)],
)
def test_workers_outlive_what_kills_who_loads_it(
    tmp_path: Path, what: str, code: int
) -> None:
    path = save(tmp_path / "tiny.pdx")
    own = f"--features={trap(tmp_path, what)}"
    with serving(path, OWN, own, "--workers=2") as (process, port):
        before = labels(port)
        wait_until(lambda: both_ready(port, ("--workers",)), process)
        (tmp_path / "set").touch()
        process.send_signal(signal.SIGHUP)
        wait_until(lambda: counted(port, "failed") == 2, process)
        assert labels(port) == before
        (tmp_path / "set").unlink()
        save(path, 0.9)
        process.send_signal(signal.SIGHUP)
        wait_until(lambda: labels(port) != before, process)
        said = stopped(process)
    assert f"nothing is reloaded: the process that tried the files ended with {code}, "
    assert f"ended with {code}" in said
    assert "worker" not in said


@each_server
def test_a_server_stops_though_a_file_is_being_loaded(
    tmp_path: Path, options: tuple[str, ...]
) -> None:
    path, begun = save(tmp_path / "tiny.pdx"), tmp_path / "begun"
    slow = trap(tmp_path, f"pathlib.Path({str(begun)!r}).touch(); time.sleep(600)")
    with serving(path, OWN, f"--features={slow}", *options) as (process, port):
        before = labels(port)
        wait_until(lambda: both_ready(port, options), process)
        (tmp_path / "set").touch()
        process.send_signal(signal.SIGHUP)
        wait_until(begun.exists, process)
        assert labels(port) == before
        assert not stopped(process)


@each_server
def test_a_storm_of_signals_to_reload_is_obeyed_a_few_times(
    tmp_path: Path, options: tuple[str, ...]
) -> None:
    path = save(tmp_path / "tiny.pdx")
    log = tmp_path / "log"
    with serving(path, OWN, *options, log=log) as (process, port):
        wait_until(lambda: both_ready(port, options), process)
        path.with_suffix(".new").write_bytes(b"no index" * 9)
        path.with_suffix(".new").replace(path)
        for _ in range(600):
            process.send_signal(signal.SIGHUP)
        process.send_signal(signal.SIGTERM)
        process.wait(timeout=STOP_S)
        assert process.returncode == 0
    assert log.read_text().count("not loaded") < 60 * (1 + len(options))


def test_reloads_that_wait_are_one(tmp_path: Path) -> None:
    path = save(tmp_path / "a.pdx")

    async def main() -> None:
        async with started(path) as repository:
            first = asyncio.ensure_future(repository.reload())
            await asyncio.sleep(0)
            save(path, 0.9)
            others = [asyncio.ensure_future(repository.load("a")) for _ in range(100)]
            others[0].cancel()
            await asyncio.gather(first, *others[1:])
            assert repository.metrics("a").reloads["ok"] <= 2
            version = repository.get().version
            save(path, 0.8)
            await repository.reload()
            assert repository.get().version != version

    run(main())


def test_a_file_that_is_never_opened_is_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = save(tmp_path / "a.pdx")
    go_on = threading.Event()

    async def main() -> None:
        async with started(path) as repository:
            old, open_ = repository.get(), repository._open
            monkeypatch.setattr(repository_module, "LOAD_S", 0.05)
            monkeypatch.setattr(repository, "_open", lambda *given: go_on.wait())
            with pytest.raises(ReloadFailed, match="bad_index_file"):
                await repository.reload()
            assert repository.get() is old
            monkeypatch.setattr(repository, "_open", open_)
            monkeypatch.setattr(repository_module, "LOAD_S", 60.0)
            save(path, 0.9)
            await repository.reload()
            assert repository.get().version != old.version

    try:
        run(main())
    finally:
        go_on.set()


@pytest.mark.skipif(not Path("/proc/self/smaps").exists(), reason="needs /proc")
def test_workers_share_the_copy_that_was_made_before_they_were_forked(
    tmp_path: Path,
) -> None:
    import numpy as np

    path, size = save(tmp_path / "tiny.pdx"), 32 * MIB
    meta, arrays, _ = read_file(path)
    noise = np.random.default_rng(0).integers(0, 256, size, np.uint8)
    write_file(path, meta, {**arrays, "more": noise})
    with serving(path, OWN, "--workers=2") as (process, port):
        wait_until(lambda: both_ready(port, ("--workers",)), process)
        listed = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text()
        assert len(listed.split()) == 2
        for pid in listed.split():
            assert max(_shared_bytes(int(pid))) >= size


def _shared_bytes(pid: int) -> list[int]:
    """Of each part of a process's memory, what other processes have too."""
    shared = []
    for line in Path(f"/proc/{pid}/smaps").read_text().splitlines():
        if line.startswith("Size:"):
            shared.append(0)
        elif line.startswith("Shared_"):
            shared[-1] += 1024 * int(line.split()[1])
    return shared
