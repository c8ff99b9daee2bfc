"""The classifier that is an index, as scikit-learn and its users call it."""

import copy
import io
import json
import pickle
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from numpy.typing import NDArray
from sklearn import config_context
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import make_column_transformer
from sklearn.ensemble import AdaBoostClassifier, StackingClassifier
from sklearn.inspection import partial_dependence, permutation_importance
from sklearn.metrics import f1_score, make_scorer
from sklearn.model_selection import (
    FixedThresholdClassifier,
    GridSearchCV,
    GroupKFold,
    TunedThresholdClassifierCV,
    cross_val_score,
    learning_curve,
)
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

import polydom
from polydom.features.errors import BadInput, NothingFits
from polydom.indexer import BudgetClassifier, Index, build
from polydom.indexer.building.project import Project
from polydom.server.cli.asking.predict import answer_files
from polydom.server.runtime.warm_up import open_translator
from polydom.server.schema.wire import Answer, Terms
from tests.support.builds import projects

ROWS = 400
# Of scikit-learn's checks, what cannot apply, and why.
UNSUITED = {
    # a frame's columns are 0 and 1, an array's x0 and x1, so costs are measured anew,
    # and of sets that are as accurate the one measured to be cheaper is kept
    "check_classifier_data_not_an_array": "measured costs decide",
    # an item that is there twice may be tested on once, one of weight 2 not; the same
    # is exempted where scikit-learn divides data, as in GridSearchCV
    "check_sample_weight_equivalence_on_dense_data": "a part is held out",
    "check_sample_weight_equivalence_on_sparse_data": "a part is held out",
}


TERMS: dict[str, Any] = {"learner": "tree", "search_budget_s": 1.0}


def tree(**terms: Any) -> BudgetClassifier:
    return BudgetClassifier(**{**TERMS, **terms})


