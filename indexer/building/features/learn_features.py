"""Features that are learned from labelled texts: scores of terms.

Scores of training items are computed out of fold, by weights that were learned from
other training items. So models are trained on scores like those of new items. All other
items are scored by weights learned from all training items.
"""

from collections.abc import Callable, Sequence
from functools import partial
from secrets import token_hex
from typing import Any, NamedTuple

import msgspec
import numpy as np
from msgspec import UNSET
from numpy.typing import NDArray

from polydom.features.errors import BadProject
from polydom.features.fingerprint import fingerprint
from polydom.features.items import Item
from polydom.features.ready_made.learned_text import (
    NOTHING,
    Recipe,
    TermWeights,
    recipes_by_name,
)
from polydom.features.tables.records import take

from ...cluster.workers import Workers
from ...index.stored_features import StoredFeature, StoredTerms
from ...progress import Progress, skip
from ..cache import Array, Cache, digest
from ..cache_keys import library_versions
from ..data.dataset import Dataset
from ..data.split import divide_groups
from .choose_features import ProjectFeatures
from .feature_values import FeatureTable, compute_values
from .fit_terms import (
    PASSES,
    SMOOTHING,
    Fitting,
    TrainingTexts,
    fit_terms,
    least_loss,
    score_part,
    scores_of,
    standardised,
)
from .term_table import CountedTexts, TermTable, count_texts, make_table
from .text_features import ChosenRecipe, texts_in

Rows = NDArray[np.int64]
Scores = NDArray[np.float32]
Step = Callable[..., None]  # called after each step, or with a number of steps

STAGE = "learning features"
FOLDS = 5  # folds of the training items, if the project has none
STRENGTHS = (2.0, 10.0, 50.0, 250.0)  # C of logistic regression
CHUNK_ITEMS = 2048

# Most terms of all texts that are learned from; each text counts its different terms.
# 40,000 messages of 160 characters have so many sequences of 2 to 5 characters, 400,000
# messages so many words and pairs of words.
MOST_TERMS = 20_000_000
MOST_PRODUCTS = 60_000_000  # terms times scores in one regression
CHOSEN_ON = 4_000_000  # terms times scores when C is chosen
# If texts have this many times the terms that a regression may take, Bayes' rule on all
# terms is better than a regression on some of them.
BAYES_FROM = 3
MOST_WEIGHTS = 1 << 21  # weights of one feature
SAMPLED = 200  # texts in which terms are counted, to estimate the terms of all texts


class Lesson(NamedTuple):
    """The items to learn features from, divided into folds."""

    dataset: Dataset  # All items
    rows: Rows  # (N,) int64: Positions of the items to learn from, ascending
    folds: Rows  # (N,) int64: Numbers of the folds of these items
    seed: int  # Seed of all draws


class Learned(NamedTuple):
    """A learned feature, and the out-of-fold scores of its training items."""

    weights: TermWeights  # Weights of terms
    facts: StoredTerms  # Description for the index
    # (M,) int64: Positions of the items that were learned from, as many as time allows
    rows: Rows
    scores: Scores  # (M, K) float32: Scores of these items, computed out of fold


def lesson_of(
    dataset: Dataset, divisions: Sequence[tuple[Rows, Rows]], seed: int
) -> Lesson:
    """Return the items to learn from: with folds all items, else the training items."""
    if len(divisions) == 1:
        rows = divisions[0][0]
        folds = divide_groups(dataset.codes[rows], dataset.groups[rows], FOLDS, seed)
        return Lesson(dataset, rows, folds, seed)
    folds = np.empty(len(dataset.items), np.int64)
    for fold, (_, own) in enumerate(divisions):
        folds[own] = fold
    return Lesson(dataset, np.arange(len(folds)), folds, seed)


def learn_features(
    table: FeatureTable, lesson: Lesson, learner: "FeatureLearner"
) -> FeatureTable:
    """Learn the features that the table's recipes describe, and append their values."""
    recipes, dataset = table.features.recipes, table.dataset
    lessons = _lessons(recipes, lesson)
    found = learner.learn([one.recipe for one in recipes], lessons)
    own = _features_of(recipes, found)
    scores = np.empty((len(dataset.items), own.starts[-1]), np.float32)
    taught = np.ones(len(scores), np.bool_)
    for learned in found:
        taught &= np.isin(np.arange(len(scores)), learned.rows)
    if not taught.all():
        rest = np.flatnonzero(~taught)
        scores[rest] = compute_values(
            dataset.only(rest),
            own,
            on_bad_item="stop",
            workers=learner.workers,
            cache=learner.cache,
            progress=learner.progress,
        ).values
    for learned, start in zip(found, own.starts, strict=False):
        scores[learned.rows, start : start + learned.scores.shape[1]] = learned.scores
    values = np.column_stack([table.values, scores])
    return FeatureTable(dataset, table.features.joined(own), values)


