"""A file comes from an https address whole and as it is known, or not at all."""

import gc
import hashlib
import re
import ssl
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from polydom.features.errors import BadProject
from polydom.indexer.building.features import download
from tests.support.builds.progresses import Stages

CONTENT = bytes(range(256)) * 5000
CHECKSUM = hashlib.sha256(CONTENT).hexdigest()


class Files(BaseHTTPRequestHandler):
    """Answers as servers of files do, and as they should not."""

    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        if path in ("/moved", "/away"):
            self.send_response(302)
            place = "/network" if path == "/moved" else "http://127.0.0.1/network"
            self.send_header("Location", place)
            self.end_headers()
            return
        if path == "/none":
            self.send_error(404)
            return
        if path == "/silent":
            self.server.shut.wait(10)  # type: ignore[attr-defined]
            return
        self.send_response(200)
        if path != "/unsaid":
            more = 7 * (path == "/cut")
            self.send_header("Content-Length", str(len(CONTENT) + more))
        self.end_headers()
        self.wfile.write(CONTENT)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def files(pem: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Address of a server of files, whose certificate is trusted."""
    monkeypatch.setenv("SSL_CERT_FILE", str(pem / "certificate"))
    monkeypatch.setenv("no_proxy", "*")
    server = ThreadingHTTPServer(("127.0.0.1", 0), Files)
    server.shut = threading.Event()  # type: ignore[attr-defined]
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pem / "certificate", pem / "key")
    server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    yield f"https://127.0.0.1:{server.server_address[1]}"
    server.shut.set()  # type: ignore[attr-defined]
    server.shutdown()
    thread.join()
    server.server_close()
    gc.collect()  # then a connection that was left open fails this test, not another


def fetch(
    address: str,
    folder: Path,
    sha256: str = CHECKSUM,
    most: int = len(CONTENT),
    stages: Stages | None = None,
) -> Path:
    """Fetch a file into an empty folder; the path of the file."""
    folder.mkdir()
    place = folder / "kept"
    stages = stages or Stages()
    download.download(
        address, place, sha256, most=most, what="network 'a'", progress=stages
    )
    return place


def test_a_file_is_fetched_with_its_progress(files: str, tmp_path: Path) -> None:
    for number, path in enumerate(("/network", "/moved", "/unsaid")):
        stages = Stages()
        place = fetch(files + path, tmp_path / str(number), stages=stages)
        assert place.read_bytes() == CONTENT
        assert stages.done == {"fetching network 'a'": 2}
    place = fetch(f"{files}/network", tmp_path / "upper", CHECKSUM.upper())
    assert place.read_bytes() == CONTENT


@pytest.mark.parametrize(
    ("path", "change", "message"),
    [
        ("/none", {}, "/none cannot be fetched: the server answered 404 Not Found; a"),
        ("/away", {}, "it leads to http://127.0.0.1/network, which is no https addr"),
        ("/cut", {"most": 1 << 30}, "the connection ended after 1,280,000 of 1,280,0"),
        ("/network", {"most": 99}, "has 1,280,000 bytes; 99 is the most"),
        ("/unsaid", {"most": 99}, "has more than 99 bytes"),
        ("/network", {"sha256": "0" * 64}, f"has the SHA-256 {CHECKSUM}; 000"),
        ("/silent", {}, "nothing came for 0.2 s"),
    ],
)
def test_what_is_not_as_it_should_be_leaves_nothing(
    path: str,
    change: dict[str, object],
    message: str,
    files: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(download, "READ_S", 0.2)
    with pytest.raises(BadProject, match=re.escape(message)) as raised:
        fetch(f"{files}{path}?token=secret", tmp_path / "cache", **change)  # type: ignore[arg-type]
    assert str(raised.value).startswith(f"network 'a': {files}{path} ")
    assert "secret" not in str(raised.value)
    assert list((tmp_path / "cache").iterdir()) == []


def test_a_certificate_of_nobody_known_is_refused(
    files: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SSL_CERT_FILE")
    with pytest.raises(BadProject, match=r"is not trusted \(self.signed certificate"):
        fetch(f"{files}/network", tmp_path / "cache")
    assert list((tmp_path / "cache").iterdir()) == []


@pytest.mark.parametrize(
    ("address", "reason"),
    [
        ("https://none.invalid/a", "known"),
        ("https://127.0.0.1:1/a", "refused"),
        ("https:///a", "no host given"),
        ("https://127.0.0.1:x/a", "nonnumeric port"),
    ],
)
def test_an_address_of_nobody_is_named(
    address: str, reason: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("no_proxy", "*")
    with pytest.raises(BadProject, match=f"{address} cannot be fetched: .*{reason}"):
        fetch(address, tmp_path / "cache")
