"""Asks for the vectors of many items, as a build and an evaluation do.

Nobody waits for an answer, so calls have much time, and those that fail are made again.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

from ..errors import FetchFailed
from .answers import Vector
from .fetch import LONGEST_S, Fetch
from .timing import outside_loops

# Seconds before each further try of a call that failed; a source may limit its calls.
PAUSES_S = 1.0, 2.0, 4.0, 8.0
# Calls that fail for good before anything came, after which no more are made.
HOPELESS = 3


class VectorCalls:
    """Calls of one fetch for the vectors of many items.

    Parameters
    ----------
    fetch
        A fetch of texts or images.
    item
        Returns the text or image at a position; it may read it from a file.
    tell
        Called after each call with the number of items that were asked for.

    Attributes
    ----------
    found
        Vectors that came, by position. It is also filled by a run that is interrupted.
    failures
        The last error of each call that failed for good.
    """

    def __init__(
        self,
        fetch: Fetch,
        item: Callable[[int], Any],
        tell: Callable[[int], object] = int,
    ) -> None:
        self.found: dict[int, Vector] = {}
        self.failures: list[FetchFailed] = []
        self._fetch = fetch
        self._item = item
        self._tell = tell
        self._asked = 0

    def run(self, positions: Sequence[int]) -> None:
        """Ask for the vectors of the items at some positions.

        Runs an event loop, and closes the fetch's connections at its end.
        """
        outside_loops(lambda: asyncio.run(self._ask_all(positions)))

    async def _ask_all(self, positions: Sequence[int]) -> None:
        batch = self._fetch.batch
        starts = range(0, len(positions), batch)
        batches = iter([positions[start : start + batch] for start in starts])

        async def ask_some() -> None:
            for some in batches:
                if not self.found and len(self.failures) >= HOPELESS:
                    return
                await self._ask(some)
                self._asked += len(some)
                self._tell(self._asked)

        at_once = min(self._fetch.at_once, len(starts))
        try:
            await asyncio.gather(*(ask_some() for _ in range(at_once)))
        finally:
            if self._fetch.close is not None:
                await self._fetch.close()

    async def _ask(self, positions: Sequence[int]) -> None:
        """Ask for some items, again after a pause for those that failed."""
        left, failed = [*positions], dict[int, FetchFailed]()
        for pause_s in (*PAUSES_S, None):
            brought = await self._call([self._item(k) for k in left])
            for k, one in zip(left, brought, strict=True):
                failed.pop(k, None)
                if isinstance(one, FetchFailed):
                    failed[k] = one
                elif one is not None:
                    self.found[k] = one[self._fetch.name]
            left = [k for k, failure in failed.items() if failure.again]
            if not left or pause_s is None:
                break
            await asyncio.sleep(pause_s)
        self.failures += [*failed.values()][:1]

    async def _call(self, items: Sequence[Any]) -> Sequence[Any]:
        try:
            async with asyncio.timeout(LONGEST_S):
                return await self._fetch.bring([(item,) for item in items], LONGEST_S)
        except TimeoutError:
            late = f"the call took longer than {LONGEST_S:g} s"
            return [FetchFailed(late)] * len(items)
        except FetchFailed as error:
            return [error] * len(items)
