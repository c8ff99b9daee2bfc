"""Where the checkout is, its demo, and the data sets."""

import os
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
DEMO = ROOT / "docs" / "demo" / "PROJECT.toml"
FETCHED = (
    Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    / "polydom"
    / "benchmarks"
)
BESIDE = ROOT.parent / "shared" / "data"
VARIABLE = "POLYDOM_BENCHMARK_DATA"


def data_folder() -> Path:
    """The folder that $POLYDOM_BENCHMARK_DATA names, the fetched, or one beside."""
    named = os.environ.get(VARIABLE)
    if named:
        return Path(named)
    return BESIDE if BESIDE.is_dir() and not FETCHED.is_dir() else FETCHED


def use(folder: str) -> Path:
    """Have this process, and those that it starts, read data sets there."""
    os.environ[VARIABLE] = str(Path(folder).absolute())
    return data_folder()
