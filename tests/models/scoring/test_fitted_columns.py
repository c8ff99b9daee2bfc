"""Models that were fitted on categories, asked with data frames: values, not codes."""

import json
import pickle
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lightgbm
import numpy as np
import pandas
import polars
import pyarrow
import pytest
import xgboost
from lightgbm import LGBMClassifier, LGBMRegressor
from numpy.typing import NDArray
from sklearn.ensemble import (
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
)
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler
from xgboost import XGBClassifier, XGBRegressor

from polydom.features.errors import BadInput, BadModel
from polydom.models import EarlyExitClassifier, compile, swap_columns
from polydom.models.load import load_model

pytestmark = pytest.mark.jit  # many rows through whole models
N = 700
DRAWS = np.random.default_rng(3)
MONTHS = DRAWS.integers(1, 13, N)
WARMTH = DRAWS.normal(size=N)
VALUES = np.sin(MONTHS * 1.7) + 0.3 * WARMTH
Y = (VALUES > 0).astype(int)

CELLS: dict[str, Any] = {
    "ints": MONTHS,
    "negative": MONTHS - 4,
    "years": MONTHS + 2010,
    "texts": np.array([f"m {month:02}" for month in MONTHS], object),
    "words beyond ASCII": np.array([f"{m:02} été, mössa" for m in MONTHS], object),
    "odd texts": np.array(
        ['a"b', "c\\d", "e\nf", "g,h", "i:j", "k|l", "{", "}", "[", "]", "", " "],
        object,
    )[MONTHS - 1],
    "floats": MONTHS / 4,
    "bools": np.sin(MONTHS * 1.7) > 0,
}
LIGHTGBM = LGBMClassifier(n_estimators=12, verbose=-1, n_jobs=1, min_child_samples=5)
XGBOOST = XGBClassifier(n_estimators=12, n_jobs=1, enable_categorical=True)
HIST = HistGradientBoostingClassifier(max_iter=12)
REGRESSORS = {
    "LightGBM": LGBMRegressor(n_estimators=9, verbose=-1, n_jobs=1),
    "XGBoost": XGBRegressor(n_estimators=9, n_jobs=1, enable_categorical=True),
    "HistGradientBoosting": HistGradientBoostingRegressor(max_iter=9),
}
# XGBoost refuses categories that are floats or bools, and HistGradientBoosting has a
# compiled form for texts and whole numbers.
CASES = [
    *(("LightGBM", kind) for kind in CELLS),
    *(("XGBoost", kind) for kind in ("ints", "negative", "years", "texts")),
    ("XGBoost", "words beyond ASCII"),
    ("XGBoost", "odd texts"),
    *(("HistGradientBoosting", kind) for kind in ("ints", "odd texts", "bools")),
    *(("HistGradientBoosting", kind) for kind in ("years", "texts")),
]
CLASSIFIERS = {
    "LightGBM": LIGHTGBM,
    "XGBoost": XGBOOST,
    "HistGradientBoosting": HIST,
}


def frame_of(cells: Any, **options: Any) -> Any:
    month = pandas.Categorical(cells, **options)
    return pandas.DataFrame({"warmth": WARMTH, "month": month})


def fitted(name: str, kind: str) -> tuple[Any, Any]:
    frame = frame_of(CELLS[kind], ordered=kind == "years")
    return pickle.loads(pickle.dumps(CLASSIFIERS[name])).fit(frame, Y), frame


@pytest.mark.parametrize(("name", "kind"), CASES)
def test_frames_are_answered_as_the_library_does(name: str, kind: str) -> None:
    original, frame = fitted(name, kind)
    compiled = compile(original)
    gaps, few = frame.copy(), frame[:3].copy()
    gaps.loc[::7, "month"] = None
    few["month"] = few["month"].cat.remove_unused_categories()
    turned = frame.copy()
    turned["month"] = frame["month"].cat.reorder_categories(
        list(frame["month"].cat.categories)[::-1]
    )
    several = [frame, gaps, frame[::-2]]
    if (name, kind) != ("XGBoost", "words beyond ASCII"):
        several += [few, turned]
    for given in several:
        expected = original.predict_proba(given)
        np.testing.assert_allclose(compiled.predict_scores(given), expected, atol=1e-6)
        np.testing.assert_array_equal(compiled.predict(given), original.predict(given))
    again = pickle.loads(pickle.dumps(compiled))
    np.testing.assert_array_equal(again.predict(frame), original.predict(frame))


