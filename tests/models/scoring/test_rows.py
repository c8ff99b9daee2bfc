"""The one door for rows, and how models and schedules present themselves."""

from collections.abc import Callable
from functools import cache, partial
from typing import Any

import numpy as np
import pytest
from scipy.sparse import csr_array
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from polydom.features.errors import BadInput
from polydom.models import compile
from polydom.models.importers.compile_model import compile_model
from polydom.models.lattices.estimator import LatticeEnsembleClassifier
from polydom.models.qwyc.fit_schedule import fit_margin_schedule, fit_schedule
from polydom.models.scoring.prior import Prior
from polydom.models.scoring.remaining_bounds import bound_remaining
from polydom.models.scoring.rows import take_row, take_rows
from tests.support.first_use import AtFirstUse
from tests.support.models.agreement import bundled

pandas = pytest.importorskip("pandas")

X, Y = bundled("iris")
TWO = Y > 0
FRAME = pandas.DataFrame(X, columns=["a", "b", "c", "d"])

FORMS: dict[str, Callable[[Any], Any]] = {
    "lists": lambda X: X.tolist(),
    "column-major": np.asfortranarray,
    "gaps": lambda X: np.repeat(X, 2, axis=1)[:, ::2],
    "frame": lambda X: pandas.DataFrame(X),
    "frame of objects": lambda X: pandas.DataFrame(X).astype(object),
    "nullable frame": lambda X: pandas.DataFrame(X).astype("Float64"),
    "float16 or not": lambda X: X.astype(np.longdouble),
}
LEARNERS: dict[str, Any] = {
    "forest": RandomForestClassifier(9, random_state=0),
    "lattices": LatticeEnsembleClassifier(5, 2, epochs=30, random_state=0),
    "linear": make_pipeline(StandardScaler(), LogisticRegression()),
}
# models are made when a test first asks for one: at import each process would make all
MODELS: AtFirstUse[str, Any] = AtFirstUse(
    LEARNERS, lambda name: compile(LEARNERS[name].fit(X, TWO))
)


@cache
def many() -> Any:
    return compile(RandomForestClassifier(9, random_state=0).fit(X, Y))


@cache
def regressor() -> Any:
    return compile(RandomForestRegressor(5, random_state=0).fit(X, Y))


@cache
def exits_of(name: str) -> Any:
    ensemble = MODELS[name]
    schedule = fit_schedule(ensemble.base_scores(X), ensemble.threshold, 0.01)
    return ensemble.early_exit(schedule)


@cache
def margin_exits() -> Any:
    schedule = fit_margin_schedule(many().base_scores(X), 0.01, bias=many().bias)
    return many().early_exit(schedule)


# What takes rows of each ensemble, and of others.
OF_ENSEMBLES: dict[str, Callable[[str], Any]] = {
    "predict": lambda name: MODELS[name].predict,
    "base scores": lambda name: MODELS[name].base_scores,
    "decision function": lambda name: MODELS[name].decision_function,
    "class scores": lambda name: MODELS[name].classifier.predict_scores,
    "exits": lambda name: exits_of(name).predict,
}
OTHERS: dict[str, Callable[[], Any]] = {
    "margin exits": lambda: margin_exits().predict,
    "regressor": lambda: regressor().predict,
    "regressor base scores": lambda: regressor().base_scores,
    "bayes": lambda: compile_model(GaussianNB().fit(X, Y)).predict,
}


def entrance(name: str) -> Any:
    if name in OTHERS:
        return OTHERS[name]()
    model, _, way = name.partition(" ")
    return OF_ENSEMBLES[way](model)


ENTRANCES: AtFirstUse[str, Callable[[Any], Any]] = AtFirstUse(
    [*(f"{name} {way}" for name in LEARNERS for way in OF_ENSEMBLES), *OTHERS], entrance
)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", ENTRANCES)
def test_tables_of_numbers_are_taken_by_their_values(name: str, form: str) -> None:
    np.testing.assert_array_equal(ENTRANCES[name](FORMS[form](X)), ENTRANCES[name](X))


REFUSED = [
    (X[0], r"rows of shape \(4,\); they must be \(N, width\).*row\[None\]"),
    (X[None], r"rows of shape \(1, 150, 4\)"),
    (X[:, :2], r"rows of shape \(150, 2\)"),
    ([[1, 2, 3, 4], [1, 2]], "rows of type list are no array of numbers"),
    (FRAME.assign(b="x"), r"column 'b' .*: numbers are"),
    ([["a", "b", "c", "d"]], "rows of type list with <U1: numbers are needed"),
    (X.astype(complex), "complex128: numbers are needed"),
    (csr_array(X), "rows of type csr_array"),
    ("text", "rows of type str with <U4"),
    (None, "rows of type NoneType"),
]


