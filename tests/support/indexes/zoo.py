"""A small index of every kind: of items, of sizes, of costs, of models."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.ensemble import (
    GradientBoostingClassifier,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
)
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import BernoulliNB, GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, Normalizer, StandardScaler
from sklearn.tree import DecisionTreeClassifier

from polydom.features.costs.curve import CostTable
from polydom.features.fingerprint import fingerprint
from polydom.features.tables.column_features import columns
from polydom.features.threads import one_thread
from polydom.indexer.index.index import Index
from polydom.indexer.index.machine_speed import MachineTimes, compared_models
from polydom.indexer.index.package import Package, exit_costs
from polydom.indexer.index.stored_features import StoredColumns, StoredFeature
from polydom.models.importers.compile_model import compile_model
from polydom.models.lattices.lattices import make_lattices
from polydom.models.scoring.classifier import Classifier, Head
from polydom.models.scoring.kernels.link import LARGEST, LOGISTIC, POSITIVE, SOFTMAX
from polydom.models.scoring.model import Model
from polydom.models.scoring.preparation import plain
from polydom.models.scoring.prior import Prior
from tests.support.indexes import fetched, learned, numbers, served, stopping_records
from tests.support.indexes.free_records import save_records

NAMES = ("a", "b", "c", "d", "e")
GROUPS = ((0, 1), (2,), (3, 4))  # columns of each feature
MASKS = (0b000, 0b001, 0b010, 0b011, 0b111)
ORDERS = ((), (0,), (1,), (0, 1), (0, 1, 2))
FALLBACKS = ((0,), (0, 1), (0, 2), (0, 1, 3), (0, 1, 3, 4))
ACCURACIES = (0.4, 0.6, 0.55, 0.8, 0.9)
MODEL_S = 1e-5
RECORD = {"a": 0.3, "b": 2.0, "c": -1.0, "d": 0.0, "e": 1.0}

Make = Callable[[np.random.Generator, list[int], int], Model]


def estimator(make: Callable[[], Any], *, gaps: bool = True, classes: int = 2) -> Make:
    """Fit an estimator on drawn rows, some of whose values are missing."""

    def model(draw: np.random.Generator, used: list[int], _: int) -> Model:
        X = draw.normal(size=(200, len(used))).astype(np.float32)
        X[:, -1] = draw.integers(0, 5, 200)
        y = (X[:, 0] > 0).astype(int) + (X[:, -1] > 2) * (classes > 2)
        if gaps:
            X[draw.random(X.shape) < 0.1] = np.nan
        fitted = make().fit(X.astype(float), y)
        return compile_model(fitted, np.array(used, np.int32))

    return model


def lattices(outputs: int, simplex: bool) -> Make:
    """Draw lattices over two inputs."""

    def model(draw: np.random.Generator, used: list[int], row: int) -> Model:
        d, T, S, P = len(used), 20, min(2, len(used)), 4
        made = make_lattices(
            plain(np.array(used)),
            np.sort(draw.normal(size=(d, P)), axis=1),
            np.stack([draw.permutation(d)[:S] for _ in range(T)]),
            draw.random((T, S, P + 1)),
            draw.normal(size=(T, outputs, 2**S)),
            draw.normal(size=outputs),
            simplex,
        )
        link, rule = (LOGISTIC, POSITIVE) if outputs == 1 else (SOFTMAX, LARGEST)
        head = Head(np.arange(max(outputs, 2)), link, rule, outputs)
        return Classifier(made.with_packed(), head)

    return model


def _boosters() -> Iterator[tuple[str, Make, int]]:
    few: dict[str, Any] = {"n_estimators": 12, "n_jobs": 1, "random_state": 0}
    if find_spec("lightgbm"):
        from lightgbm import LGBMClassifier

        own = few | {"verbose": -1, "min_child_samples": 3}
        yield "lightgbm", estimator(lambda: LGBMClassifier(**own)), 2
        own3 = own | {"num_leaves": 7}
        yield "lightgbm3", estimator(lambda: LGBMClassifier(**own3), classes=3), 3
    if find_spec("xgboost"):
        from xgboost import XGBClassifier

        own_x = few | {"max_depth": 4}
        yield "xgboost", estimator(lambda: XGBClassifier(**own_x)), 2
        yield "xgboost3", estimator(lambda: XGBClassifier(**own_x), classes=3), 3


def _histograms(classes: int) -> Make:
    def make() -> Any:
        return HistGradientBoostingClassifier(max_iter=8, max_leaf_nodes=7)

    return estimator(make, classes=classes)


def _categories(draw: np.random.Generator, used: list[int], row: int) -> Model:
    last = [len(used) - 1]
    learner = HistGradientBoostingClassifier(max_iter=8, categorical_features=last)
    return estimator(lambda: learner)(draw, used, row)


MODELS: list[tuple[str, Make, int]] = [
    ("tree", estimator(lambda: DecisionTreeClassifier(max_depth=5)), 2),
    ("forest3", estimator(lambda: RandomForestClassifier(7), classes=3), 3),
    ("deep", estimator(lambda: RandomForestClassifier(70, max_depth=6)), 2),
    ("boosting", estimator(lambda: GradientBoostingClassifier(), gaps=False), 2),
    ("histograms", _histograms(2), 2),
    ("histograms3", _histograms(3), 3),
    ("categories", _categories, 2),
    ("gaussian", estimator(GaussianNB, gaps=False, classes=3), 3),
    ("flags", estimator(BernoulliNB, gaps=False), 2),
    (
        "pipeline",
        estimator(
            lambda: make_pipeline(
                SimpleImputer(), StandardScaler(), Normalizer(), LogisticRegression()
            ),
            classes=3,
        ),
        3,
    ),
    (
        "scaled",
        estimator(
            lambda: make_pipeline(
                SimpleImputer(), MinMaxScaler(clip=True), RandomForestClassifier(9)
            )
        ),
        2,
    ),
    ("lattices", lattices(1, False), 2),
    ("simplices", lattices(1, True), 2),
    ("lattices3", lattices(3, False), 3),
    *_boosters(),
]


def make_record_index(make: Make, classes: int, **changes: Any) -> Index:
    """Make an index of records whose costs cross as sizes grow.

    Parameters
    ----------
    changes
        Fields of the package that are not as usual.
    """
    features = [
        columns(f"g{k}", [NAMES[c] for c in own]) for k, own in enumerate(GROUPS)
    ]
    costs = CostTable(
        [[1e-4, 2e-6, 0], [3e-4, 0, 1e-9], [1e-3, 1e-7, 0]],
        np.zeros((0, 3)),
        [(), (), ()],
        [2e-5, 0, 0],
    )
    draw = np.random.default_rng(0)
    models: list[Model] = [Prior.fit(np.arange(classes))]
    for row, mask in enumerate(MASKS[1:], 1):
        used = [c for k, own in enumerate(GROUPS) if mask >> k & 1 for c in own]
        models.append(make(draw, used, row))
    package = Package(
        kind="record",
        labels=tuple("xyz"[:classes]),
        features=tuple(
            StoredFeature(
                f.name,
                len(own),
                fingerprint(f),
                True,
                StoredColumns([NAMES[c] for c in own], {}),
            )
            for f, own in zip(features, GROUPS, strict=True)
        ),
        costs=costs,
        masks=np.array(MASKS, np.uint64),
        orders=ORDERS,
        fallbacks=FALLBACKS,
        models=tuple(models),
        model_s=np.full(len(MASKS), MODEL_S),
        overhead_s=2e-5,
        meta={"unit": "s", "samples": [RECORD, RECORD], "quantile": 0.99},
    )
    coefficients = costs.of_many(package.masks)
    coefficients[1:, 0] += MODEL_S
    package = replace(package, **changes)
    return Index.from_candidates(coefficients, ACCURACIES, (1, 1_000), package)


def with_exits(index: Index, **changes: Any) -> Index:
    """Let the plans of an index exit early, and say what its samples took."""
    package = index.package
    assert package is not None
    margins = tuple(
        tuple(0.1 * k if 0 < k < len(row) - 1 else np.inf for k in range(len(row)))
        for row in package.fallbacks
    )
    coefficients = index.coefficients.copy()
    coefficients[:, 0] += exit_costs(margins, package.fallbacks, package.model_s)
    samples, steps = len(package.meta["samples"]), len(package.costs.step_coefficients)
    times = [(), (steps,), (len(package.features),)]
    rows = len(compared_models(len(package.masks)))
    times_s = MachineTimes(
        *(np.full((samples, *shape), 1e-5) for shape in [*times, (rows,)])
    )
    facts = [
        {"row": row, "early": 0.5 * (min(own) < np.inf), "saved": 0.1, "changed": 0.0}
        for row, own in enumerate(margins)
    ]
    exits = {"alpha": 0.01, "fitted": 9, "calibrated": 9, "plans": facts}
    meta = package.meta | {"pace": times_s.facts(), "exits": exits}
    parts = len(package.features) + steps
    typical = np.full(parts, 0.5)
    more = replace(package, margins=margins, meta=meta, typical=typical, **changes)
    return Index.from_candidates(coefficients, index.qualities, index.sizes, more)


def bare_index(pairs: bool) -> Index:
    """Candidates without models, many of them on some skyline."""
    draw = np.random.default_rng(1)
    if pairs:
        costs = draw.random((30, 6)) * [500, 50, 50, 1, 1, 1]
        return Index.from_candidates(costs, draw.random(30), ((1, 1), (40, 90)))
    costs = draw.random((60, 3)) * [500, 20, 1] + [0, -2, 0]
    costs[:, 0] += 200
    return Index.from_candidates(costs, draw.random(60), (1, 100))


def save_zoo(folder: Path) -> dict[str, Path]:
    """Write an index of every kind into a folder; their paths by name."""
    made = {
        "texts": with_exits(served.make_index()),
        "pairs": with_exits(served.make_pair_index()),
        "learned": learned.make_index(),
        "money": served.make_index(unit="usd"),
        "numbers": numbers.make_index(),
        "balanced": with_exits(numbers.make_balanced_index()),
        "parts": stopping_records.make_ladder_index(),
        "fetched": fetched.make_index(),
        "bare": bare_index(pairs=False),
        "bare pairs": bare_index(pairs=True),
    }
    for name, make, classes in MODELS:
        with one_thread():  # there is too little to do for several
            index = make_record_index(make, classes)
        made[name] = with_exits(index) if name in ("tree", "forest3") else index
    paths = {"table": save_records(folder)}
    if find_spec("PIL"):
        from tests.support.indexes.three_kinds import save_images

        paths["images"] = save_images(folder)
    if find_spec("onnxruntime"):
        from tests.support.indexes import with_networks

        made["network"] = with_networks.make_index("image")
        made["text network"] = with_networks.make_index("text")
    for name, index in made.items():
        paths[name] = folder / f"zoo {name}.pdx"
        index.save(paths[name])
    return paths