@pytest.mark.parametrize(("name", "kind"), CASES)
def test_early_exits_promise_what_they_keep(name: str, kind: str) -> None:
    original, frame = fitted(name, kind)
    sooner = EarlyExitClassifier(original, alpha=0.005).fit(frame)
    changed = (sooner.predict(frame) != original.predict(frame)).mean()
    assert changed <= 0.005
    assert (sooner.predict(frame) == Y).mean() > 0.8


@pytest.mark.parametrize("name", REGRESSORS)
@pytest.mark.parametrize("kind", ["ints", "texts"])
def test_regressors_read_categories_too(name: str, kind: str) -> None:
    frame = frame_of(CELLS[kind])
    original = REGRESSORS[name].fit(frame, VALUES)
    np.testing.assert_allclose(
        compile(original).predict(frame), original.predict(frame), rtol=1e-5, atol=1e-6
    )


@pytest.mark.parametrize("kind", ["ints", "texts"])
def test_an_unseen_category_is_what_the_library_takes_it_for(kind: str) -> None:
    other = "winter" if kind == "texts" else 77
    for name in ("LightGBM", "HistGradientBoosting"):
        original, frame = fitted(name, kind)
        frame["month"] = frame["month"].cat.add_categories([other])
        frame.loc[::5, "month"] = other
        np.testing.assert_array_equal(
            compile(original).predict(frame), original.predict(frame)
        )
    original, frame = fitted("XGBoost", kind)
    frame["month"] = frame["month"].cat.add_categories([other])
    frame.loc[::5, "month"] = other
    with pytest.raises(xgboost.core.XGBoostError):
        original.predict(frame)
    with pytest.raises(BadInput, match=f"column 'month' has {other!r}, which is none"):
        compile(original).predict(frame)


@pytest.mark.parametrize("kind", ["ints", "texts"])
@pytest.mark.parametrize("name", CLASSIFIERS)
def test_polars_and_arrow_frames_are_answered_as_those_of_pandas(
    name: str, kind: str
) -> None:
    original, frame = fitted(name, kind)
    compiled, expected = compile(original), original.predict(frame)
    texts = kind == "texts"
    column = pyarrow.array(CELLS[kind].tolist()).dictionary_encode()
    table = pyarrow.table({"warmth": WARMTH, "month": column})
    np.testing.assert_array_equal(compiled.predict(table), expected)
    np.testing.assert_array_equal(compiled.predict(table.to_batches()[0]), expected)
    if texts:
        plain = polars.DataFrame({"warmth": WARMTH, "month": CELLS[kind].tolist()})
        kinds = polars.Categorical, polars.Enum(sorted({*CELLS[kind]})), polars.String
        for one in kinds:
            given = plain.with_columns(polars.col("month").cast(one))
            np.testing.assert_array_equal(compiled.predict(given), expected)
        strings = frame.astype({"month": str})
        np.testing.assert_array_equal(compiled.predict(strings), expected)
        sooner = EarlyExitClassifier(original, alpha=0.0).fit(table)
        np.testing.assert_array_equal(sooner.predict(table), expected)


def lightgbm_file(original: Any, folder: Path) -> Path:
    path = folder / "model.txt"
    original.booster_.save_model(path)
    return path


def xgboost_file(original: Any, folder: Path) -> Path:
    path = folder / "model.json"
    original.save_model(path)
    return path


def xgboost_ubj(original: Any, folder: Path) -> Path:
    path = folder / "model.ubj"
    original.save_model(path)
    return path


@pytest.mark.parametrize(
    ("name", "save"),
    [
        ("LightGBM", lightgbm_file),
        ("XGBoost", xgboost_file),
        ("XGBoost", xgboost_ubj),
    ],
)
@pytest.mark.parametrize("kind", ["ints", "texts", "words beyond ASCII"])
def test_files_carry_their_categories(
    name: str, save: Callable[[Any, Path], Path], kind: str, tmp_path: Path
) -> None:
    original, frame = fitted(name, kind)
    path = save(original, tmp_path)
    np.testing.assert_array_equal(compile(path).predict(frame), original.predict(frame))
    sooner = EarlyExitClassifier(str(path), alpha=0.005).fit(frame)
    assert (sooner.predict(frame) != original.predict(frame)).mean() <= 0.005


