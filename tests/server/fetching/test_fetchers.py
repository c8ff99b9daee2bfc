"""Models share fetchers of the same columns, and close them together."""

import math

import numpy as np
import pytest

from polydom.features.errors import BadFetch
from polydom.indexer.index.fetches.stored_fetches import StoredFetch
from polydom.server.fetching.fetchers import Fetchers
from tests.support.fetch_sources import FOREVER_S, Source, ended, run

DRAWS = np.array([[0.01, 0.5], [0.02, math.inf]])
DOUBLED = StoredFetch("doubled", ["n"], ["twice"])
OTHER = StoredFetch("other", ["n"], ["thrice"])


def test_indexes_with_the_same_columns_share_a_fetcher() -> None:
    async def main() -> None:
        source = Source()
        fetchers = Fetchers({"doubled": source.fetch})
        assert [*fetchers.states()] == []
        first, absent = fetchers.of([DOUBLED, OTHER], DRAWS)
        assert absent is None
        assert fetchers.of([DOUBLED], DRAWS * 9) == [first]
        assert first is not None
        assert first.latency.chance(0.0, 0.1) > 0.7  # of the first draws
        assert await ended(first.ask((1,), FOREVER_S)) == ["came"]
        await fetchers.close()
        assert source.closed == 1
        assert first.ask((1,), FOREVER_S).state == "not_sent"
        (state,) = fetchers.states()
        assert (state.name, state.counts.not_sent, state.down) == ("doubled", 1, False)

    run(main)


def test_no_fetches_need_no_care() -> None:
    fetchers = Fetchers({})
    assert fetchers.of([], np.empty((0, 0))) == []
    assert fetchers.of([DOUBLED, OTHER], DRAWS) == [None, None]
    run(fetchers.close)


def test_a_fetch_that_lacks_a_column_is_refused() -> None:
    fetchers = Fetchers({"doubled": Source().fetch})
    with pytest.raises(BadFetch, match="does not bring 'thrice'"):
        fetchers.of([StoredFetch("doubled", ["n"], ["thrice"])], DRAWS)
