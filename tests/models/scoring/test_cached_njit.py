"""A kernel is compiled when it is needed, once, and anew when its imports change."""

import os
import re
import shutil
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from numba import float64, int64

from polydom.models.scoring.kernels import cached_njit, compiling, kernel_cache
from polydom.models.scoring.kernels.cached_njit import njit
from tests.support.places import ROOT
from tests.support.processes.forked_process import run_forked

PACKAGE = {
    "__init__.py": "",
    "limits.py": "LIMIT = 6\n",
    "inner.py": """\
from numba import int64

from .cached_njit import njit
from .limits import LIMIT

@njit(int64(int64), cache=True)
def add(a):
    return a + LIMIT
""",
    "outer.py": """\
from numba import int64

from . import inner
from .cached_njit import njit

@njit(int64(int64), cache=True)
def double(a):
    return 2 * inner.add(a)
""",
}


# Python would keep a module by its size and time, as pip does not
ASK = """\
import os
import sys

from numba.core.config import reload_config

sys.dont_write_bytecode = True
os.environ["NUMBA_CACHE_DIR"] = ""
os.environ.update(setting.split("=") for setting in sys.argv[1:])
reload_config()  # numba was imported where this process was forked

from kept.outer import double

print(double(1), sum(double.stats.cache_hits.values()))
"""
# compiles one kernel, then another in a process that is forked
FORK = """\
import os

from kept.inner import add

print(add(1), flush=True)
if child := os.fork():
    os._exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))

from kept.outer import double

print(double(1), flush=True)
"""


def answer(folder: Path, *settings: str) -> tuple[int, bool]:
    """Ask a new process for 2 * (1 + LIMIT), and whether it came from the cache."""
    done = run_forked(["python", str(folder / "ask.py"), *settings])
    assert done.returncode == 0, done.stderr
    value, hits = map(int, done.stdout.split())
    return value, hits > 0


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "kept").mkdir()
    (tmp_path / "ask.py").write_text(ASK)
    for name, source in PACKAGE.items():
        (tmp_path / "kept" / name).write_text(source)
    for module in (cached_njit, compiling, kernel_cache):
        shutil.copy(str(module.__file__), tmp_path / "kept")
    return tmp_path


@pytest.mark.jit
def test_a_constant_changed_in_another_file_is_seen(folder: Path) -> None:
    assert answer(folder) == (14, False)
    assert answer(folder) == (14, True)
    limits = folder / "kept" / "limits.py"
    stamps = limits.stat().st_atime_ns, limits.stat().st_mtime_ns
    limits.write_text("LIMIT = 7\n")
    os.utime(limits, ns=stamps)  # as wheels are that are built again alike
    assert answer(folder) == (16, False)
    assert answer(folder) == (16, True)


@pytest.mark.jit
def test_a_copy_elsewhere_uses_what_is_cached_in_it(folder: Path) -> None:
    assert answer(folder) == (14, False)
    shutil.copytree(folder, folder / "copy", ignore=shutil.ignore_patterns("copy"))
    assert answer(folder / "copy") == (14, True)


@pytest.mark.jit
def test_kernels_that_check_indices_are_others(folder: Path) -> None:
    assert answer(folder) == (14, False)
    assert answer(folder, "NUMBA_BOUNDSCHECK=1") == (14, False)
    assert answer(folder) == (14, True)


@pytest.mark.jit
def test_processes_that_start_together_compile_once(folder: Path) -> None:
    with ThreadPoolExecutor(4) as threads:
        answers = list(threads.map(answer, 4 * [folder]))
    assert sorted(answers) == [(14, False), *3 * [(14, True)]]


@pytest.mark.jit
def test_where_nothing_can_be_kept_kernels_are_compiled_all_the_same(
    folder: Path,
) -> None:
    file = folder / "no-folder"
    file.touch()
    for _ in range(2):
        assert answer(folder, f"NUMBA_CACHE_DIR={file}") == (14, False)
    assert answer(folder, f"NUMBA_CACHE_DIR={folder / 'own'}") == (14, False)
    assert answer(folder, f"NUMBA_CACHE_DIR={folder / 'own'}") == (14, True)
    assert any((folder / "own" / "polydom").glob("outer.double-*.nbc"))


@pytest.mark.jit
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_process_forked_from_one_that_compiled_compiles_too(folder: Path) -> None:
    (folder / "fork.py").write_text(FORK)
    done = run_forked(["python", str(folder / "fork.py")])
    assert (done.returncode, done.stdout) == (0, "7\n14\n"), done.stderr