def test_a_file_without_categories_answers_arrays_and_refuses_frames() -> None:
    original, frame = fitted("LightGBM", "ints")
    text = original.booster_.model_to_string().partition("pandas_categorical")[0]
    codes = np.column_stack([WARMTH, frame["month"].cat.codes])
    older = lightgbm.Booster(model_str=text)
    for given in (older, original):
        np.testing.assert_array_equal(
            compile(given).predict(codes), original.predict(frame)
        )
    with pytest.raises(BadInput, match="came in month; the model keeps categories of"):
        compile(older).predict(frame)
    original, frame = fitted("XGBoost", "ints")
    content = json.loads(original.get_booster().save_raw("json"))
    del content["learner"]["gradient_booster"]["model"]["cats"]
    booster = xgboost.Booster(model_file=bytearray(json.dumps(content).encode()))
    with pytest.raises(BadInput, match="came in month; the model keeps categories of"):
        compile(booster).predict(frame)


def test_lightgbm_forgets_categories_in_a_stored_data_set(tmp_path: Path) -> None:
    """LightGBM then numbers those of each frame anew, and answers by chance."""
    frame, path = frame_of(CELLS["texts"]), tmp_path / "rows.bin"
    lightgbm.Dataset(frame, Y, params={"verbose": -1}).save_binary(path)
    terms = {"objective": "binary", "verbose": -1}
    booster = lightgbm.train(terms, lightgbm.Dataset(path), 9)
    with pytest.raises(BadInput, match="keeps categories of none, so that their codes"):
        compile(booster).predict(frame)


def test_only_some_of_lightgbms_categories_may_be_of_a_frame() -> None:
    frame = frame_of(CELLS["texts"]).assign(number=MONTHS % 5)
    several: list[Any] = [["month", "number"], ["number"], "auto"]
    few = frame[:4].copy()
    few["month"] = few["month"].cat.remove_unused_categories()
    for columns in several:
        original = LIGHTGBM.fit(frame, Y, categorical_feature=columns)
        for given in (frame, few):
            np.testing.assert_array_equal(
                compile(original).predict(given), original.predict(given)
            )


@pytest.mark.parametrize("name", ["LightGBM", "XGBoost"])
def test_numbers_are_no_categories_in_a_frame_and_codes_in_an_array(name: str) -> None:
    original, frame = fitted(name, "ints")
    compiled = compile(original)
    numbers = frame.astype({"month": float})
    with pytest.raises((ValueError, xgboost.core.XGBoostError)):
        original.predict(numbers)
    with pytest.raises(BadInput, match="the model keeps categories of month"):
        compiled.predict(numbers)
    codes = np.column_stack([WARMTH, frame["month"].cat.codes])
    np.testing.assert_array_equal(compiled.rows(frame), codes)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # LightGBM's, of an array without names
        expected = original.predict(codes)
    np.testing.assert_array_equal(compiled.predict(codes), expected)
    exits = compiled.fit_early_exit(frame, alpha=0.0)
    rows = np.ascontiguousarray(compiled.rows(frame), np.float32)
    chosen = [exits.choose(row) for row in rows[:50]]
    np.testing.assert_array_equal(chosen, original.predict(frame[:50]))
    with pytest.raises(BadInput, match="a row of a data frame came"):
        exits.choose(frame.astype(object).iloc[0])


def test_texts_of_hist_boosting_are_in_no_array() -> None:
    original, frame = fitted("HistGradientBoosting", "texts")
    with pytest.raises(BadInput, match="column month had texts"):
        compile(original).predict(np.zeros((3, 2)))
    with pytest.raises(BadInput, match="has 1 columns, warmth; the model was fitted"):
        compile(original).predict(frame[["warmth"]])
    with pytest.raises(
        BadModel, match="column 'month' has categories that are neither"
    ):
        compile(fitted("HistGradientBoosting", "floats")[0])
    parts = frame_of(pandas.cut(MONTHS, 4))
    with pytest.raises(
        BadModel, match="column 'month' has categories that are neither"
    ):
        compile(HistGradientBoostingClassifier(max_iter=2).fit(parts, Y))
    several = frame.assign(day=frame["month"].astype(str).astype("category"), id=7)
    original = HistGradientBoostingClassifier(max_iter=9).fit(several, Y)
    other = several[["id", "day", "month", "warmth"]].assign(extra=0)
    np.testing.assert_array_equal(
        compile(original).predict(other), original.predict(other)
    )


