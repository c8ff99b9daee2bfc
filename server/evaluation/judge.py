"""Compares two indexes on the same labelled items, whatever this machine does else."""

from pathlib import Path

from polydom.features.threads import one_thread

from ..engine.loading import load_planner
from ..errors import ReloadFailed
from ..runtime.translator import AtOnce, Translator
from ..runtime.warm_up import WarmUp
from ..schema.wire import Answer, Terms
from ..settings import Settings
from .comparison import Comparison
from .labelled_items import LabelledItem, read_labelled
from .metrics import metrics_of
from .predictors import Prior
from .verdict import Question, Verdict

MOST_ITEMS = 5000  # number of items that are drawn if there are more


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