@pytest.mark.jit
def test_what_is_kept_and_damaged_is_compiled_again_and_replaced(
    folder: Path,
) -> None:
    own = f"NUMBA_CACHE_DIR={folder / 'own'}"
    assert answer(folder, own) == (14, False)
    kept = [*(folder / "own" / "polydom").glob("*.nbc")]
    assert len(kept) == 2
    kept[0].write_bytes(b"")
    assert answer(folder, own) == (14, kept[0].name.startswith("inner."))
    assert answer(folder, own) == (14, True)


def empty(file: Path) -> None:
    file.write_bytes(b"")


def cut_short(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-1])


def write_more(file: Path) -> None:
    file.write_bytes(file.read_bytes() + b"\0")


def turn_a_bit(file: Path) -> None:
    content = bytearray(file.read_bytes())
    content[-3] ^= 4
    file.write_bytes(content)


def fill_with_zeros(file: Path) -> None:
    file.write_bytes(bytes(file.stat().st_size))


def take_another(file: Path) -> None:
    """Put what was saved under another key in this file's place."""
    (other,) = (f for f in file.parent.glob("*.nbc") if f != file)
    shutil.copy(other, file)


def make_a_folder(file: Path) -> None:
    file.unlink()
    file.mkdir()


def make_unreadable(file: Path) -> None:
    file.chmod(0)
    if os.access(file, os.R_OK):  # this user may read everything
        file.write_bytes(b"")


DAMAGES = [
    *(empty, cut_short, write_more, turn_a_bit, fill_with_zeros),
    *(take_another, make_a_folder, make_unreadable),
]


@pytest.mark.parametrize("damage", DAMAGES)
def test_no_damaged_file_is_unpickled_and_one_line_says_so(
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    damage: Callable[[Path], None],
) -> None:
    files = kernel_cache._Files(tmp_path, "kernel-0")
    files.save("one", {"number": 1})
    (file,) = tmp_path.iterdir()
    files.save("other", {"number": 2})
    damage(file)
    for _ in range(2):
        assert files.load("one") is None
    (line,) = caplog.messages
    assert line == f"a compiled kernel is damaged, and compiled again: {file}"
    files.save("one", {"number": 3})
    assert [files.load(key) for key in ("one", "other", "no")] == [
        *({"number": 3}, {"number": 2}),
        None,
    ]
    assert len([*tmp_path.iterdir()]) == 2


def test_a_folder_with_files_in_it_stays_in_the_place_of_a_kernel(
    tmp_path: Path,
) -> None:
    files = kernel_cache._Files(tmp_path, "kernel-0")
    files.save("one", 1)
    (file,) = tmp_path.iterdir()
    make_a_folder(file)
    (file / "mine").touch()
    with pytest.raises(OSError, match=file.name):
        files.save("one", 1)
    assert [*tmp_path.iterdir()] == [file]


@pytest.mark.jit
def test_nothing_is_compiled_before_it_is_called() -> None:
    @njit(int64(int64), nogil=True)
    def half(a: int) -> int:
        return a // 2

    @njit([int64(int64), float64(float64)], nogil=True)
    def quarter(a: Any) -> Any:
        return half(int64(a)) / 2

    assert not half.signatures
    assert not quarter.signatures
    with ThreadPoolExecutor(8) as threads:
        assert set(threads.map(quarter, 64 * [9])) == {2}
    assert quarter(9.5) == 2.0
    assert half.signatures == [(int64,)]
    assert quarter.signatures == [(int64,), (float64,)]
    with pytest.raises(TypeError, match="No matching definition"):
        quarter("9")


def test_every_kernel_is_compiled_so() -> None:
    numba_import = re.compile(r"^from numba import (\([^)]*\)|.*)$", re.MULTILINE)
    files = [
        f
        for room in ("features", "models", "indexer", "server")
        for f in (ROOT / room).glob("**/*.py")
    ]
    assert len(files) > 100
    for file in files:
        for names in numba_import.findall(file.read_text("utf-8")):
            assert not re.search(r"\b(njit|jit|vectorize)\b", names), file


def test_a_digest_is_that_of_sources_alone() -> None:
    import_module("polydom.models.trees.kernels.one_row_vectors")
    one = kernel_cache.digest("polydom.models.trees.kernels.one_row_vectors")
    assert re.fullmatch("[0-9a-f]{16}", one)
    assert one != kernel_cache.digest("polydom.models.trees.kernels.one_row")
    found: dict[str, bytes] = {}
    kernel_cache._collect("polydom.models.trees.kernels.one_row_vectors", found)
    assert {
        "polydom.models.trees.kernels.one_row",
        "polydom.models.trees.kernels.avx512",
    } < set(found)
    assert not any(name.startswith("polydom.server") for name in found)
