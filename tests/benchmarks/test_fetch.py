"""Data sets come whole and as they should be, or not at all."""

import gzip
import hashlib
import io
import tarfile
import threading
import zipfile
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from benchmarks.data.fetch import NotFetched, fetch, main
from benchmarks.data.public_sets import (
    SETS,
    File,
    Source,
    first_lines,
    texts_of,
    zipped,
)

pytestmark = pytest.mark.jit  # of no kernel
ROWS = b"1,2,a\n3,4,b\n5,6,a\n"
TEXTS = {"txt/neg/b.txt": b"dull", "txt/neg/a.txt": b"long", "txt/pos/c.txt": b"good"}


class Quiet(SimpleHTTPRequestHandler):
    """Serves a folder, and tells nobody."""

    def log_message(self, format: str, *arguments: object) -> None:
        """Say nothing."""


@pytest.fixture
def site(tmp_path: Path) -> Iterator[tuple[Path, str]]:
    """A folder, and the address that it is served at."""
    folder = tmp_path / "site"
    folder.mkdir()
    handler = partial(Quiet, directory=str(folder))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield folder, f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def archive_of(texts: dict[str, bytes]) -> bytes:
    """A tar archive as somebody packed it: with a folder, and in any order."""
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w:gz") as archive:
        archive.addfile(tarfile.TarInfo("README"))
        for name, text in texts.items():
            info = tarfile.TarInfo(f"./{name}")
            info.size, info.mtime = len(text), 12345
            archive.addfile(info, io.BytesIO(text))
    return made.getvalue()


def test_files_come_from_whatever_address_has_them(
    site: tuple[Path, str], tmp_path: Path
) -> None:
    folder, address = site
    (folder / "rows.csv").write_bytes(ROWS)
    (folder / "rows.csv.gz").write_bytes(gzip.compress(ROWS + b"7,8,b\n"))
    with zipfile.ZipFile(folder / "rows.zip", "w") as archive:
        archive.writestr("rows.csv", ROWS)
    given = (
        Source(f"{address}/gone.csv"),
        Source(f"{address}/rows.csv.gz", gzip.decompress),  # another content
        Source(f"{address}/rows.csv", zipped("rows.csv")),  # no archive
    )
    ways = (
        Source(f"{address}/rows.csv"),
        Source(f"{address}/rows.csv.gz", first_lines(3)),
        Source(f"{address}/rows.zip", zipped("rows.csv")),
    )
    files = [
        File(f"{number}.csv.gz", sha256(ROWS), (*given, way))
        for number, way in enumerate(ways)
    ]
    place = fetch("rows", files, tmp_path / "sets")
    assert place == tmp_path / "sets" / "rows"
    assert {path.name for path in place.iterdir()} == {file.name for file in files}
    for file in files:
        assert gzip.decompress((place / file.name).read_bytes()) == ROWS


def test_texts_are_known_by_what_they_say(
    site: tuple[Path, str], tmp_path: Path
) -> None:
    """Their archive's owner, dates and order do not count."""
    folder, address = site
    (folder / "texts.tar.gz").write_bytes(archive_of(TEXTS))
    backwards = dict(reversed(TEXTS.items()))
    known = sha256(texts_of(archive_of(backwards)))
    source = Source(f"{address}/texts.tar.gz", texts_of)
    place = fetch("films", [File("texts.tar.xz", known, (source,))], tmp_path)
    with tarfile.open(place / "texts.tar.xz") as archive:
        assert archive.getnames() == sorted(TEXTS)
    assert sha256(texts_of(archive_of(TEXTS | {"txt/neg/a.txt": b"lon"}))) != known


@pytest.mark.parametrize("sent", [ROWS[:-1], b"", None], ids=["cut", "empty", "none"])
def test_nothing_is_left_of_a_set_that_is_not_as_it_should_be(
    sent: bytes | None, site: tuple[Path, str], tmp_path: Path
) -> None:
    folder, address = site
    (folder / "names").write_bytes(b"x,y,label")
    if sent is not None:
        (folder / "rows.csv").write_bytes(sent)
    good = File("names", sha256(b"x,y,label"), (Source(f"{address}/names"),))
    bad = File("rows.csv", sha256(ROWS), (Source(f"{address}/rows.csv"),))
    with pytest.raises(NotFetched, match=r"rows\.csv"):
        fetch("rows", [good, bad], tmp_path / "sets")
    assert [*(tmp_path / "sets").iterdir()] == []
    (folder / "rows.csv").write_bytes(ROWS)
    assert fetch("rows", [good, bad], tmp_path / "sets").is_dir()


def test_the_command_fetches_what_it_can(
    site: tuple[Path, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, address = site
    (folder / "rows.csv").write_bytes(ROWS)
    source = Source(f"{address}/rows.csv")
    sets = {
        "wrong": [File("rows.csv", sha256(b""), (source,))],
        "right": [File("rows.csv", sha256(ROWS), (source,))],
    }
    where = f"--folder={tmp_path / 'sets'}"
    with pytest.raises(SystemExit) as left:
        main(["all", where], sets)
    assert left.value.code == 1
    told = capsys.readouterr()
    assert str(tmp_path / "sets" / "right") in told.out
    assert "scene15/train/LABEL" in told.out
    assert sha256(ROWS) in told.err
    main([where], sets)
    assert capsys.readouterr().out.split()[:2] == ["wrong", "right"]


def test_the_checksums_are_of_the_files_that_were_measured_on(data: Path) -> None:
    for name, files in SETS.items():
        for file in files:
            found = (data / name / file.name).read_bytes()
            if file.name.endswith(".gz"):
                found = gzip.decompress(found)
            elif file.name.endswith(".tar.xz"):
                found = texts_of(found)
            assert sha256(found) == file.sha256, f"{name}/{file.name}"
    assert (data / "scene15").is_dir()
