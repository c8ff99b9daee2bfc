"""Who may ask is settled before a body is waited for, and so is how long it may be."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from polydom.server.http.body import SMALL_BODY
from tests.support.indexes.served import FEATURES_FILE, save_index
from tests.support.processes.raw_http import failure, request, send
from tests.support.processes.servers import serving

USER, ADMIN = "a-token-of-some-user-of-models", "an-admin-token-of-32-characters0"
CHANGES = ("load", "unload")


@pytest.fixture(scope="module")
def port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    folder = tmp_path_factory.mktemp("tokens")
    (folder / "users").write_text(USER)
    (folder / "admins").write_text(ADMIN)
    options = [f"--features={FEATURES_FILE}", f"--token-file={folder / 'users'}"]
    options.append(f"--admin-token-file={folder / 'admins'}")
    with serving(save_index(folder), *options) as (_, port):
        yield port


def head_of(path: bytes, *lines: bytes, length: int = 7 << 20) -> bytes:
    """A request without its body, of which so many bytes are said to come."""
    whole = request(path, b"", *lines)
    return whole.replace(b"content-length: 0", b"content-length: %d" % length)


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("token", ["", USER])
def test_change_is_refused_while_its_body_is_still_to_come(
    port: int, change: str, token: str
) -> None:
    path = f"/v2/repository/models/tiny/{change}".encode()
    sent = head_of(path, b"authorization: Bearer " + token.encode())
    # answered at once, or this would be a 408
    assert failure(send(port, sent)) == (401, "unauthorized")


def test_change_nobody_may_make_is_refused_while_its_body_is_still_to_come(
    tmp_path: Path,
) -> None:
    with serving(save_index(tmp_path), f"--features={FEATURES_FILE}") as (_, port):
        for change in CHANGES:
            sent = head_of(f"/v2/repository/models/tiny/{change}".encode())
            assert failure(send(port, sent)) == (403, "not_allowed")


@pytest.mark.parametrize("path", ["index", "models/tiny/load", "models/tiny/unload"])
def test_body_of_few_words_may_not_be_long(port: int, path: str) -> None:
    token = USER if path == "index" else ADMIN
    line = b"authorization: Bearer " + token.encode()
    body = b'{"a":[' + b"[]," * (SMALL_BODY // 3) + b"[]]}"
    target = b"/v2/repository/" + path.encode()
    assert failure(send(port, request(target, body, line))) == (413, "too_large")
