"""Ensembles of every kind stop early behind HTTP: QWYC's lattices, forests, boosting.

Each model is fitted, given a schedule, put into an index, saved, and asked through a
real server, which serves them all.
"""

import http.client
import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.ensemble import (
    GradientBoostingClassifier,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
)
from sklearn.linear_model import LogisticRegression

from polydom.indexer.index.index import Index
from polydom.models import LatticeEnsembleClassifier, compile
from polydom.models.early_exit.early_exits import EarlyExit, MarginExit
from polydom.models.scoring.prior import Prior
from tests.support.indexes.stopping_records import (
    LABELS,
    draw_rows,
    label_rows,
    make_index,
    record_of,
)
from tests.support.models.boosters import lightgbm, xgboost
from tests.support.processes.servers import serving

ALPHA = 0.02
TRAIN, FIT, ASKED = draw_rows(500, 0), draw_rows(1500, 1), draw_rows(40, 2)


def boosted(library: Any, name: str) -> Callable[[], Any]:
    return lambda: getattr(library, name)(n_estimators=40, max_depth=3, n_jobs=1)


LEARNERS: dict[str, tuple[Callable[[], Any], int]] = {
    "joint lattices": (
        lambda: LatticeEnsembleClassifier(
            n_lattices=12, inputs_per_lattice=4, epochs=3, random_state=0
        ),
        2,
    ),
    "forest": (lambda: RandomForestClassifier(40, max_depth=6, random_state=0), 2),
    "forest of 3": (lambda: RandomForestClassifier(40, max_depth=6, random_state=0), 3),
    "boosting": (lambda: GradientBoostingClassifier(n_estimators=40), 2),
    "hist_boosting of 3": (lambda: HistGradientBoostingClassifier(max_iter=20), 3),
    "logistic": (lambda: LogisticRegression(C=10.0), 2),
    "logistic of 3": (lambda: LogisticRegression(C=10.0), 3),
    "lightgbm": (boosted(lightgbm, "LGBMClassifier"), 2),
    "xgboost of 3": (boosted(xgboost, "XGBClassifier"), 3),
}

Evaluators = dict[str, EarlyExit | MarginExit]


def index_of(name: str) -> tuple[Index, EarlyExit | MarginExit]:
    learner, classes = LEARNERS[name]
    codes = label_rows(TRAIN, classes)
    ensemble = compile(learner().fit(TRAIN.astype(np.float64), codes))
    exits = ensemble.fit_early_exit(FIT, alpha=ALPHA)
    like = make_index(classes)
    package = like.package
    assert package is not None
    models = (Prior.fit(codes), package.models[1], ensemble.classifier)
    package = replace(
        package,
        models=models,
        early_exits=(None, None, exits),
        whole_s=np.where([False, False, True], package.whole_s, package.model_s),
        mean_s=np.where([False, False, True], package.mean_s, package.model_s),
    )
    return replace(like, package=package), exits


@pytest.fixture(scope="module")
def served(
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[tuple[int, Evaluators]]:
    folder: Path = tmp_path_factory.mktemp("ensembles")
    evaluators: Evaluators = {}
    for name in LEARNERS:
        index, evaluators[name] = index_of(name)
        index.save(folder / f"{name.replace(' ', '-')}.pdx")
    paths = sorted(map(str, folder.glob("*.pdx")))
    with serving(paths[0], *paths[1:]) as (_, port):
        yield port, evaluators


def ask(port: int, name: str, query: str) -> list[dict[str, Any]]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    path = f"/v1/predict?budget_ms=900&model={name.replace(' ', '-')}{query}"
    found = []
    for row in ASKED:
        body = json.dumps({"record": record_of(row)})
        connection.request("POST", path, body, {"Content-Type": "application/json"})
        reply = connection.getresponse()
        assert reply.status == 200
        found.append(json.loads(reply.read()))
    connection.close()
    return found


@pytest.mark.parametrize("name", LEARNERS)
def test_an_ensemble_stops_early_behind_http(
    served: tuple[int, Evaluators], name: str
) -> None:
    port, evaluators = served
    exits = evaluators[name]
    names = LABELS[len(exits.classifier.classes)]
    codes, used = exits.choices(ASKED)
    assert used.min() < exits.size
    own = exits.classifier.predict_scores(ASKED)
    whole = ask(port, name, "&exact=true")
    for answer, scores in zip(whole, own, strict=True):
        assert [*answer["scores"].values()] == pytest.approx(scores.tolist())
        assert "base_models" not in answer
        assert answer["reason"] is None
    for place, (early, exact, code, count, scores) in enumerate(
        zip(ask(port, name, ""), whole, codes, used, own, strict=True)
    ):
        assert early["label"] == names[exits.classifier.classes[code]]
        assert (early["base_models_used"], early["base_models"]) == (count, exits.size)
        if count == exits.size:
            assert early["label"] == exact["label"]
            assert early["scores"] == pytest.approx(exact["scores"])
            assert "early" not in early
            continue
        assert early["early"] is True
        assert early["reason"] == "sure"
        own_scores = exits.answer(ASKED[place]).scores
        assert [*early["scores"].values()] == pytest.approx(own_scores)
        if "logistic" in name:
            assert "score_bounds" not in early
            continue
        for label, score in zip(names, scores, strict=True):
            low, high = early["score_bounds"][label]
            assert low <= score <= high
