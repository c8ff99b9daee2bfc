"""Arrays in files are read from there; carried along they are few."""

import pickle
from pathlib import Path

import numpy as np
import pytest

from polydom.features.errors import BadProject
from polydom.indexer.building.shared_arrays import MOST_CARRIED, SharedArrays


def test_arrays_are_small_to_send_and_the_same_there(tmp_path: Path) -> None:
    arrays = {"a": np.arange(1e5), "none": np.zeros((0, 3)), "b": np.eye(2) > 0}
    shared = SharedArrays.place(tmp_path / "new", arrays)
    content = pickle.dumps(shared)
    assert len(content) < 500
    there = pickle.loads(content)
    assert [*there] == ["a", "none", "b"]
    assert len(there) == 3
    for name, array in arrays.items():
        np.testing.assert_array_equal(there[name], array)
        assert there[name].dtype == array.dtype
    with pytest.raises(KeyError):
        there["c"]
    with pytest.raises(ValueError, match="read-only"):
        there["a"][0] = 1
    there.remove()
    assert not (tmp_path / "new").exists()


def test_without_a_folder_few_arrays_are_carried_along() -> None:
    most = np.zeros(MOST_CARRIED, np.uint8)
    there = pickle.loads(pickle.dumps(SharedArrays.place(None, {"a": most})))
    np.testing.assert_array_equal(there["a"], most)
    there.remove()
    with pytest.raises(BadProject, match=r"17 MB would go with every call .* --shared"):
        SharedArrays.place(None, {"a": most, "b": np.zeros(1)})
