"""Files made to hurt are refused soon, with little memory, in one line to read."""

import dataclasses
import os
import tempfile
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from polydom.features.errors import (
    LONGEST_MESSAGE,
    BadIndexFile,
    BadInput,
    PolydomError,
    printable,
)
from polydom.indexer.index.file import pdx_file
from polydom.indexer.index.file.pdx_file import read_file, write_file
from polydom.indexer.index.index import Index
from polydom.server.__main__ import main
from polydom.server.runtime.repository import Repository
from tests.support.edited_files import hostile_files
from tests.support.edited_files.hostile_files import (
    DEAR,
    LOUD_ONES,
    MIB,
    UNEXPECTED,
    sparse,
)
from tests.support.indexes import served
from tests.support.oracles.containers import count_entries
from tests.support.processes.forked_process import run_forked

ALLOWED_S = 5.0
SPARE_BYTES = 64 * MIB


@pytest.mark.parametrize("name", UNEXPECTED)
def test_whatever_a_file_does_to_the_loader_is_the_files_fault(
    tmp_path: Path, name: str
) -> None:
    UNEXPECTED[name](tmp_path / "bad.pdx")
    with pytest.raises(BadIndexFile, match=r"bad\.pdx: "):
        Index.load(tmp_path / "bad.pdx")


@pytest.mark.skipif(
    not Path("/proc/self/clear_refs").exists(), reason="needs /proc to see memory"
)
def test_files_are_refused_soon_and_in_little_memory(tmp_path: Path) -> None:
    paths = [tmp_path / f"{number}.pdx" for number in range(len(DEAR))]
    for path, make in zip(paths, DEAR.values(), strict=True):
        make(path)
    paths += [
        sparse(tmp_path / "zeros.pdx", 256 * MIB),
        sparse(tmp_path / "large.pdx", pdx_file.MAX_FILE_BYTES + 64),
    ]
    sound = served.save_index(tmp_path)
    words = ["python", "-m", hostile_files.__name__, str(sound), *map(str, paths)]
    done = run_forked(words)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    for name, path, line in zip([*DEAR, "zeros", "large"], paths, lines, strict=True):
        facts = msgspec.json.decode(line)
        assert facts["said"].startswith(f"{path}: "), name
        assert facts["s"] < ALLOWED_S, name
        size = min(path.stat().st_size, pdx_file.MAX_FILE_BYTES)
        assert facts["bytes"] < 4 * size + SPARE_BYTES, name