def _lessons(recipes: Sequence[ChosenRecipe], lesson: Lesson) -> list[Lesson]:
    """Return the `Lesson` of each recipe.

    A recipe that reads a column gets a lesson with the texts of this column, and
    recipes that read the same column share the lesson. All other recipes get `lesson`
    itself.
    """
    of_columns: dict[str, Lesson] = {}
    lessons = []
    for one in recipes:
        if one.text is UNSET:
            lessons.append(lesson)
            continue
        if one.text.column not in of_columns:
            texts = texts_in(lesson.dataset, one.text)
            of_columns[one.text.column] = lesson._replace(dataset=texts)
        lessons.append(of_columns[one.text.column])
    return lessons


def _features_of(
    recipes: Sequence[ChosenRecipe], found: Sequence[Learned]
) -> ProjectFeatures:
    stored = [
        StoredFeature(
            recipe.name,
            learned.scores.shape[1],
            fingerprint(recipe.feature(learned.weights)),
            True,
            None,
            learned.facts,
            recipe.text,
        )
        for recipe, learned in zip(recipes, found, strict=True)
    ]
    weights = {one.name: own.weights for one, own in zip(stored, found, strict=True)}
    return ProjectFeatures(stored, (), learned=weights)


class FeatureLearner:
    """Learns features from recipes, and stores them in the cache."""

    def __init__(self, workers: Workers, cache: Cache, progress: Progress) -> None:
        self.workers, self.cache, self.progress = workers, cache, progress

    def learn(
        self, recipes: Sequence[Recipe], lessons: Sequence[Lesson]
    ) -> list[Learned]:
        """Learn one feature for each recipe, from the lesson at the same position.

        All lessons must have the same folds.
        """
        names = [*map(_name, recipes, lessons)]
        found = [
            self.cache.recall(name, partial(_read, lesson))
            for name, lesson in zip(names, lessons, strict=True)
        ]
        missing = [k for k, learned in enumerate(found) if learned is None]
        if not missing:
            skip(self.progress, STAGE)
            return [learned for learned in found if learned is not None]
        each, done = 2 + 2 * len(np.unique(lessons[0].folds)), 0
        with self.progress.stage(STAGE, each * len(missing)) as on_progress:

            def step(steps: int = 1) -> None:
                nonlocal done
                done += steps
                on_progress(done)

            for position in missing:
                learned = self._learn(recipes[position], lessons[position], step)
                found[position] = learned
                self.cache.store(names[position], *_plain(learned))
        return [learned for learned in found if learned is not None]

    def _learn(self, recipe: Recipe, lesson: Lesson, step: Step) -> Learned:
        dataset, folds = lesson.dataset, np.unique(lesson.folds).tolist()
        width = scores_of(len(dataset.labels))
        entry, extent = _name(recipe, lesson), Extent.of(recipe, lesson)
        most, limit = min(MOST_TERMS, extent.terms), MOST_PRODUCTS / width
        bayes = width > 1 and most > BAYES_FROM * limit
        limit = MOST_TERMS if bayes else min(MOST_TERMS, limit)
        chosen = extent.within(limit)
        rows, fold_of = lesson.rows[chosen], lesson.folds[chosen]
        table, labels = self._count(recipe, dataset, rows), dataset.targets[rows]
        labels = labels if dataset.labels else standardised(labels)
        step()
        kept = min(recipe.most, MOST_WEIGHTS // width)
        fitting = Fitting(len(dataset.labels), kept, None, lesson.seed)
        texts = TrainingTexts(table, labels, fold_of)
        if bayes:
            step(len(folds))
        else:
            few = extent.within(CHOSEN_ON / width)[chosen]
            part = texts.only(few)
            tried = self._out_of_fold(entry, part, folds, fitting, STRENGTHS, step)
            best = least_loss(part, folds, tried, fitting.classes)
            fitting = fitting._replace(strength=STRENGTHS[best])
            scores = [each[best] for each in tried]
        if bayes or not few.all():
            strengths = [fitting.strength]
            tried = self._out_of_fold(entry, texts, folds, fitting, strengths, step)
            scores = [each[0] for each in tried]
        else:
            step(len(folds))
        whole = np.empty((len(rows), width), np.float32)
        for fold, own in zip(folds, scores, strict=True):
            whole[fold_of == fold] = own
        weights = fit_terms(table, labels, fitting)
        facts = StoredTerms(len(weights.hashes), len(rows), fitting.strength)
        step()
        return Learned(weights, facts, rows, whole)

    def _out_of_fold(
        self,
        entry: str,
        texts: TrainingTexts,
        folds: Sequence[int],
        fitting: Fitting,
        strengths: Sequence[float | None],
        step: Step,
    ) -> list[list[NDArray[np.float64]]]:
        """Return, for each fold, its texts' scores: one array for each strength.

        The weights for a fold are fitted on the other folds.
        """
        # the name is unique, since another build may learn the same in this folder
        name = f"{entry}/.{len(texts.folds)}.{token_hex(8)}.tmp"
        shared = self.cache.share(name, texts.arrays())
        calls = ((shared, fold, fitting, strengths) for fold in folds)
        found = []
        try:
            for scores in self.workers.run(score_part, calls, stage=STAGE):
                found.append(scores)
                step()
        finally:
            shared.remove()
        return found

    def _count(self, recipe: Recipe, dataset: Dataset, rows: Rows) -> TermTable:
        dataset = dataset.only(rows)
        if self.workers.executor is not None:
            dataset = dataset.shared(self.cache)
        items = dataset.items
        starts = range(0, len(items), CHUNK_ITEMS)
        calls = ((recipe.name, items[at : at + CHUNK_ITEMS]) for at in starts)
        return make_table([*self.workers.run(_count_items, calls, stage=STAGE)])


class Extent(NamedTuple):
    """A random order of the groups of texts, with estimated numbers of terms."""

    ranks: Rows  # (N,) int64: Ranks of the items' groups, in an order that is drawn
    # (N,) float64: Number of terms in all groups up to the rank of each item's group
    total: NDArray[np.float64]

    @classmethod
    def of(cls, recipe: Recipe, lesson: Lesson) -> "Extent":
        """Estimate numbers of terms from the lengths of the texts.

        The number of terms per character comes from a sample of the texts.
        """
        names, own = np.unique(lesson.dataset.groups[lesson.rows], return_inverse=True)
        ranks = np.random.default_rng(lesson.seed).permutation(len(names))[own]
        first = np.argsort(ranks, kind="stable")[:SAMPLED]
        dataset = lesson.dataset.only(lesson.rows)
        lengths = dataset.sizes if dataset.sizes.ndim == 1 else dataset.sizes[:, 0]
        sampled = _count_items(recipe.name, take(dataset.items, first))
        share = len(sampled.hashes) / max(lengths[first].sum(), 1.0)
        total = np.cumsum(np.bincount(ranks, weights=share * lengths))
        return cls(ranks, total[ranks].astype(np.float64))

    @property
    def terms(self) -> float:
        """Estimated number of terms in all texts."""
        return float(self.total.max())

    def within(self, limit: float) -> NDArray[np.bool_]:
        """Return a mask (N,) of the first groups' texts, of at most `limit` terms.

        The first two groups are always included.
        """
        return (self.total <= limit) | (self.ranks < 2)


def _count_items(name: str, items: Sequence[Item]) -> CountedTexts:
    texts = [str(item.payload) for item in items]
    return count_texts(recipes_by_name()[name], texts)


def _name(recipe: Recipe, lesson: Lesson) -> str:
    """Return a learned feature's cache name: a hash of all that determines it."""
    dataset, rows, folds, seed = lesson
    division = digest(rows.tobytes(), folds.tobytes(), seed)
    code = fingerprint(recipe.feature(NOTHING))
    limits = [MOST_TERMS, MOST_PRODUCTS, CHOSEN_ON, BAYES_FROM, MOST_WEIGHTS]
    terms = [recipe.most, STRENGTHS, PASSES, SMOOTHING, limits, library_versions()]
    return f"learned/{digest(dataset.digest, division, code, terms)}"


def _plain(learned: Learned) -> tuple[dict[str, Any], dict[str, Array]]:
    facts = msgspec.to_builtins(learned.facts)
    arrays = learned.weights.arrays()
    arrays |= {"rows": learned.rows, "scores": learned.scores}
    return {"facts": facts}, arrays


def _read(lesson: Lesson, meta: dict[str, Any], arrays: dict[str, Array]) -> Learned:
    """Read a learned feature from the cache; check that it fits the lesson's items."""
    arrays = {**arrays}
    rows, scores = arrays.pop("rows"), arrays.pop("scores")
    facts = msgspec.convert(meta["facts"], StoredTerms)
    weights = TermWeights(**arrays)
    weights.check()
    if not np.isin(rows, lesson.rows).all() or len(scores) != len(rows):
        raise BadProject(f"{len(scores)} scores for {len(rows)} items")
    if scores.shape[1:] != weights.weights.shape[1:]:
        raise BadProject(f"{scores.shape[1:]} scores of {weights.weights.shape[1:]}")
    return Learned(weights, facts, rows, scores)
