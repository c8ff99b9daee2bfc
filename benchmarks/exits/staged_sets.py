"""Sets whose features cost something: dollars, or milliseconds as measured."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from polydom.features.costs.measure import Timings, shuffled
from polydom.features.extract import Extractor
from polydom.features.items import make_item
from polydom.features.loading import load_features
from polydom.indexer.building.cache import Cache

from ..data.bundled import load_tumours
from ..data.kept_items import (
    FTI_TESTS,
    TEXT_FEATURES,
    films,
    thyroid_costs,
    thyroid_names,
    thyroid_rows,
)
from ..data.recording import record, time_item
from ..data.tables import load_adult
from ..places import data_folder

Values = NDArray[np.float32]
Floats = NDArray[np.float64]
Codes = NDArray[np.int64]
Flags = NDArray[np.bool_]


class Part(NamedTuple):
    """N rows (N, d), their classes (N,), and what each pays for each step (N, S)."""

    X: Values
    y: Codes
    paid: Floats

    def take(self, rows: Codes) -> "Part":
        """Some of the rows."""
        return Part(self.X[rows], self.y[rows], self.paid[rows])


@dataclass(frozen=True, eq=False)
class Problem:
    """F features of which each takes some of S steps; a step is paid for once.

    Attributes
    ----------
    train, held, fresh
        Rows to train on, to fit exits on, and to report on.
    columns : F
        Columns of each feature.
    needs : (F, S)
        Steps that each takes. A feature's own work is one.
    own
        Cost of a base model: next to nothing, so that fewer are better at equal steps.
    """

    train: Part
    held: Part
    fresh: Part
    columns: tuple[tuple[int, ...], ...]
    needs: Flags
    own: float

    @property
    def costs(self) -> Floats:
        """(S,) mean cost of each step, as far as the build knows."""
        costs: Floats = np.vstack([self.train.paid, self.held.paid]).mean(axis=0)
        return costs

    def along(self, features: Sequence[int]) -> Flags:
        """(K, S) steps taken once each of K features is there, in this order."""
        steps: Flags = np.logical_or.accumulate(self.needs[list(features)])
        return steps

    def read(self, part: Part, features: Sequence[int]) -> Values:
        """Columns of some features, one feature after the other."""
        return part.X[:, list(chain(*(self.columns[k] for k in features)))]

    @cached_property
    def by_gain(self) -> tuple[int, ...]:
        """Features by what trees gain from them per cost; those of no gain left out."""
        gains = boosting(20).fit(self.train.X, self.train.y).booster_
        by_column = gains.feature_importance("gain")
        worth = [
            by_column[list(own)].sum() / self.costs[needs].sum()
            for own, needs in zip(self.columns, self.needs, strict=True)
        ]
        order = np.argsort(-np.array(worth), kind="stable")
        return tuple(int(k) for k in order if worth[k] > 0)


def boosting(rounds: int, **settings: Any) -> Any:
    """LightGBM as elsewhere here."""
    from lightgbm import LGBMClassifier

    return LGBMClassifier(n_estimators=rounds, n_jobs=1, verbose=-1, **settings)


def thyroid(seed: int) -> Problem:
    """Dollars of Turney's tests; who has FTI has the tests it is computed from.

    Those three columns are one feature.
    """
    names, costs = thyroid_names(), thyroid_costs()
    last = [names.index(name) for name in (*FTI_TESTS, "FTI")]
    singles = [(k,) for k in range(len(names)) if k not in last]
    columns = (*singles, tuple(last))
    prices = np.array([costs[names[own[-1]]] for own in columns])
    parts = (thyroid_table(names, part) for part in ("train", "test"))
    build, fresh = (bought(*part, prices) for part in parts)
    return divide(build, fresh, columns, np.eye(len(columns), dtype=bool), 1e-3, seed)


def thyroid_table(names: list[str], part: str) -> tuple[Floats, Codes]:
    """Records of "train" or "test" as rows (N, d), and their classes (N,)."""
    rows = list(thyroid_rows(part))
    X = [[record[name] for name in names] for record, *_ in rows]
    return np.array(X, float), np.array([int(label) - 1 for _, label, *_ in rows])


def tumours(seed: int) -> Problem:
    """Means, deviations and extremes of ten quantities; a dollar each column."""
    X, y, Xt, yt = load_tumours()
    columns = tuple(tuple(range(k, k + 10)) for k in (0, 10, 20))
    prices = np.full(3, 10.0)
    build, fresh = bought(X, y, prices), bought(Xt, yt, prices)
    return divide(build, fresh, columns, np.eye(3, dtype=bool), 1e-3, seed)


def adult(seed: int) -> Problem:
    """A dollar for each of 14 columns."""
    X, y, Xt, yt = load_adult(data_folder())
    prices = np.ones(14)
    columns = tuple((k,) for k in range(14))
    build, fresh = bought(X, y, prices), bought(Xt, yt, prices)
    return divide(build, fresh, columns, np.eye(14, dtype=bool), 1e-3, seed)


def scenes(seed: int, folder: Path) -> Problem:
    """Milliseconds of 13 features of images at four sizes."""
    kept = record(Cache(folder / "recording"))
    paid = np.hstack([kept.feature_s, kept.step_s]) * 1e3
    return timed(kept.extractor, Part(kept.values, kept.codes, paid), seed)


def reviews(seed: int) -> Problem:
    """Milliseconds of 7 features of film reviews."""
    return timed(*measured_reviews(), seed)


@cache
def measured_reviews() -> tuple[Extractor, Part]:
    """Time every feature and step of every review, once and now."""
    given = list(films())
    items = [make_item(text) for text, *_ in given]
    extractor = Extractor.probe(load_features(TEXT_FEATURES), items[0])
    timings = Timings(
        np.zeros(len(items)),
        np.zeros((len(items), len(extractor.features))),
        np.zeros((len(items), len(extractor.steps))),
        np.arange(len(items)),
    )
    values = np.empty((len(items), extractor.width), np.float32)
    random = np.random.default_rng(0)
    extractor.warm(items[:20])
    for at, item in enumerate(items):
        time_item(extractor, item, shuffled(extractor, random), timings, at, values[at])
    codes = np.array([label == "pos" for _, label, *_ in given], np.int64)
    paid = np.hstack([timings.feature_s, timings.step_s]) * 1e3
    return extractor, Part(values, codes, paid)


def bought(X: NDArray[Any], y: Codes, prices: Floats) -> Part:
    """Rows that all pay the same."""
    return Part(X.astype(np.float32), y, np.tile(prices, (len(y), 1)))


def timed(extractor: Extractor, rows: Part, seed: int) -> Problem:
    """Rows whose features and steps were timed; a quarter is fresh."""
    F, S = len(extractor.features), len(extractor.steps)
    needs = np.hstack([np.eye(F, dtype=bool), np.zeros((F, S), bool)])
    for feature, steps in enumerate(extractor.needs):
        needs[feature, [F + step for step in steps]] = True
    slices = (extractor.columns(k) for k in range(F))
    columns = tuple(tuple(range(one.start, one.stop)) for one in slices)
    order = np.random.default_rng(seed).permutation(len(rows.y))
    fresh, build = np.split(order, [len(order) // 4])
    return divide(rows.take(build), rows.take(fresh), columns, needs, 1e-4, seed)


def divide(build: Part, fresh: Part, *facts: Any) -> Problem:
    """Hold a third of the build's rows out; the last of `facts` is a seed."""
    *known, seed = facts
    order = np.random.default_rng(seed).permutation(len(build.y))
    held, train = np.split(order, [len(order) // 3])
    return Problem(build.take(train), build.take(held), fresh, *known)