@pytest.fixture(scope="module", autouse=True)
def _kept(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keep what fits of the same items measure and train, for all tests here."""
    TERMS["cache"] = str(tmp_path_factory.mktemp("cache"))
    yield
    del TERMS["cache"]


# alpha is such that few sets are trained
@parametrize_with_checks(  # type: ignore[untyped-decorator]
    [tree(alpha=100.0, search_budget_s=0.3, cache="to be a folder")],
)
def test_scikit_learns_checks_pass(estimator: Any, check: Any) -> None:
    name = check.func.__name__
    if name in UNSUITED:
        pytest.skip(UNSUITED[name])
    if name == "check_class_weight_classifiers":
        # the check sets this where it can, as whole trees fit each lonely item,
        # whatever its weight
        estimator.set_params(learner={"name": "tree", "min_weight_fraction_leaf": 0.01})
    check(estimator.set_params(cache=TERMS["cache"]))


def people() -> tuple[pd.DataFrame, NDArray[Any]]:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "score": rng.normal(size=ROWS).round(4),
            "visits": rng.integers(0, 9, ROWS),
            "town": rng.choice(["Rome", "Oslo"], ROWS),
            "since": pd.date_range("2020-01-01", periods=ROWS),
        }
    )
    frame.loc[::7, "score"] = np.nan
    return frame, np.where((frame.score > 0) ^ (frame.town == "Rome"), "yes", "no")


@pytest.fixture(scope="module")
def fitted() -> BudgetClassifier:
    """A classifier of `people`, which tests ask and do not change."""
    return tree().fit(*people())


FORMS: dict[str, Callable[[pd.DataFrame], Any]] = {
    "pandas": lambda frame: frame,
    "polars": pl.from_pandas,
    "arrow": lambda frame: pa.Table.from_pandas(frame, preserve_index=False),
    "categories": lambda frame: frame.assign(town=frame.town.astype("category")),
    "mappings": lambda frame: json.loads(
        frame.to_json(orient="records", date_format="iso")
    ),
}


@pytest.mark.parametrize("form", FORMS)
def test_tables_of_every_kind_are_one(form: str) -> None:
    frame, y = people()
    X = FORMS[form](frame)
    model = tree().fit(X, y)
    assert model.score(X, y) > 0.95
    assert set(model.plan()["features"]) >= {"score", "town"}
    assert model.classes_.tolist() == ["no", "yes"]
    if form in ("pandas", "polars", "categories"):
        assert model.feature_names_in_.tolist() == list(frame.columns)
        with pytest.raises(ValueError, match="feature names"):
            model.predict(X[["town", "score", "visits", "since"]])


def test_budgets_buy_what_the_index_says(fitted: BudgetClassifier) -> None:
    frame, y = people()
    prices = {"score": {"usd": 3.0}, "town": {"usd": 1.5}}
    model = tree(costs=prices).fit(frame, y)
    assert model.plan(budget=4.5)["cost"] == 4.5
    assert model.plan(budget=4.5)["unit"] == "usd"
    assert next(one["cost"] for one in model.skyline_) == 0
    assert model.score(frame, y) > 0.95
    some = model.predict(frame, budget=4.4)
    assert (some == y).mean() < 0.7
    # what nothing fits for is the commonest class
    values, counts = np.unique(y, return_counts=True)
    assert set(model.predict(frame, budget=0.0)) == {values[counts.argmax()]}
    with pytest.raises(BadInput, match="costs are in usd: give budget"):
        model.predict(frame, budget_ms=5)
    with pytest.raises(BadInput, match="costs are seconds: give budget_ms"):
        fitted.predict(frame, budget=5)
    with pytest.raises(NothingFits):
        fitted.plan(budget_ms=0)
    with pytest.raises(BadInput, match="one of them is needed"):
        fitted.plan(budget_ms=1, budget=1)


def test_texts_of_one_length_have_one_plan_and_of_many_many(tmp_path: Path) -> None:
    folder = projects.texts(tmp_path)
    lines = list(map(json.loads, (folder / "mails.jsonl").read_text().splitlines()))
    texts, y = [one["text"] for one in lines], [one["label"] for one in lines]
    model = BudgetClassifier(
        ["casing", "hashed_words"], learner="logistic", search_budget_s=1
    ).fit(texts, y)
    assert model.score(texts, y) > 0.95
    low, high = model.index_.sizes
    short = model.plan(size=low, budget_ms=1000)
    assert short["cost"] <= model.plan(size=high, budget_ms=1000)["cost"]
    for amount in (-1, float("nan")):
        with pytest.raises(BadInput, match=f"^budget_ms is {amount!r}; it must be"):
            model.predict(texts, budget_ms=amount)
    between_ms = (short["cost"] + model.plan(size=high)["cost"]) / 2
    answers = model.predict(texts, budget_ms=between_ms)
    for text, answer in zip(texts, answers, strict=True):
        best = model.index_.best(float(len(text)), between_ms * 1e-3)
        alone = model.predict([text], budget_ms=between_ms)
        assert alone == answer
        if best.row == 0:
            assert answer == model.predict(["x"], budget_ms=0)[0]


def test_images_are_bytes_or_paths(tmp_path: Path) -> None:
    from PIL import Image

    rng = np.random.default_rng(0)
    paths, y = [], np.arange(40) % 2
    for number, dark in enumerate(y):
        pixels = rng.integers(0, 90, (24, 24)) + 120 * (1 - dark)
        paths.append(tmp_path / f"{number}.png")
        Image.fromarray(pixels.astype(np.uint8)).save(paths[-1])
    made = [path.read_bytes() for path in paths]
    model = BudgetClassifier(["moments"], learner="tree", search_budget_s=1)
    model.fit(made, y)
    assert model.score(made, y) == 1
    assert (model.predict(paths) == y).all()
    model.kind = "image"
    assert (model.predict([str(path) for path in paths]) == y).all()
    with pytest.raises(BadInput, match=r"item 0: .*lost\.png: No such file"):
        model.predict([tmp_path / "lost.png"])
    model.kind = None
    with pytest.raises(BadInput, match="text items came; image items were fitted"):
        model.predict(["a text"])


def test_a_saved_index_answers_as_the_estimator(
    fitted: BudgetClassifier, tmp_path: Path
) -> None:
    frame, _ = people()
    fitted.save(tmp_path / "my.pdx")
    expected = fitted.predict(frame[:9])
    opened = open_translator(tmp_path / "my.pdx", [])
    for row, record in enumerate(FORMS["mappings"](frame[:9])):
        file = tmp_path / f"{row}.json"
        file.write_text(json.dumps(record))
        ((_, answer),) = answer_files(opened, [file], Terms())
        assert isinstance(answer, Answer)
        assert answer.label == expected[row]


def test_the_same_data_and_times_give_the_same_bytes_as_the_command(
    tmp_path: Path,
) -> None:
    frame, y = people()
    buffer = io.StringIO()
    frame.assign(label=y).to_csv(buffer, index=False)
    (tmp_path / "people.csv").write_text(buffer.getvalue())
    project = Project.from_mapping(
        {
            "data": {"table": "people.csv"},
            "learner": "tree",
            "search": {"budget_s": 1.0},
            "workers": 1,
        },
        folder=tmp_path,
    )
    cache = tmp_path / "cache"
    build(project, output=tmp_path / "command.pdx", cache=cache)
    model = tree(cache=cache).fit(frame, y)
    model.save(tmp_path / "python.pdx")
    ours, theirs = ((tmp_path / f"{n}.pdx").read_bytes() for n in ("python", "command"))
    assert ours == theirs


def test_it_works_where_estimators_do(fitted: BudgetClassifier) -> None:
    frame, y = people()
    known = frame[["score", "town"]]  # each part has its own dates
    assert cross_val_score(tree(), known, y, cv=2).mean() > 0.9
    assert (
        fitted.predict_proba(frame).argmax(axis=1) == (fitted.predict(frame) == "yes")
    ).all()


def test_it_is_kept_and_copied(tmp_path: Path) -> None:
    frame, y = people()
    model = tree(costs={"score": 2.0}, cache=None).fit(frame, y)
    expected = model.predict(frame)
    joblib.dump(model, tmp_path / "model.joblib")
    for again in (
        pickle.loads(pickle.dumps(model)),
        joblib.load(tmp_path / "model.joblib"),
        joblib.load(tmp_path / "model.joblib", mmap_mode="r"),
        copy.deepcopy(model),
        clone(model).fit(frame, y),
    ):
        assert (again.predict(frame) == expected).all()
        assert again.get_params() == model.get_params()
    assert repr(model) == (
        "BudgetClassifier(costs={'score': 2.0}, learner='tree', search_budget_s=1.0)"
    )
    assert "BudgetClassifier" in model._repr_html_()


@pytest.mark.parametrize("learner", ["tree", "linear_svm"])
def test_scikit_learns_tools_take_it(learner: str) -> None:
    X = np.random.default_rng(0).normal(size=(100, 2))
    y = np.where(X[:, 0] + 0.2 * X[:, 1] > 0.1, "yes", "no")
    model = tree(learner=learner, search_budget_s=0.05)
    # tools look before they fit
    assert hasattr(model, "predict_proba") is (learner == "tree")
    assert hasattr(model, "decision_function") is (learner == "linear_svm")
    scored = make_scorer(f1_score, pos_label="yes")
    tools = [
        CalibratedClassifierCV(model, cv=2),
        TunedThresholdClassifierCV(model, cv=2, scoring=scored),
        OneVsRestClassifier(model),
    ]
    if learner == "tree":
        fixed = FixedThresholdClassifier(model, threshold=0.4, pos_label="yes")
        tools.append(fixed)
    for tool in tools:
        assert tool.fit(X, y).score(X, y) > 0.8, tool
    divided: dict[str, Any] = {"cv": GroupKFold(2), "groups": np.arange(100) // 4}
    assert cross_val_score(model, X, y, scoring="roc_auc", **divided).mean() > 0.8


@pytest.mark.parametrize("of", [list, pd.Series, pl.Series, pa.array])
def test_scikit_learns_tools_take_texts(of: Callable[[Any], Any]) -> None:
    X = of(["AA bb"] * 20 + ["aa bb"] * 20)
    y = np.arange(40) < 20
    model = tree(features=["casing"], search_budget_s=0.05)
    if of in (list, pa.array):
        assert CalibratedClassifierCV(model, cv=2).fit(X, y).score(X, y) == 1
    else:
        assert cross_val_score(model, X, y, cv=2).mean() == 1


def test_tools_that_explain_it_get_its_answers() -> None:
    X = people()[0][["visits", "score"]].fillna(0.0)
    y = X["score"] > 0
    model = tree().fit(X, y)
    for asked in (X, X.to_numpy()):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            found = permutation_importance(model, asked, y, n_repeats=2, random_state=0)
        assert found.importances_mean[0] == 0
        assert found.importances_mean[1] > 0.3
    curve = partial_dependence(model, X, ["score"], grid_resolution=5)["average"][0]
    assert curve[0] == 0
    assert curve[-1] == 1
    _, _, scores = learning_curve(tree(), X, y, cv=2, train_sizes=[0.5])
    assert scores.mean() > 0.9


@pytest.mark.parametrize("output", ["default", "pandas", "polars"])
def test_it_is_the_end_of_pipelines(output: str) -> None:
    frame, y = people()
    columns = make_column_transformer(
        (OneHotEncoder(sparse_output=output == "default"), ["town"]),
        (StandardScaler(), ["score", "visits"]),
        sparse_threshold=1.0,
    )
    if output == "polars":  # which a ColumnTransformer makes since scikit-learn 1.7
        frame = frame[["score", "visits"]]
        columns, y = StandardScaler(), np.where(frame["score"] > 0, "yes", "no")
    chain = make_pipeline(columns, tree()).set_output(transform=output)
    assert chain.fit(frame, y).score(frame, y) > 0.9
    assert len(set(chain.predict(frame, budget_ms=0))) == 1


def test_weights_and_groups_are_routed() -> None:
    frame, y = people()
    weights = np.where(y == "yes", 9.0, 1.0)
    noise = frame[["visits"]]
    with config_context(enable_metadata_routing=True):
        model = tree().set_fit_request(sample_weight=True, groups=True)
        chain = make_pipeline(FunctionTransformer(), model)
        chain.fit(noise, y, sample_weight=weights, groups=np.arange(ROWS))
        assert (chain.predict(noise) == "yes").all()
        scored = model.set_score_request(sample_weight=True)
        found = cross_val_score(
            scored, noise, y, cv=2, params={"sample_weight": weights}
        )
        assert found.mean() > 0.8
    boosted = AdaBoostClassifier(tree(), n_estimators=2)
    assert boosted.fit(noise, y).score(noise, y) > 0.4
    calibrated = CalibratedClassifierCV(tree(), cv=2)
    calibrated.fit(noise, y, sample_weight=weights)
    assert calibrated.predict_proba(noise)[:, 1].mean() > 0.7


def test_margins_are_those_of_the_learner() -> None:
    X = np.random.default_rng(0).normal(size=(200, 2))
    for y in (X[:, 0] > 0, np.digitize(X[:, 0], [-0.5, 0.5]) * 5 + 1):
        model = tree(learner="linear_svm").fit(X, y)
        margins = model.decision_function(X)
        count = len(model.classes_)
        assert margins.shape == ((200,) if count == 2 else (200, count))
        chosen = margins > 0 if count == 2 else margins.argmax(axis=1)
        assert (model.classes_[chosen.astype(int)] == model.predict(X)).all()
        nothing = model.decision_function(X, budget_ms=0)
        chosen = nothing > 0 if count == 2 else nothing.argmax(axis=1)
        assert (
            model.classes_[chosen.astype(int)] == model.predict(X, budget_ms=0)
        ).all()


@pytest.mark.parametrize("learner", ["lda", "naive_bayes"])
def test_the_label_has_the_largest_probability(learner: str) -> None:
    rng = np.random.default_rng(0)
    y = rng.random(500) < 0.3
    X = np.exp(rng.normal(size=500) + y)[:, None] + rng.normal(size=(500, 3))
    model = tree(learner=learner).fit(X, y)  # far from normal, and near to each other
    proba = model.predict_proba(X)
    assert ((proba[:, 1] > 0.5) == model.predict(X)).all()
    assert 10 < model.predict(X).sum() < 490


def test_dates_are_classes_by_their_names() -> None:
    frame, _ = people()
    y = np.where(frame["visits"] > 4, "2024-01-01", "2025-06-30").astype("M8[D]")
    model = tree().fit(frame[["visits"]], y)
    assert (model.predict(frame[["visits"]]) == y).all()
    assert model.index_.package is not None
    assert model.index_.package.labels == ("2024-01-01", "2025-06-30")


def test_probabilities_are_there_where_models_have_some() -> None:
    frame, y = people()
    X = frame[["score", "visits"]].fillna(0)
    assert hasattr(tree().fit(X, y), "predict_proba")
    margins = tree(learner="linear_svm")
    assert (
        hasattr(margins, "predict_proba"),
        hasattr(margins, "decision_function"),
    ) == (
        False,
        True,
    )
    assert hasattr(margins.fit(X, y), "decision_function")
    assert set(margins.predict(X)) <= {"yes", "no"}


def test_what_a_tool_finds_before_a_fit_is_there_after_it() -> None:
    """Stacking chooses between probabilities and margins before it fits."""
    frame, y = people()
    X = frame[["score", "visits"]].fillna(0)
    parts = [("svm", tree(learner="linear_svm")), ("tree", tree())]
    stacked = StackingClassifier(parts, cv=2).fit(X, y)
    assert stacked.stack_method_ == ["decision_function", "predict_proba"]
    assert stacked.transform(X).shape == (ROWS, 2)


SHAKY = """\
from polydom import feature

@feature(kind="text", fails="without")
def shaky(text):
    if "down" in text:
        raise LookupError("down")
    return [text.count("!")]

@feature(kind="text")
def half(text):
    return [text.count("?")]
"""


def test_items_on_which_a_feature_fails_are_answered_without_it(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(SHAKY)
    texts = [f"{n} {'!' * (n % 2)} {'?' * (n % 2 and n % 3 == 0)}" for n in range(120)]
    model = tree(features=[tmp_path / "mine.py"]).fit(texts, np.arange(120) % 2)
    assert model.predict(["a !", "a ?", "a ! down", "a ? down"]).tolist() == [
        1,
        0,
        0,
        1,
    ]
    proba = model.predict_proba(["a ! down", "a ! up"])
    assert proba.sum(axis=1) == pytest.approx(1)


def test_a_search_judges_at_a_budget() -> None:
    frame, y = people()
    X = frame[["score", "town"]]
    search = GridSearchCV(tree(), {"budget_ms": [0.0, 50.0]}, cv=2).fit(X, y)
    nothing, enough = search.cv_results_["mean_test_score"]
    assert nothing == pytest.approx(
        max((y == "yes").mean(), (y == "no").mean()), abs=0.02
    )
    assert enough > nothing + 0.05
    assert search.best_params_ == {"budget_ms": 50.0}


@pytest.mark.parametrize("weight", [{"yes": 9.0}, {"yes": 9.0, "no": 1}, "balanced"])
def test_a_class_of_much_weight_is_answered_more_often(weight: Any) -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 1))
    y = np.where(X[:, 0] + rng.normal(size=400) > 1.8, "yes", "no")
    found = [
        tree(learner="logistic", class_weight=one).fit(X, y).predict(X) == "yes"
        for one in (None, weight)
    ]
    assert found[1].mean() > found[0].mean() + 0.1


def test_weights_of_classes_are_named_as_in_y() -> None:
    X, y = np.random.default_rng(0).normal(size=(40, 1)), np.arange(40) % 2 * 1.0
    for weight in ({1: 2.0}, {True: 2, 0.0: 1}, "balanced"):
        assert tree(class_weight=weight).fit(X, y).classes_.tolist() == [0.0, 1.0]
    with pytest.raises(BadInput, match="class_weight has the class 'no', which is not"):
        tree(class_weight={"no": 1.0}).fit(X, y)
    with pytest.raises(BadInput, match="LinearDiscriminantAnalysis takes none"):
        tree(class_weight={1: 2.0}, learner="lda").fit(X, y)


def test_classes_keep_their_type_and_order() -> None:
    X = np.random.default_rng(0).normal(size=(300, 2))
    y = np.digitize(X[:, 0], [-0.5, 0.5]) * 5 + 1  # 1, 6, 11: as texts 1, 11, 6
    model = tree().fit(X, y)
    assert model.classes_.tolist() == [1, 6, 11]
    assert model.predict(X).dtype == y.dtype
    assert model.score(X, y) > 0.95
    assert (
        model.classes_[model.predict_proba(X).argmax(axis=1)] == model.predict(X)
    ).all()


def test_groups_are_never_split() -> None:
    rng = np.random.default_rng(0)
    X = np.repeat(rng.normal(size=(60, 3)), 5, axis=0)
    y = np.repeat(rng.integers(0, 2, 60), 5)  # nothing but the group tells
    alone = tree(alpha=1.0).fit(X, y)
    grouped = tree(alpha=1.0).fit(X, y, groups=np.repeat(np.arange(60), 5))
    assert max(one["accuracy"] for one in alone.skyline_) > 0.9
    assert max(one["accuracy"] for one in grouped.skyline_) < 0.75


def test_many_columns_are_put_together() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 100))
    y = X[:, 70] > 0
    model = tree().fit(X, y)
    assert model.score(X, y) > 0.95
    assert len(model.cost_curves_) < 62


@pytest.mark.parametrize(
    ("terms", "message"),
    [
        ({"learner": "tre"}, "did you mean 'tree'"),
        ({"features": ["hog"]}, "'hog' is for image items"),
        ({"costs": {"tow": 3}}, "costs names 'tow', which is no column of X"),
        ({"alpha": 0.5}, "'alpha' parameter"),
        ({"search_budget_s": 0}, "'search_budget_s' parameter"),
    ],
)
def test_what_is_wrong_is_said(terms: dict[str, Any], message: str) -> None:
    frame, y = people()
    with pytest.raises(ValueError, match=message):
        tree(**terms).fit(frame, y)


def test_data_that_cannot_be_used_are_refused() -> None:
    _, y = people()
    for X in ("a text", 3, {"a": 1}, None):
        with pytest.raises(ValueError, match=r"came|Expected"):
            tree().fit(X, y)
    with pytest.raises(ValueError, match="mixes"):
        tree().fit(["a", {"b": 1}], [0, 1])
    twice = pa.table([pa.array([1, 2]), pa.array([1, 2])], names=["a", "a"])
    with pytest.raises(ValueError, match=r"unique column names|2 columns called"):
        tree().fit(twice, [0, 1])
    odd = pd.DataFrame({"a": [1, "x", 3.5] * 10, "b": range(30)})
    with pytest.raises(ValueError, match="holds strings and, in row 0, int"):
        tree().fit(odd, np.arange(30) % 2)


def test_the_package_leads_to_it() -> None:
    assert polydom.BudgetClassifier is BudgetClassifier
    assert polydom.Index is Index
    assert polydom.__version__
    assert set(dir(polydom)) >= {"build", "feature", "Client", "compile"}
    for name in dir(polydom):
        assert getattr(polydom, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = polydom.nothing


def test_another_measure_is_what_is_bought(fitted: BudgetClassifier) -> None:
    frame, y = people()
    model = tree(measure="balanced_accuracy").fit(frame, y)
    package = model.index_.package
    assert package is not None
    assert package.measure == "balanced_accuracy"
    assert len(package.accuracies) == len(model.index_.qualities)
    labels = model.classes_.tolist()
    costs = {labels[0]: {labels[1]: 50.0}}
    careful = tree(measure="cost", confusion_costs=costs).fit(frame, y)
    first = y == labels[0]
    lost, before = (
        np.sum(m.predict(frame)[first] != labels[0]) for m in (careful, fitted)
    )
    assert lost <= before
    with pytest.raises(ValueError, match="no class 'nobody'"):
        tree(measure="cost", confusion_costs={"nobody": {}}).fit(frame, y)
    with pytest.raises(ValueError, match="measure = 'cost' needs costs"):
        tree(measure="cost").fit(frame, y)
    with pytest.raises(ValueError, match="'measure' parameter"):
        tree(measure="r2").fit(frame, y)
