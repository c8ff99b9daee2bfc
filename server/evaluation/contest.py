"""Contenders asked in turn, item by item, so that all share the machine's mood."""

import gc
import time
from collections.abc import Sequence

import msgspec
import numpy as np

from polydom.features.errors import PolydomError
from polydom.indexer.progress import OnProgress

from ..schema.wire import Answer
from .contenders import Contender, Said
from .labelled_items import LabelledItem

WARM_UP = 5  # items that everybody is asked before anything is timed
FREEZE = 256  # rounds after which what is kept is no more work for the collector


class Reply(msgspec.Struct, frozen=True):
    """What came of asking a contender for one item.

    Attributes
    ----------
    took_s
        From asking to the answer, by the caller's clock.
    answer
        What it was; None where there was none.
    error
        Why not.
    """

    took_s: float
    answer: Answer | Said | None = None
    error: PolydomError | None = None


class Round(msgspec.Struct, frozen=True):
    """All replies to the item at a position, in the order of the contenders."""

    position: int
    item: LabelledItem
    replies: tuple[Reply, ...]


class Contest:
    """Asks every contender for every item.

    Parameters
    ----------
    items, contenders
        At least one each.
    repeat
        How often each item is asked.
    seed
        Of the order of items, which differs from time to time, so that what comes first
        says as much as the whole; and of the order of contenders.

    Attributes
    ----------
    rounds
        What is done so far; whole rounds only.
    total
        How many rounds there will be.
    """

    def __init__(
        self,
        items: Sequence[LabelledItem],
        contenders: Sequence[Contender],
        *,
        repeat: int = 1,
        seed: int = 0,
    ) -> None:
        self.rounds: list[Round] = []
        self.total = len(items) * repeat
        self._items = items
        self._contenders = contenders
        self._repeat = repeat
        self._seed = seed

    def warm_up(self) -> None:
        """Ask everybody for a few items first.

        Raises
        ------
        PolydomError
            What a contender said who could answer none of them.
        """
        for contender in self._contenders:
            replies = [_ask(contender, item) for item in self._items[:WARM_UP]]
            if all(reply.answer is None for reply in replies):
                assert replies[0].error is not None
                raise replies[0].error

    def run(self, on_progress: OnProgress) -> None:
        """Ask for all; who interrupts this finds what is done in `rounds`."""
        rng = np.random.default_rng(self._seed)
        try:
            for _ in range(self._repeat):
                for position in rng.permutation(len(self._items)).tolist():
                    if len(self.rounds) % FREEZE == 0:
                        gc.freeze()
                    turns = rng.permutation(len(self._contenders)).tolist()
                    self.rounds.append(self._round(position, turns))
                    on_progress(len(self.rounds))
        finally:
            gc.unfreeze()

    def _round(self, position: int, turns: Sequence[int]) -> Round:
        """Ask everybody for an item.

        What one leaves behind (cold caches, threads that still spin) meets the next:
        so nobody always comes after the same one.
        """
        item, contenders = self._items[position], self._contenders
        replies = {turn: _ask(contenders[turn], item) for turn in turns}
        return Round(position, item, tuple(replies[k] for k in range(len(contenders))))


def _ask(contender: Contender, item: LabelledItem) -> Reply:
    began_s = time.monotonic()
    try:
        answer = contender.answer(item)
    except PolydomError as error:
        return Reply(time.monotonic() - began_s, error=error)
    return Reply(time.monotonic() - began_s, answer)