@pytest.mark.parametrize("name", LOUD_ONES)
def test_text_of_a_file_is_shown_escaped_and_cut(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    path = tmp_path / "loud.pdx"
    LOUD_ONES[name](path)
    (tmp_path / "item.txt").write_text("hello")
    arguments = ["predict", str(path), str(tmp_path / "item.txt"), "--budget-ms=9"]
    assert main(arguments) == 1
    said = capsys.readouterr().err
    assert said.endswith("\n")
    assert said[:-1].isprintable()
    assert len(said) < LONGEST_MESSAGE + 20
    assert r"\x1b[2" in said


def test_what_an_index_calls_things_is_shown_escaped(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    index = served.make_index()
    assert index.package is not None
    labels = tuple(f"\x1b[2J{label} [red]\n" for label in index.package.labels)
    package = dataclasses.replace(
        index.package, labels=labels, meta={**index.package.meta, "\x1b[31m": "\x1b[2J"}
    )
    dataclasses.replace(index, package=package).save(tmp_path / "loud.pdx")
    (tmp_path / "item.txt").write_text("hello")
    common = [str(tmp_path / "loud.pdx"), "--features", str(served.FEATURES_FILE)]
    item = str(tmp_path / "item.txt")
    for command in (
        ["inspect", common[0]],
        ["plan", common[0], "--size=100", "--budget-ms=9"],
        ["predict", common[0], item, "--budget-ms=900", *common[1:]],
    ):
        assert main(command) == 0
        said = capsys.readouterr().out
        assert all(line.isprintable() for line in said.split("\n")), command[0]
    assert r"\x1b[2J" in said
    assert "[red]" in said


@given(st.text(max_size=300), st.integers(20, 100))
def test_messages_are_one_short_line_and_what_was_printable_stays(
    text: str, longest: int
) -> None:
    shown = printable(text, longest)
    assert shown.isprintable()
    assert len(shown) <= longest
    if text.isprintable() and len(text) <= longest:
        assert shown == text
    assert printable(shown, longest) == shown
    escaped = printable(text, 10**9)
    assert shown[:8] == escaped[:8]
    assert shown[-7:] == escaped[-7:]
    assert str(PolydomError(text)) == printable(text)


@pytest.mark.parametrize("fact", [{"samples": [1]}, {"pace": "fast"}])
def test_what_is_found_out_before_serving_names_the_file(
    tmp_path: Path, fact: dict[str, Any]
) -> None:
    path = tmp_path / "odd.pdx"
    hostile_files.edited(lambda meta, _: meta["package"]["meta"].update(fact))(path)
    with pytest.raises(BadIndexFile, match=r"odd\.pdx: "):
        Repository([path], features=[served.FEATURES_FILE])


def test_what_is_no_file_is_refused_at_once(tmp_path: Path) -> None:
    with pytest.raises(BadIndexFile, match="not a regular file"):
        Index.load(tmp_path)
    if hasattr(os, "mkfifo"):
        os.mkfifo(tmp_path / "pipe.pdx")
        with pytest.raises(BadIndexFile, match=r"pipe\.pdx: not a regular file"):
            Index.load(tmp_path / "pipe.pdx")
    if Path("/dev/zero").exists():
        with pytest.raises(BadIndexFile, match="/dev/zero: not a regular file"):
            Index.load("/dev/zero")


def test_file_that_does_not_fit_into_memory_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = served.save_index(tmp_path)

    def full(*_: object) -> Any:
        raise MemoryError

    monkeypatch.setattr(pdx_file, "_allocate", full)
    with pytest.raises(BadIndexFile, match=r"tiny\.pdx: does not fit into memory"):
        Index.load(path)


PLAIN = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False)
    | st.text(max_size=40)
    | st.binary(max_size=40),
    lambda inner: (
        st.lists(inner, max_size=20)
        | st.dictionaries(st.text(max_size=5), inner, max_size=20)
    ),
    max_leaves=60,
)


@given(PLAIN, st.binary(max_size=3))
def test_entries_are_counted_without_decoding(plain: Any, behind: bytes) -> None:
    header = msgspec.msgpack.encode(plain)
    entries, containers = count_entries(plain)
    for less_entries, less_containers in ((0, 0), (1, 0), (0, 1)):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(pdx_file, "MAX_ENTRIES", entries - less_entries)
            patch.setattr(pdx_file, "MAX_CONTAINERS", containers - less_containers)
            over = (less_entries or less_containers) and containers
            assert bool(pdx_file.excess(header + behind)) == bool(over)


@given(st.binary(max_size=200))
def test_bytes_that_are_no_msgpack_are_counted_too(data: bytes) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = hostile_files.sealed(Path(folder, "a.pdx"), data)
        assert not pdx_file.excess(data) or len(data) > 4
        with pytest.raises(BadIndexFile, match=r"a\.pdx: damaged"):
            read_file(path)


def test_nothing_is_written_that_could_not_be_read(tmp_path: Path) -> None:
    words = [str(number) for number in range(pdx_file.MAX_ENTRIES)]
    with pytest.raises(BadInput, match=r"a\.pdx cannot be written: its header holds"):
        write_file(tmp_path / "a.pdx", {"words": words}, {})
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pdx_file, "MAX_FILE_BYTES", 1024)
        with pytest.raises(BadInput, match=r"a\.pdx would have [\d,]+ bytes; .* 1,024"):
            served.make_index().save(tmp_path / "a.pdx")
    assert not list(tmp_path.iterdir())
