from pathlib import Path

import numpy as np
import pytest

from polydom.indexer.building.cache import Cache, digest


def test_cache_gives_back_what_it_keeps(tmp_path: Path) -> None:
    cache = Cache(tmp_path / "new")
    assert cache.load("sets/a/1") is None
    cache.store("sets/a/1", {"accuracy": 0.5}, {"x": np.arange(3)})
    stored = cache.load("sets/a/1")
    assert stored is not None
    assert stored[0] == {"accuracy": 0.5}
    np.testing.assert_array_equal(stored[1]["x"], [0, 1, 2])


@pytest.mark.parametrize("content", [b"", b"half", b"x" * 1000])
def test_cache_entry_that_is_damaged_counts_as_absent(
    tmp_path: Path, content: bytes
) -> None:
    cache = Cache(tmp_path)
    cache.store("a", {}, {"x": np.arange(3)})
    (tmp_path / "a.pdx").write_bytes(content)
    assert cache.load("a") is None


def test_digest_tells_parts_apart() -> None:
    assert digest("a", "b") != digest("ab")
    assert digest({"x": 1, "y": 2}) == digest({"y": 2, "x": 1})
    assert digest([1, None]) != digest([1, 0])


def test_shared_arrays_that_are_mapped_stay_as_they_were(tmp_path: Path) -> None:
    cache = Cache(tmp_path)
    mapped = cache.share("x", {"y": np.zeros(1000)})["y"]
    cache.share("x", {"y": np.ones(10)})
    assert (mapped == 0).all()