@pytest.mark.parametrize("name", ["LightGBM", "XGBoost", "forest"])
def test_columns_in_another_order_and_further_ones_are_refused(name: str) -> None:
    frame = pandas.DataFrame({"a": WARMTH, "b": MONTHS * 1.0, "c": WARMTH})
    models = {**CLASSIFIERS, "forest": RandomForestClassifier(5, random_state=0)}
    compiled = compile(models[name].fit(frame, Y))
    for other in (
        frame[["b", "a", "c"]],
        frame.assign(d=1),
        frame[["a", "b"]],
        polars.from_pandas(frame[["b", "a", "c"]]),
        pyarrow.Table.from_pandas(frame[["b", "a", "c"]]),
    ):
        with pytest.raises(BadInput, match=r"fitted on 3: a, b, c, in this order"):
            compiled.predict(other)
    np.testing.assert_array_equal(
        compiled.predict(frame.to_numpy()), models[name].predict(frame)
    )


@pytest.mark.parametrize("name", ["LightGBM", "forest"])
def test_what_was_fitted_on_an_array_takes_frames_by_position(name: str) -> None:
    models = {**CLASSIFIERS, "forest": RandomForestClassifier(5, random_state=0)}
    rows = np.column_stack([WARMTH, MONTHS])
    original = models[name].fit(rows, Y)
    for frame in (
        pandas.DataFrame(rows, columns=["a", "b"]),
        pandas.DataFrame(rows),
        polars.DataFrame(rows, schema=["a", "b"]),
        pyarrow.table({"a": WARMTH, "b": MONTHS}),
    ):
        np.testing.assert_array_equal(
            compile(original).predict(frame), original.predict(rows)
        )
    with pytest.raises(BadInput, match="has 3 columns, a, b, c; the model was fitted"):
        compile(original).predict(pandas.DataFrame(np.ones((2, 3)), columns=[*"abc"]))


def test_scikit_learn_reads_categories_by_their_values() -> None:
    frame = frame_of(CELLS["negative"])
    forest = RandomForestClassifier(9, random_state=0).fit(frame, Y)
    scaled: Pipeline = make_pipeline(StandardScaler(), LIGHTGBM).fit(frame, Y)
    for original in (forest, scaled):
        np.testing.assert_array_equal(
            compile(original).predict(frame), original.predict(frame)
        )


def test_categories_that_no_file_holds_are_refused_in_a_sentence() -> None:
    days = pandas.Timestamp("2024-01-01") + pandas.to_timedelta(MONTHS, unit="D")
    rows = lightgbm.Dataset(frame_of(days), Y)
    terms = {"objective": "binary", "verbose": -1}
    original = lightgbm.train(terms, rows, 3, keep_training_booster=True)
    with pytest.raises(
        BadModel, match=r"cannot write this model as a text: .*fit it on"
    ):
        compile(original)


def test_categories_that_xgboost_has_cut_are_refused_where_they_are_not_sure() -> None:
    original, frame = fitted("XGBoost", "words beyond ASCII")
    compiled = compile(original)
    few = frame[:3].copy()
    few["month"] = few["month"].cat.remove_unused_categories()
    for given in (few, frame.astype({"month": str})):
        with pytest.raises(
            BadInput, match="only parts of the categories of column 'mo"
        ):
            compiled.predict(given)
    letters = frame_of(np.array([*"äßü€éñøλжאبक"], object)[MONTHS - 1])
    with pytest.raises(BadInput, match="only parts of the categories of column 'mo"):
        compile(XGBOOST.fit(letters, Y)).predict(letters)


def test_float32_frames_stay_float32() -> None:
    original, frame = fitted("LightGBM", "texts")
    small = frame.astype({"warmth": np.float32})
    rows: NDArray[Any] = compile(original).rows(small)
    assert rows.dtype == np.float32
    np.testing.assert_array_equal(
        compile(original).predict(small), original.predict(small)
    )


def test_nothing_takes_categories_without_the_model_that_has_their_codes() -> None:
    original, frame = fitted("LightGBM", "ints")
    with pytest.raises(
        BadInput, match=r"categories in column 'month': .*rows\(frame\)"
    ):
        swap_columns(frame)
    compiled = compile(original)
    more = swap_columns(compiled.rows(frame), copies=1)
    exits = compiled.fit_early_exit(more, alpha=0.0)
    np.testing.assert_array_equal(exits.predict(frame), original.predict(frame))
    forgetful = load_model(
        compiled.classifier.kind, compiled.classifier.arrays(), width=2
    )
    with pytest.raises(BadInput, match="categories in column 'month'"):
        forgetful.predict(frame)
