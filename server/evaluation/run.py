"""One run of `polydom evaluate`: from an index and labelled items to what was found."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from polydom.features.errors import BadInput
from polydom.features.threads import one_thread
from polydom.indexer.progress import Progress, Silence

from ..client.sync import Client
from ..engine.loading import load_index
from ..runtime.translator import AtOnce
from ..runtime.warm_up import open_translator
from ..schema.wire import Answer, Terms
from .contenders import (
    Contender,
    Prior,
    ServedWithinBudget,
    WithinBudget,
    fixed_plans,
)
from .contest import Contest
from .facts import Evaluation
from .judgement import ClassJudge, Judge
from .labelled_items import LabelledItems, read_labelled
from .numeric_judgement import NumericJudge
from .own_model import OwnModel, part

READY_S = 20.0  # how long a server may take to be ready
SPIN_S = 0.3  # threads that trained a model look for more to do for 0.2 seconds
SHOWN = 5  # names in a remark


@dataclass(frozen=True, kw_only=True)
class Server:
    """Who answers instead of this process; `model` is the index's name there."""

    url: str
    model: str | None = None
    token: str | None = None


@dataclass
class EvaluationRun:
    """What is asked of whom, with the options of `polydom evaluate`.

    Enter it before it is carried out.

    Attributes
    ----------
    amounts
        The budgets, ascending: milliseconds, or in the index's unit.
    labelled
        What is asked for.
    contest
        Who was asked, and what came.

    Raises
    ------
    BadInput
        If items, options or models of the user's own cannot be used.
    BadIndexFile, BadFeature
        If the index cannot answer.
    NoAnswer
        If the server is not there.
    """

    index: Path
    test: Path
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
    progress: Progress = field(default_factory=Silence)
    labelled: LabelledItems = field(init=False)
    contest: Contest = field(init=False)

    def __post_init__(self) -> None:
        """Read all there is to read, and make everybody ready to be asked."""
        self._client: Client | None = None
        for target in self.against:
            part(target)
        self._index, self._package = load_index(self.index)
        self.unit = str(self._package.meta.get("unit", "s"))
        self.labelled = read_labelled(
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
        self._prior = Prior(self._index, self._package)
        within = self._served() if self.server else self._in_process()
        # last, since they may be fitted only now
        numeric = self._package.numeric
        own = [OwnModel(target, numeric=numeric) for target in self.against]
        self._contenders: list[Contender] = [*within, *own]
        self._contenders.insert(len(self.amounts), self._prior)
        self.contest = Contest(
            self.labelled.items, self._contenders, repeat=self.repeat, seed=self.seed
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._client is not None:
            self._client.close()

    def _terms(self) -> list[Terms]:
        """Terms of each budget."""
        model = None if self.server is None else self.server.model
        counts_time = self.unit == "s"
        return [
            Terms(
                model=model,
                budget_ms=amount if counts_time else None,
                budget=None if counts_time else amount,
                exact=self.exact,
            )
            for amount in self.amounts
        ]

    def _in_process(self) -> list[Contender]:
        translator = open_translator(self._index, self.features)
        at_once = AtOnce(translator)
        return [
            *(WithinBudget(at_once, terms) for terms in self._terms()),
            *fixed_plans(translator, self.labelled.items),
        ]

    def _served(self) -> list[Contender]:
        """Ask a server; its fixed plans cannot be asked for."""
        assert self.server is not None
        self._client = Client(self.server.url, token=self.server.token)
        self._client.wait_ready(READY_S)
        return [ServedWithinBudget(self._client, terms) for terms in self._terms()]

    def carry_out(self) -> None:
        """Ask everybody for everything; what is done stays if it is interrupted.

        Numeric libraries are held to one thread, as in a server: more are no faster for
        one item, and go on spinning while others are asked. Those of models that were
        fitted just now may do so first.
        """
        if self.against:
            time.sleep(SPIN_S)
        with one_thread():
            self.contest.warm_up()
            with self.progress.stage("evaluating", self.contest.total) as on_progress:
                self.contest.run(on_progress)

    def judge(self, chosen: float) -> Evaluation:
        """Say what was found so far, with mistakes within the budget that was chosen.

        Raises
        ------
        BadInput
            If nothing is done.
        """
        contest, amounts = self.contest, self.amounts
        if not contest.rounds:
            raise BadInput("nothing was asked, so there is nothing to judge")
        judge = self._judge()
        confusion = None
        if isinstance(judge, ClassJudge):
            confusion = judge.confusion(amounts.index(chosen), chosen)
        count = len(amounts)
        others = range(count, len(self._contenders))
        return Evaluation(
            index=str(self.index),
            version=self._index.version,
            url=None if self.server is None else self.server.url,
            test=str(self.test),
            items=len({one.position for one in contest.rounds}),
            asked=len(contest.rounds),
            complete=len(contest.rounds) == contest.total,
            unreadable=len(self.labelled.unreadable),
            unlabelled=self.labelled.unlabelled,
            foreign=self.labelled.foreign,
            unit=self.unit,
            task=self._package.task,
            measure=self._package.measure,
            coverage=self._package.coverage,
            budgets=[judge.at_budget(k, amounts[k]) for k in range(count)],
            beside=[judge.beside(k, amounts) for k in others],
            confusion=confusion,
        )

    def _judge(self) -> Judge:
        """Say who reads what was answered."""
        package, prior = self._package, self._prior.said.value
        common = self.contest, self._contenders, self.unit
        if prior is not None:
            return NumericJudge(*common, package.measure, prior)
        costs = package.confusion_costs
        return ClassJudge(*common, package.labels, package.measure, costs)

    def remarks(self) -> list[str]:
        """Say what of the items is not asked for, or cannot be right."""
        labelled = self.labelled
        remarks = list(labelled.remarks)
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

    def afterthoughts(self, found: Evaluation) -> list[str]:
        """Say what of the answers is not as one would expect."""
        remarks = []
        for own in found.budgets:
            if isinstance(own.given_ms, float):
                remarks.append(
                    f"a budget of {own.amount:g} ms was cut down to {own.given_ms:g} ms"
                )
        versions = {
            reply.answer.index_version
            for one in self.contest.rounds
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
