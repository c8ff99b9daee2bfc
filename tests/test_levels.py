from hypothesis import given
from hypothesis import strategies as st

from polydom.indexer.levels import REPRESENTATIVES, bands


@given(m=st.integers(1, 40), seed=st.integers(0, 99))
def test_bands_hold_every_level_once_and_double(m: int, seed: int) -> None:
    found = bands(m, seed)
    levels = [k for band in found for k in range(band.low, band.high + 1)]
    assert levels == list(range(1, m + 1))
    assert [band.low for band in found] == [2**i for i in range(len(found))]


@given(m=st.integers(1, 40), seed=st.integers(0, 99))
def test_bands_stand_on_different_sets_of_their_middle_size(m: int, seed: int) -> None:
    for band in bands(m, seed):
        sizes = {mask.bit_count() for mask in band.sets}
        assert sizes == {(band.low + band.high + 1) // 2}
        assert 1 <= len(set(band.sets)) == len(band.sets) <= REPRESENTATIVES
        assert max(band.sets) < 2**m
    assert bands(m, seed) == bands(m, seed)


def test_bands_of_few_features_take_what_there_is() -> None:
    assert [(b.low, b.high, b.sets) for b in bands(1, 0)] == [(1, 1, (1,))]
    assert bands(3, 0)[1].sets == (7,)
