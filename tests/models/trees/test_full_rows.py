"""Trees behind a preparation, made to read full rows: they answer as before."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lightgbm import LGBMClassifier
from numpy.typing import NDArray
from sklearn.ensemble import (
    AdaBoostClassifier,
    GradientBoostingClassifier,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
)
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, Normalizer, StandardScaler

from polydom.models import Ensemble, compile
from polydom.models.early_exit.stored_schedule import load_early_exit
from polydom.models.load import load_model
from polydom.models.scoring.float_order import find_last
from polydom.models.scoring.kernels.preparation import (
    AFFINE,
    BINARISE,
    GAIN,
    SQUARE_NORM,
)
from polydom.models.scoring.preparation import UNCHANGED, Preparation, plain
from polydom.models.scoring.stopping_rule import Limits, Margins
from polydom.models.trees.full_rows import nodes_of_full_rows
from polydom.models.trees.keys import find_slots
from polydom.models.trees.nodes import Tree
from polydom.models.trees.trees import Trees, join
from tests.support.examples import few
from tests.support.models.agreement import bundled
from tests.support.models.drawn_trees import drawn_tree
from tests.support.oracles.trees import tree_value

WIDE = 4
COLUMNS = np.array([5, 0, 2, 3], np.int32)
ODD = np.array(
    [np.nan, np.inf, -np.inf, 0.0, -0.0, 1e-45, -1e-45, 1e-36, 3e38, -3e38], np.float32
)


def drawn_preparation(draw: np.random.Generator) -> Preparation:
    """Fillings, scalings, limits and flags, one after the other."""
    count = int(draw.integers(1, 4))
    table = np.tile(UNCHANGED[None, :, None], (count, 1, WIDE))
    some = draw.random((count, 7, WIDE)) < 0.4
    drawn = draw.normal(size=table.shape)
    drawn[:, [2, 3]] = np.exp(3 * drawn[:, [2, 3]])
    drawn[:, 5:] = np.sort(drawn[:, 5:], axis=1)
    table[some] = drawn[some]
    operations = np.where(draw.random(count) < 0.2, BINARISE, AFFINE)
    table[operations == BINARISE, 1] = draw.normal(size=WIDE)
    return Preparation(COLUMNS, operations.astype(np.int64), table)


def drawn(seed: int) -> tuple[list[Tree], Trees]:
    """Trees whose thresholds are what rows are prepared to, or near it."""
    draw = np.random.default_rng(seed)
    preparation = drawn_preparation(draw)
    near = preparation.apply(rows_of(draw, 40)).ravel()
    cuts = np.append(near[~np.isnan(near)], [0.0, 0.5, np.inf, -np.inf])
    trees = [drawn_tree(draw, cuts, WIDE, 4, 1) for _ in range(7)]
    trees = [replace(tree, flags=tree.flags & 3) for tree in trees]
    single = bool(draw.random() < 0.5)
    made = join(trees, [0] * 7, preparation, bias=np.array([0.25]), single=single)
    return trees, made


def rows_of(draw: np.random.Generator, count: int) -> NDArray[np.float32]:
    X = draw.normal(scale=2.0, size=(count, 6)).astype(np.float32)
    where = draw.random(X.shape) < 0.3
    X[where] = draw.choice(ODD, int(where.sum()))
    return X


def beside(X: NDArray[np.float32]) -> NDArray[np.float32]:
    """Rows, and those one step below and above them."""
    with np.errstate(over="ignore"):
        steps = [np.nextafter(X, np.float32(end)) for end in (-np.inf, np.inf)]
    return np.vstack([X, *steps])


@settings(max_examples=few(60), deadline=None)
@given(seed=st.integers(0, 9999))
def test_full_rows_go_where_prepared_rows_go(seed: int) -> None:
    trees, made = drawn(seed)
    nodes = nodes_of_full_rows(made, made.preparation, made.single)
    assert nodes is not None
    own = plain(made.columns)
    found = replace(made, nodes=nodes, preparation=own, packed=None)
    found = Trees.load(stored_of(found), found.width)  # which checks every node
    rows = rows_of(np.random.default_rng(seed), 40)
    cuts = nodes["threshold"][nodes["column"] >= 0].astype(np.float32)
    at = np.broadcast_to(np.resize(cuts, 20)[:, None], (20, 6))
    X = beside(np.vstack([rows, at]))
    Z = made.preparation.apply(X)
    if made.single:
        with np.errstate(over="ignore"):
            Z = Z.astype(np.float32).astype(np.float64)
    slow = [[tree_value(tree, row) for tree in trees] for row in Z.tolist()]
    np.testing.assert_array_equal(found.base_scores(X)[:, :, 0], slow)
    np.testing.assert_array_equal(made.base_scores(X)[:, :, 0], slow)
    np.testing.assert_array_equal(found.raw(X), made.raw(X))


def stored_of(trees: Trees) -> Any:
    from polydom.models.scoring.stored_arrays import Stored

    return Stored("trees", trees.arrays())


@settings(max_examples=few(60), deadline=None)
@given(seed=st.integers(0, 9999))
def test_the_last_value_fits_and_the_next_does_not(seed: int) -> None:
    draw = np.random.default_rng(seed)
    preparation = replace(drawn_preparation(draw), columns=np.arange(4, dtype=np.int32))
    assert preparation.ascends()
    limits = preparation.apply(np.nan_to_num(rows_of(draw, 1)))[0]
    limits[draw.random(WIDE) < 0.3] = draw.choice([np.inf, -np.inf, 0.0, 1.0])

    def prepare(values: NDArray[np.float32]) -> Any:
        return preparation.apply(values[None])[0]

    last = find_last(prepare, limits)
    none = np.isnan(last)
    fits = prepare(np.where(none, np.inf, last).astype(np.float32)) <= limits
    assert (fits | none).all()
    with np.errstate(over="ignore"):
        after = np.nextafter(last.astype(np.float32), np.float32(np.inf))
    after = np.where(none, np.float32(-np.inf), after)
    assert ((prepare(after) > limits) | (last == np.inf)).all()


def test_what_no_value_alone_decides_keeps_its_preparation() -> None:
    _, made = drawn(0)
    falling = made.preparation.table.copy()
    falling[0, GAIN] = -1.0
    norm = np.array([SQUARE_NORM], np.int64)
    for preparation in (
        replace(made.preparation, operations=np.array([AFFINE]), table=falling[:1]),
        replace(made.preparation, operations=norm, table=falling[:1]),
    ):
        assert nodes_of_full_rows(made, preparation, single=False) is None
    for name, value in (("category", 0), ("flags", 4)):
        nodes = made.nodes.copy()
        nodes[name][made.inner] = value
        other = replace(made, nodes=nodes)
        assert nodes_of_full_rows(other, made.preparation, single=False) is None


def test_nodes_behind_a_filling_share_a_column() -> None:
    _, made = drawn(3)
    filled = plain(made.columns).then_fill(0.1)
    nodes = nodes_of_full_rows(made, filled, single=False)
    assert nodes is not None
    slots = find_slots(replace(made, nodes=nodes, preparation=plain(COLUMNS)))
    assert len(np.unique(slots.columns)) == len(slots.columns)


FEW: dict[str, Any] = {"n_estimators": 12, "random_state": 0}
PIPELINES = {
    "boosting": (SimpleImputer(), GradientBoostingClassifier(**FEW, max_depth=2)),
    "histogram": (
        SimpleImputer(strategy="median"),
        HistGradientBoostingClassifier(max_iter=12, min_samples_leaf=5),
    ),
    "gaps": (StandardScaler(), HistGradientBoostingClassifier(max_iter=12)),
    "adaboost": (SimpleImputer(), AdaBoostClassifier(**FEW)),
    "forest": (
        SimpleImputer(),
        MinMaxScaler(clip=True),
        RandomForestClassifier(**FEW, max_depth=4),
    ),
    "lightgbm": (SimpleImputer(), LGBMClassifier(**FEW, verbose=-1, n_jobs=1)),
}


def fitted(name: str, classes: int) -> tuple[Ensemble, NDArray[np.float32]]:
    X, y = bundled("wine")
    draw = np.random.default_rng(0)
    X = X.astype(np.float32)
    X[draw.random(X.shape) < 0.1] = np.nan
    pipeline = make_pipeline(*PIPELINES[name]).fit(X, y if classes > 2 else y > 0)
    found = compile(pipeline)
    assert isinstance(found, Ensemble)
    rows = X[draw.integers(0, len(X), 300)]
    rows += draw.normal(scale=0.1, size=rows.shape) * np.nanstd(X, axis=0)
    return found, np.vstack([X, rows]).astype(np.float32)


@pytest.mark.jit  # there are no packed trees where kernels are interpreted
@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("name", PIPELINES)
def test_prepared_trees_stop_in_one_call_as_in_python(name: str, classes: int) -> None:
    ensemble, X = fitted(name, classes)
    exits = ensemble.fit_early_exit(X, alpha=0.05)
    assert exits.packed is not None
    model = load_model("trees", ensemble.classifier.arrays(), width=X.shape[1])
    for one in (exits, load_early_exit(model, exits.arrays())):
        chosen, used = one.choices(X)
        by_numpy = one.choices(X.astype(np.float64))  # which kernels do not take
        np.testing.assert_array_equal((chosen, used), by_numpy)
        assert used.mean() < ensemble.size
        assert [one.choose(row) for row in X] == chosen.tolist()
        answers = [one.answer(row) for row in X]
        assert [answer.used for answer in answers] == used.tolist()


@pytest.mark.jit
def test_trees_behind_a_norm_are_not_packed_for_stops() -> None:
    X, y = bundled("wine")
    pipeline = make_pipeline(Normalizer(), RandomForestClassifier(3, random_state=0))
    terms = compile(pipeline.fit(X, y > 0)).terms
    ends = np.full(terms.size, 0.1)
    stops = Margins(ends) if terms.base_bias().size > 1 else Limits(-ends, ends)
    assert terms.pack(np.arange(terms.size), stops) is None