@pytest.mark.parametrize(("rows", "message"), REFUSED)
@pytest.mark.parametrize("name", ENTRANCES)
def test_what_is_no_table_of_numbers_is_refused(
    name: str, rows: Any, message: str
) -> None:
    with pytest.raises(BadInput, match=message):
        ENTRANCES[name](rows)


def listed(model: Any, row: Any) -> Any:
    return model.answer(row)[1]


# What takes a row of each ensemble, and of others.
ONE_OF_ENSEMBLES: dict[str, Callable[[str], Any]] = {
    "choose": lambda name: MODELS[name].classifier.choose,
    "scores": lambda name: partial(listed, MODELS[name].classifier),
    "answer": lambda name: MODELS[name].classifier.answer,
    "exits": lambda name: exits_of(name).choose,
}
OTHER_SINGLES: dict[str, Callable[[], Any]] = {
    "margin exits": lambda: margin_exits().choose,
    "regressor": lambda: regressor().predict_one,
}


def single(name: str) -> Any:
    if name in OTHER_SINGLES:
        return OTHER_SINGLES[name]()
    model, _, way = name.partition(" ")
    return ONE_OF_ENSEMBLES[way](model)


SINGLES: AtFirstUse[str, Callable[[Any], Any]] = AtFirstUse(
    [
        *(f"{name} {way}" for name in LEARNERS for way in ONE_OF_ENSEMBLES),
        *OTHER_SINGLES,
    ],
    single,
)


@pytest.mark.parametrize("name", SINGLES)
def test_single_rows_are_taken_by_their_values(name: str) -> None:
    row = X[60].astype(np.float32)
    expected = SINGLES[name](row)
    forms = (
        row.tolist(),
        tuple(row.tolist()),
        pandas.Series(row),
        np.repeat(row, 2)[::2],
    )
    for form in forms:
        assert SINGLES[name](form) == expected


@pytest.mark.parametrize("name", SINGLES)
def test_what_is_no_row_of_numbers_is_refused(name: str) -> None:
    for row, message in (
        (FRAME[:1], r"a row of shape \(1, 4\); it must be \(width,\)"),
        (X[:1], r"a row of shape \(1, 4\)"),
        (X[0, :1], r"rows of shape \(1, 1\)"),
        (["a"] * 4, "a row of type list with <U1"),
        (1.0, r"a row of shape \(\)"),
        ({"a": 1}, "a row of type dict with object"),
    ):
        with pytest.raises(BadInput, match=message):
            SINGLES[name](row)


def test_arrays_that_fit_are_not_copied() -> None:
    single = X.astype(np.float32)
    assert take_rows(X) is X
    assert take_rows(single) is single
    assert take_row(single[0]).base is single
    assert take_rows(FRAME.astype(np.float32)).dtype == np.float32


def test_scores_of_a_schedule_come_by_the_same_door() -> None:
    scores = MODELS["forest"].base_scores(X)
    expected = fit_schedule(scores, 0.0, 0.05)
    for form in FORMS.values():
        found = fit_schedule(form(scores), 0.0, 0.05)
        np.testing.assert_array_equal(found.order, expected.order)
        assert found.evaluate(form(scores))[1].tolist() == (
            expected.evaluate(scores)[1].tolist()
        )
    with pytest.raises(BadInput, match="scores of type list"):
        fit_schedule([[1.0, 2.0], [1.0]], 0.0, 0.05)  # type: ignore[arg-type]
    with pytest.raises(BadInput, match="scores of type list with <U1"):
        fit_margin_schedule([["a"]], 0.05)  # type: ignore[arg-type]


def shown() -> list[Any]:
    forest = MODELS["forest"]
    exits = exits_of("forest")
    found = [exits, forest, margin_exits(), many(), regressor(), Prior.fit(Y)]
    found.append(many().terms)
    for ensemble in MODELS.values():
        scorer, head = ensemble.classifier.scorer, ensemble.classifier.head
        found += [ensemble.classifier, scorer, head, scorer.preparation]
        packed = getattr(scorer, "packed", None)
        found += [] if packed is None else [packed]
    scores = forest.base_scores(X)
    found.append(fit_schedule(scores, forest.threshold, 0.01))
    found.append(fit_margin_schedule(many().base_scores(X), 0.01, bias=many().bias))
    return [*found, bound_remaining(*forest.bounds())]


def test_reprs_are_short_and_name_what_they_are() -> None:
    for thing in shown():
        text = repr(thing)
        assert type(thing).__name__ in text
        assert len(text) < 300
        assert "array" not in text


def test_repr_tells_kind_count_columns_and_classes() -> None:
    text = repr(MODELS["forest"])
    for part in ("9 trees", "4 columns", "2 classes: False, True", "9 base models"):
        assert part in text
