"""Compares two indexes on the same labelled items: the process that a gate starts."""

import contextlib
import os
import sys
from pathlib import Path

import msgspec

from polydom.features.errors import PolydomError
from polydom.features.threads import one_thread

from ..engine.loading import load_planner
from ..errors import ReloadFailed
from ..runtime.translator import AtOnce, Translator
from ..runtime.warm_up import WarmUp
from ..schema.wire import Answer, Terms
from ..settings import Settings
from .comparison import Comparison
from .gate import Question, Verdict
from .labelled_items import LabelledItem, read_labelled
from .metrics import metrics_of
from .predictors import Prior

MOST_ITEMS = 5000  # number of items that are drawn if there are more
NICENESS = 10  # like that of the process that tries files before workers load them


class _Index:
    """A predictor: an index, whose answers depend on no clock."""

    name, features = "polydom", None

    def __init__(self, path: Path, question: Question) -> None:
        files = [Path(file) for file in question.features]
        settings = Settings(budget_s=question.budget_s, rescale=False)
        planner = load_planner(path, files, settings, now=lambda: 0.0)
        WarmUp(planner, rescales=False).run()
        self.index, self.package = planner.index, planner.package
        self._at_once = AtOnce(Translator(planner, settings))
        read = read_labelled(
            Path(question.test),
            self.index,
            self.package,
            label=question.label,
            limit=MOST_ITEMS,
        )
        # each index takes the columns that it knows
        self.items = {item.name: item for item in read.items}

    def answer(self, item: LabelledItem) -> Answer:
        """Answer an item within the server's usual budget."""
        return self._at_once.answer(Terms(), self.items[item.name].payload)


def judge(question: Question) -> Verdict:
    """Compare two indexes; raise PolydomError if that is impossible."""
    old, new = (_Index(Path(path), question) for path in (question.old, question.new))
    items = [item for name, item in new.items.items() if name in old.items]
    if not items:
        raise ReloadFailed("there is no item that both indexes can answer")
    with one_thread():
        comparison = Comparison(items, [old, new])
        comparison.warm_up()
        comparison.run(lambda done, left=None: None)
    prior = Prior(new.index, new.package)
    metrics = metrics_of(comparison, [old, new], new.package, prior)
    paired = metrics.paired(0, 1)
    if paired.first is None or paired.second is None:
        raise ReloadFailed(f"{new.package.measure} is undefined on these items")
    return Verdict(
        paired.first,
        paired.second,
        paired.error or 0.0,
        len(items),
        new.package.measure,
        (old.index.version, new.index.version),
    )


def main() -> int:
    """Read a question from standard input, and print the verdict. Return a status."""
    with contextlib.suppress(OSError):
        os.nice(NICENESS)
    question = msgspec.json.decode(sys.stdin.buffer.read(), type=Question)
    try:
        with contextlib.redirect_stdout(sys.stderr):  # so that features may print
            verdict = judge(question)
    except PolydomError as error:
        print(error, file=sys.stderr)
        return 1
    sys.stdout.buffer.write(msgspec.json.encode(verdict))
    return 0


if __name__ == "__main__":
    sys.exit(main())
