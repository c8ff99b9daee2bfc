"""Files of fetches: what is loaded, and the sentence for each mistake."""

import re
import sys
from pathlib import Path

import pytest

from polydom.features.errors import BadFetch
from polydom.features.fetches.load import load_fetches
from tests.support.fetch_files import load_text

PYTHON = """
from polydom.features import fetch

@fetch(key=["id"], columns=["n"])
async def orders(keys, left_s):
    return [None for key in keys]

@fetch(key=["id"], columns=["x"], name="other", keep_s=5)
async def second(keys, left_s):
    return [None for key in keys]
"""
TERMS = "at_most_ms = 250\nkeep_s = 60\nbatch = 7\nat_once = 3\nhedge = 0.1\n"
HTTP = 'http = "http://localhost/"\n'


def test_fetches_of_several_files_are_loaded(tmp_path: Path) -> None:
    first, second = tmp_path / "a.py", tmp_path / "b.toml"
    first.write_text(PYTHON)
    second.write_text(
        f"[scores]\n{HTTP}{TERMS}key = ['a', 'b']\n"
        "[history]\npostgres = 'postgresql://h/d'\nquery = 'SELECT $1'\n"
        "[more]\nredis = 'redis://h'\nstring = 'x{id}'\n"
    )
    found = load_fetches([first, second])
    assert [*found] == ["orders", "other", "scores", "history", "more"]
    scores = found["scores"]
    assert (scores.key, scores.columns) == (("a", "b"), ())
    assert (scores.at_most_s, scores.keep_s) == (0.25, 60)
    assert (scores.batch, scores.at_once, scores.hedge) == (7, 3, 0.1)
    bound = scores.bound_to(["a", "b"], ["x"])
    assert (bound.key, bound.columns, bound.batch) == (("a", "b"), ("x",), 7)


def test_an_index_with_another_key_is_refused(tmp_path: Path) -> None:
    found = load_text(tmp_path, f"[a]\n{HTTP}key = ['id']")
    with pytest.raises(BadFetch, match="'a' has the key id; the key x is needed, in"):
        found["a"].bound_to(["x"], ["n"])


def test_variables_are_filled_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WHERE", "http://h/")
    load_text(tmp_path, '[a]\nhttp = "$WHERE"\nheaders = { x = "a$$b ${WHERE}" }')


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "defines no fetch; each table is one, such as [orders]"),
        ("x = 1", "x is no table; each fetch is one, such as [orders]"),
        ("[a]\nx = 1\nx = 2", "no valid TOML: "),
        ("[a]\nkeep_s = 1", "'a' has no address; one address is needed, of redis, po"),
        ("[a]\nredi = 'x'", "'redi' is unknown, did you mean 'redis'?"),
        (f"[a]\n{HTTP}redis = 'x'", "'a' has redis and http; one address is needed"),
        (f"[a]\n{HTTP}keeps = 1", "'keeps' is unknown; did you mean 'keep_s'?"),
        (f"[a]\n{HTTP}query = 'x'", "'query' is unknown; "),
        (f"[a]\n{HTTP}batch = 'x'", "batch: expected int, got str"),
        (f"[a]\n{HTTP}batch = 0", "batch is 0; 1 or more, and at most 10000, is need"),
        (f"[a]\n{HTTP}at_most_ms = inf", "at_most_ms is inf; 0.001 or more"),
        ("[a]\npostgres = 'postgresql://h'", "'query' is missing"),
        ("[a]\nredis = 'redis://h'", "'a' has neither hash nor string; one of them"),
        (
            "[a]\nredis = 'redis://h'\nhash = '{x}'\nstring = '{x}'",
            "'a' has both hash and string; one of them is needed",
        ),
        ("[a]\nhttp = 'localhost'", "http is no address that begins with http:// or"),
        ("[a]\nhttp = 'http://h:x/'", "http is no address that begins with http://"),
        ("[a]\nhttp = 'http://[::1/'", "http is no address that begins with http://"),
        ("[a]\nhttp = 'http://u:s3cret/@h/'", "http is no address that begins with"),
        ("[a]\nhttp = 'redis://s3cret'", "http is no address that begins with http"),
        ("[a]\nhttp = '$NO_SUCH'", "variable NO_SUCH, which is not set"),
        ("[a]\nhttp = 'http://h/$'", "http has a $ without the name of an environm"),
        (
            f"[a]\n{HTTP}headers = {{ x = '$NO_SUCH' }}",
            "the header 'x' needs the environment variable NO_SUCH",
        ),
    ],
)
def test_mistakes_in_toml_are_told(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(BadFetch, match=re.escape(f"{tmp_path}/fetches.toml")) as raised:
        load_text(tmp_path, text)
    assert message in str(raised.value)
    assert "s3cret" not in str(raised.value)


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.py", "x = 1", "defines no fetch; an async function is one under"),
        ("a.py", "x = 1\n1 / 0", "line 2: ZeroDivisionError"),
        ("a.py", PYTHON + "a = a", "NameError"),
        ("a.yaml", "", "a .py or .toml file with fetches is needed"),
        ("a.toml", b"\xff", "no valid TOML"),
    ],
)
def test_other_files_are_refused(
    tmp_path: Path, name: str, text: str | bytes, message: str
) -> None:
    file = tmp_path / name
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(BadFetch, match=re.escape(str(file))) as raised:
        load_fetches([file])
    assert message in str(raised.value)


def test_absent_files_and_folders_are_refused(tmp_path: Path) -> None:
    with pytest.raises(BadFetch, match=r"nowhere\.py: No such file or directory; a"):
        load_fetches([tmp_path / "nowhere.py"])
    with pytest.raises(BadFetch, match="this is a folder; a "):
        load_fetches([tmp_path])


def test_two_fetches_of_a_name_are_refused(tmp_path: Path) -> None:
    for name in ("a.py", "b.py"):
        (tmp_path / name).write_text(PYTHON)
    with pytest.raises(BadFetch, match=r"b\.py: there is another fetch 'orders'"):
        load_fetches([tmp_path / "a.py", tmp_path / "b.py"])


@pytest.mark.parametrize(
    ("library", "terms", "extra"),
    [
        ("redis", "redis = 'redis://h'\nhash = '{x}'", "redis"),
        ("asyncpg", "postgres = 'postgresql://h'\nquery = '$1'", "postgres"),
        ("aiohttp", HTTP, "http"),
    ],
)
def test_a_missing_library_is_told(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    library: str,
    terms: str,
    extra: str,
) -> None:
    for name in [name for name in sys.modules if name.split(".")[0] == library]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, library, None)
    cure = f"fetch 'a' needs the library {library}: pip install 'polydom[{extra}]'"
    with pytest.raises(BadFetch, match=re.escape(cure)):
        load_text(tmp_path, f"[a]\n{terms}")
