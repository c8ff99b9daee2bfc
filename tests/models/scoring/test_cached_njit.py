"""A kernel is compiled when it is needed, once, and anew when its imports change."""

import os
import re
import shutil
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from numba import float64, int64

from polydom.models.scoring.kernels import cached_njit, compiling, kernel_cache
from polydom.models.scoring.kernels.cached_njit import njit
from tests.support.forked_process import run_forked
from tests.support.places import ROOT

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
    assert any((folder / "own" / "polydom").glob("outer.double-*.nbi"))


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
    import_module("polydom.models.trees.kernels.simd")
    one = kernel_cache.digest("polydom.models.trees.kernels.simd")
    assert re.fullmatch("[0-9a-f]{16}", one)
    assert one != kernel_cache.digest("polydom.models.trees.kernels.packed")
    found: dict[str, bytes] = {}
    kernel_cache._collect("polydom.models.trees.kernels.simd", found)
    assert {
        "polydom.models.trees.kernels.packed",
        "polydom.models.trees.kernels.avx512",
    } < set(found)
    assert not any(name.startswith("polydom.server") for name in found)
