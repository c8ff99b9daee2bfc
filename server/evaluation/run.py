"""One run of `polydom evaluate`: compare predictors on labelled items."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Self

from polydom.features.errors import BadInput
from polydom.features.threads import one_thread
from polydom.indexer.index.package import Package
from polydom.indexer.progress import Progress, Silence

from ..client.sync import Client
from ..engine.loading import load_index
from ..runtime.translator import AtOnce
from ..runtime.warm_up import open_translator
from ..schema.wire import Answer, Terms
from .comparison import Comparison
from .item_vectors import with_vectors
from .labelled_items import LabelledItems, read_labelled
from .metrics import ClassMetrics, metrics_of
from .predictors import (
    IndexWithin,
    OwnModel,
    Predictor,
    Prior,
    ask_server,
    fixed_plans,
    split_target,
)
from .recorded_answers import RecordedAnswers, label_recorded
from .results import Evaluation
from .simulated_fetches import SimulatedFetches, SkippingClock, refuse_simulation

READY_S = 20.0  # longest wait in seconds until a server is ready
# seconds to wait, as OpenMP's threads spin for 0.2 s after training an own model
SPIN_S = 0.3
SHOWN = 5  # number of names in a remark
# Answers a payload on some terms
Ask = Callable[[Terms, Any], Answer]


@dataclass(frozen=True, kw_only=True)
class Server:
    """A server that answers instead of this process, and the name of a model there."""

    url: str
    model: str | None = None
    token: str | None = None


@dataclass
class EvaluationRun:
    """One comparison of predictors; the fields are options of `polydom evaluate`.

    Use the run in a `with` statement, which closes the connection to a server, and the
    event loop of simulated fetches. The budgets `amounts` ascend; they are in
    milliseconds, or in the index's unit.
    """

    index: Path
    test: Path  # Labelled items, or the folder of `recorded`
    amounts: list[float]
    features: Sequence[Path] = ()
    server: Server | None = None
    against: Sequence[str] = ()
    label: str = "label"
    separator: str | None = None
    encoding: str | None = None
    limit: int | None = None
    seed: int = 0
    repeat: int = 1
    exact: bool = False
    fetches: Sequence[Path] = ()
    simulate_fetches: bool = False
    max_price: float | None = None
    recorded: RecordedAnswers | None = None  # Answered again in place of `test`
    progress: Progress = field(default_factory=Silence)
    labelled: LabelledItems = field(init=False)
    comparison: Comparison = field(init=False)
    _asker: Callable[[], Ask] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        """Read the index and the items, and prepare all predictors."""
        self._client: Client | None = None
        self._clock = SkippingClock()
        self._simulated: SimulatedFetches | None = None
        self._refuse_options()
        for target in self.against:
            split_target(target)
        self._index, self._package = load_index(self.index)
        self.unit = str(self._package.meta.get("unit", "s"))
        self.labelled = self._read_items()
        if self.fetches:
            self.labelled = with_vectors(
                self.labelled, self.fetches, self._index, self._package, self.progress
            )
        if self.simulate_fetches:
            refuse_simulation(self._package, self.labelled.items)
        self._prior = Prior(self._index, self._package)
        within = self._prepare()
        # last, because an own function may train its model only when called
        numeric = self._package.numeric
        own = [OwnModel(target, numeric=numeric) for target in self.against]
        self._predictors: list[Predictor] = [*within, *own]
        self._predictors.insert(len(self.amounts), self._prior)
        # Last comes the index with its largest budget, and without early answers
        self._beside_exact = not self.exact and _answers_early(self._package)
        if self._beside_exact:
            self._predictors.append(self._within(exact=True)[-1])
        self.comparison = Comparison(
            self.labelled.items,
            self._predictors,
            repeat=self.repeat,
            seed=self.seed,
            now=self._clock,
        )

    def _read_items(self) -> LabelledItems:
        if self.recorded is not None:
            read = self._index, self._package, self.limit, self.seed
            return label_recorded(self.test, self.recorded, *read)
        return read_labelled(
            self.test,
            self._index,
            self._package,
            label=self.label,
            separator=self.separator,
            encoding=self.encoding,
            limit=self.limit,
            seed=self.seed,
            whole=bool(self.against),
            progress=self.progress,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._client is not None:
            self._client.close()
        if self._simulated is not None:
            self._simulated.close()

    def _prepare(self) -> list[Predictor]:
        """Return one predictor for each budget; in this process also fixed plans.

        Connects to the server, if one is to answer.
        """
        if self.server is None:
            translator = open_translator(self._index, self.features, self._clock)
            at_once = AtOnce(translator)
            self._asker = lambda: at_once.answer
            if self.simulate_fetches:
                # a function for each budget, so that all see the same arrival times
                self._simulated = SimulatedFetches(translator, self._clock)
                self._asker = partial(self._simulated.asker, self.seed)
            fixed = fixed_plans(translator, self.labelled.items)
            return [*self._within(exact=self.exact), *fixed]
        self._client = Client(self.server.url, token=self.server.token)
        self._client.wait_ready(READY_S)
        ask = partial(ask_server, self._client)
        self._asker = lambda: ask
        return self._within(exact=self.exact)

    def _within(self, *, exact: bool) -> list[Predictor]:
        """Return predictors: the index within each budget."""
        model = None if self.server is None else self.server.model
        budget = "budget_ms" if self.unit == "s" else "budget"
        amounts: list[dict[str, Any]] = [{budget: amount} for amount in self.amounts]
        terms = [
            Terms(model=model, exact=exact, max_price=self.max_price, **amount)
            for amount in amounts
        ]
        return [IndexWithin(self._asker(), each) for each in terms]

    def _refuse_options(self) -> None:
        """Raise BadInput if options about fetches do not fit together."""
        if self.fetches and self.server is not None:
            raise BadInput("--fetches is for this process; a server fetches for itself")
        if self.max_price is not None and not self.simulate_fetches:
            raise BadInput("--max-price is for --simulate-fetches: give that, too")
        if self.server is not None and self.simulate_fetches:
            raise BadInput(
                "--simulate-fetches is for this process; a server, as of --url, "
                "fetches for itself"
            )

    def carry_out(self) -> None:
        """Run the comparison; an interruption keeps the finished trials.

        Numeric libraries use one thread, as in a server. More threads would be no
        faster for one item, and would still be busy-waiting while the next predictor is
        timed.
        """
        if self.against:
            time.sleep(SPIN_S)
        with one_thread():
            self.comparison.warm_up()
            with self.progress.stage(
                "evaluating", self.comparison.total
            ) as on_progress:
                self.comparison.run(on_progress)

    def results(self, chosen: float) -> Evaluation:
        """Return the results of all finished trials; raise BadInput if there are none.

        The confusion matrix is computed for the budget `chosen`, one of `amounts`.
        """
        comparison, amounts = self.comparison, self.amounts
        if not comparison.trials:
            raise BadInput("nothing was asked, so there are no results")
        given = self.comparison, self._predictors, self._package, self._prior
        metrics = metrics_of(*given)
        confusion = None
        if isinstance(metrics, ClassMetrics):
            confusion = metrics.confusion(amounts.index(chosen), chosen)
        count = len(amounts)
        last = len(self._predictors) - self._beside_exact
        early = None
        if self._beside_exact and isinstance(metrics, ClassMetrics):
            early = metrics.early(count - 1, last, amounts[-1])
        others = range(count, last)
        return Evaluation(
            index=str(self.index),
            version=self._index.version,
            url=None if self.server is None else self.server.url,
            test=str(self.test),
            items=len({one.position for one in comparison.trials}),
            asked=len(comparison.trials),
            complete=len(comparison.trials) == comparison.total,
            unreadable=len(self.labelled.unreadable),
            unlabelled=self.labelled.unlabelled,
            foreign=self.labelled.foreign,
            unit=self.unit,
            task=self._package.task,
            measure=self._package.measure,
            coverage=self._package.coverage,
            budgets=[metrics.at_budget(k, amounts[k]) for k in range(count)],
            beside=[metrics.without_budget(k, amounts) for k in others],
            confusion=confusion,
            early=early,
            simulated_fetches=self.simulate_fetches,
        )

    def remarks(self) -> list[str]:
        """Return remarks on unusable items, and on labels unknown to the index."""
        labelled = self.labelled
        remarks = list(labelled.remarks)
        fetches = self._package.fetches
        if fetches and self.server is None and not self.simulate_fetches:
            names = ", ".join(fetch.name for fetch in fetches)
            late = (
                ", without any wait; --simulate-fetches lets them come as late as in "
                "the build"
            )
            if self._package.kind == "record":
                remark = f"columns of fetches ({names}) are taken from the items{late}"
            elif self.fetches:
                remark = f"vectors of fetches ({names}) are there{late}"
            else:
                remark = (
                    f"answers do without the vectors of fetches ({names}); --fetches "
                    "FILE brings them"
                )
            remarks.append(remark)
        if labelled.unreadable:
            name, why = labelled.unreadable[0]
            number = len(labelled.unreadable)
            remarks.append(
                f"items that cannot be read, left out: {number:,}; the first, {name}: "
                f"{why}"
            )
        if labelled.unlabelled:
            remarks.append(f"items without a label, left out: {labelled.unlabelled:,}")
        if labelled.foreign:
            number = sum(labelled.foreign.values())
            named = ", ".join([*labelled.foreign][:SHOWN])
            more = ", ..." if len(labelled.foreign) > SHOWN else ""
            remarks.append(
                "items of classes that the index does not know, so that all answers "
                f"are wrong: {number:,} ({named}{more})"
            )
        return remarks

    def remarks_on(self, found: Evaluation) -> list[str]:
        """Return remarks on results.

        They are about budgets that the server reduced, errors, and a server whose
        version of the index differs from the file's.
        """
        remarks = []
        for own in found.budgets:
            if isinstance(own.given_ms, float):
                remarks.append(
                    f"a budget of {own.amount:g} ms was cut down to {own.given_ms:g} ms"
                )
        versions = {
            reply.answer.index_version
            for one in self.comparison.trials
            for reply in one.replies
            if isinstance(reply.answer, Answer)
        }
        if others := sorted(versions - {found.version}):
            remarks.append(
                f"{found.url} answered with another index than {found.index}: its "
                f"version is {', '.join(others)}, not {found.version}"
            )
        for one in (*found.budgets, *found.beside):
            if one.unanswered:
                remarks.append(
                    f"{one.name} had no answer {one.unanswered:,} times; the first "
                    f"time: {one.error}"
                )
        return remarks


def _answers_early(package: Package) -> bool:
    """Return True if plans or models of an index of classes may answer early."""
    return bool(package.margins or package.early_exits) and not package.numeric
