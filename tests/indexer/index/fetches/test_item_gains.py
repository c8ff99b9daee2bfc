"""What items gain by a larger set is stored by margin, and read between the knots."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from polydom.features.errors import BadIndexFile
from polydom.indexer.index.fetches.item_gains import KNOTS, ItemGains, gain_at
from polydom.indexer.index.index import Index
from tests.support.indexes import fetched

MARGINS = np.linspace(0.0, 0.9, KNOTS)
GAINS = np.linspace(0.3, -0.1, KNOTS)


def gains_of(**arrays: Any) -> ItemGains:
    whole = {
        "pairs": np.array([[1, 5], [3, 7]], np.uint64),
        "margins": np.array([MARGINS, MARGINS]),
        "gains": np.array([GAINS, GAINS]),
    }
    return ItemGains.from_arrays({**whole, **arrays})


def with_gains(gains: ItemGains) -> Index:
    index = fetched.make_index()
    assert index.package is not None
    return replace(index, package=replace(index.package, gains=gains))


@given(
    margins=st.lists(st.floats(0, 1), min_size=KNOTS, max_size=KNOTS).map(sorted),
    gains=st.lists(st.floats(-1, 1), min_size=KNOTS, max_size=KNOTS),
    margin=st.floats(-1, 2),
)
def test_gains_are_linear_between_knots(
    margins: list[float], gains: list[float], margin: float
) -> None:
    found = gain_at((margins, gains), margin)
    assert min(gains) <= found <= max(gains)
    if min(np.diff(margins)) > 1e-9 and margin not in margins:
        assert found == pytest.approx(np.interp(margin, margins, gains), abs=1e-9)


def test_gains_are_kept_in_a_file(tmp_path: Path) -> None:
    path = tmp_path / "gains.pdx"
    with_gains(gains_of()).save(path)
    package = Index.load(path).package
    assert package is not None
    assert package.gains.curves().keys() == {(1, 5), (3, 7)}
    assert package.gains.curves()[1, 5] == (MARGINS.tolist(), GAINS.tolist())
    fetched.make_index().save(path)
    package = Index.load(path).package
    assert package is not None
    assert not package.gains.curves()


@pytest.mark.parametrize(
    "arrays",
    [
        {"margins": np.array([MARGINS, MARGINS[::-1]])},
        {"gains": np.array([GAINS, GAINS * 10])},
        {"gains": np.array([GAINS])},
        {"pairs": np.array([[1, 5]], np.uint64)},
        {"pairs": np.array([1, 5], np.uint64)},
        {"margins": np.array([MARGINS, MARGINS * np.nan])},
    ],
)
def test_damaged_gains_are_refused(arrays: dict[str, Any]) -> None:
    with pytest.raises(BadIndexFile, match="no gains"):
        gains_of(**arrays)


def test_gains_of_sets_that_are_no_candidates_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "gains.pdx"
    strange = np.array([[1, 5], [3, 99]], np.uint64)
    with_gains(gains_of(pairs=strange)).save(path)
    with pytest.raises(BadIndexFile, match="no candidates"):
        Index.load(path)
