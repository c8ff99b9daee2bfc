"""Compute how good recorded answers were, as a whole and in groups."""

from collections import defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from polydom.features.errors import BadInput
from polydom.indexer.index.index import Index
from polydom.indexer.index.package import Package

from ..schema.wire import Answer
from .comparison import Comparison, Reply, Trial
from .labelled_items import LabelledItem, read_label
from .metrics import Metrics, metrics_of
from .predictors import Prior
from .recorded_answers import RecordedAnswer, RecordedAnswers
from .results import AnsweredEvaluation, AnsweredGroup


class Recorded:
    """A predictor: a server, whose answers were recorded. Items are named by the id."""

    name = "recorded"
    features = None

    def __init__(self, answers: Sequence[RecordedAnswer]) -> None:
        self._answers = {answer.id: answer for answer in answers}

    def answer(self, item: LabelledItem) -> Answer:
        """Return what was answered."""
        return self._answers[item.name]


def evaluate_recorded(
    found: RecordedAnswers, index: Index, package: Package, folder: Path, labels: Path
) -> AnsweredEvaluation:
    """Return how good recorded answers were, by the measure of the index.

    Raises BadInput if the index answers with numbers and a label is none.
    """
    known = frozenset(package.labels)
    recorded = Recorded([one.answer for one in found.labelled])
    trials = []
    for position, (answer, given) in enumerate(found.labelled):
        label = read_label(given, package.numeric, known)
        if label is None:
            raise BadInput(f"{labels}: the label {str(given)[:40]!r} is no number")
        item = LabelledItem(answer.id, None, label, 1.0, None)
        reply = Reply(answer.elapsed_us / 1e6, recorded.answer(item))
        trials.append(Trial(position, item, (reply,)))
    grouping = _Grouping(trials, recorded, index, package)
    return AnsweredEvaluation(
        record=str(folder),
        labels=str(labels),
        measure=package.measure,
        task=package.task,
        recorded=found.answers,
        unmatched=found.unmatched,
        errors=found.errors,
        unreadable=found.unreadable,
        all=grouping.group("all", trials),
        by_version=grouping.by(lambda answer: answer.index_version),
        by_reason=grouping.by(lambda answer: answer.reason or ""),
        by_plan=grouping.by(lambda answer: ", ".join(answer.features)),
    )


class _Grouping:
    """Computes the metrics of groups of recorded answers."""

    def __init__(
        self,
        trials: Sequence[Trial],
        recorded: Recorded,
        index: Index,
        package: Package,
    ) -> None:
        self._trials = trials
        self._recorded = recorded
        self._package = package
        self._prior = Prior(index, package)

    def by(self, name: Callable[[Answer], str]) -> list[AnsweredGroup]:
        """Return the groups of answers that have the same name, the largest first."""
        groups: defaultdict[str, list[Trial]] = defaultdict(list)
        for trial in self._trials:
            groups[name(_answer(trial))].append(trial)
        largest = sorted(groups.items(), key=lambda pair: -len(pair[1]))
        return [self.group(own, trials) for own, trials in largest]

    def group(self, name: str, trials: Sequence[Trial]) -> AnsweredGroup:
        """Return the metrics of some of the answers."""
        answers = [_answer(trial) for trial in trials]
        result = self._metrics(trials).without_budget(0, ())
        in_time = np.array([answer.budget_met for answer in answers])
        group = AnsweredGroup(
            name=name,
            answers=len(trials),
            share=len(trials) / len(self._trials),
            quality=result.quality,
            quality_error=result.quality_error,
            accuracy=result.accuracy,
            standard_error=result.standard_error,
            expected_quality=float(np.mean([one.expected_quality for one in answers])),
            in_time=float(in_time.mean()),
            p50_ms=result.p50_ms,
            p99_ms=result.p99_ms,
        )
        if not self._package.numeric:
            labels = [trial.item.label for trial in trials]
            pairs = zip(answers, labels, strict=True)
            right = np.array([answer.label == label for answer, label in pairs])
            group.right_in_time = float((right & in_time).mean())
        return group

    def _metrics(self, trials: Sequence[Trial]) -> Metrics:
        comparison = Comparison([trial.item for trial in trials], [self._recorded])
        comparison.trials = list(trials)
        return metrics_of(comparison, [self._recorded], self._package, self._prior)


def _answer(trial: Trial) -> Answer:
    answer = trial.replies[0].answer
    assert isinstance(answer, Answer)
    return answer
