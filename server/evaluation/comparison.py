"""Compare predictors by their answers to the same items.

All predictors answer an item before any of them gets the next item. So a slow moment of
the machine affects all predictors alike.
"""

import gc
import time
from collections.abc import Callable, Sequence

import msgspec
import numpy as np

from polydom.features.errors import PolydomError
from polydom.indexer.progress import OnProgress

from ..schema.wire import Answer
from .labelled_items import LabelledItem
from .predictors import PlainAnswer, Predictor

WARM_UP = 5  # number of items that every predictor answers before timing begins
# number of trials after which replies are hidden from the garbage collector
FREEZE = 256


class Reply(msgspec.Struct, frozen=True):
    """One predictor's answer to one item, or its error."""

    took_s: float  # Seconds from the question to the answer, by the caller's clock
    # The answer; None if the predictor raised an error
    answer: Answer | PlainAnswer | None = None
    error: PolydomError | None = None  # The error; None if there is an answer


class Trial(msgspec.Struct, frozen=True):
    """One item, its position among all items, and the replies of all predictors.

    The replies are in the order of the predictors.
    """

    position: int
    item: LabelledItem
    replies: tuple[Reply, ...]


class Comparison:
    """Asks every predictor for an answer to every item, `repeat` times.

    `seed` determines the order of items and of predictors. Each repetition has a new
    random order of items, so that the first trials are a fair sample. `trials` has the
    finished trials; `total` is the number of trials of a complete run. `now` is the
    clock that times replies, in seconds.
    """

    def __init__(
        self,
        items: Sequence[LabelledItem],
        predictors: Sequence[Predictor],
        *,
        repeat: int = 1,
        seed: int = 0,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self.trials: list[Trial] = []
        self.total = len(items) * repeat
        self._items = items
        self._predictors = predictors
        self._repeat = repeat
        self._seed = seed
        self._now = now

    def warm_up(self) -> None:
        """Ask every predictor for the first few items, before timing begins.

        The replies are not recorded. If a predictor answers none of these items, its
        first error is raised.
        """
        for predictor in self._predictors:
            replies = [self._ask(predictor, item) for item in self._items[:WARM_UP]]
            if all(reply.answer is None for reply in replies):
                assert replies[0].error is not None
                raise replies[0].error

    def run(self, on_progress: OnProgress) -> None:
        """Ask all predictors for all items; append each finished trial to `trials`."""
        rng = np.random.default_rng(self._seed)
        try:
            for _ in range(self._repeat):
                for position in rng.permutation(len(self._items)).tolist():
                    if len(self.trials) % FREEZE == 0:
                        gc.freeze()
                    turns = rng.permutation(len(self._predictors)).tolist()
                    self.trials.append(self._trial(position, turns))
                    on_progress(len(self.trials))
        finally:
            gc.unfreeze()

    def _trial(self, position: int, turns: Sequence[int]) -> Trial:
        """Ask every predictor to answer one item, in the order `turns`.

        The order must be random: cold caches and spinning threads that one predictor
        leaves behind slow down the next predictor.
        """
        item, predictors = self._items[position], self._predictors
        replies = {turn: self._ask(predictors[turn], item) for turn in turns}
        return Trial(position, item, tuple(replies[k] for k in range(len(predictors))))

    def _ask(self, predictor: Predictor, item: LabelledItem) -> Reply:
        began_s = self._now()
        try:
            answer = predictor.answer(item)
        except PolydomError as error:
            return Reply(self._now() - began_s, error=error)
        return Reply(self._now() - began_s, answer)
