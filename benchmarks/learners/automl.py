"""Other libraries' ways to choose a learner: run for real, or their rules in a race.

Scikit-learn's HalvingGridSearchCV and FLAML run for real; Optuna's pruners, and
scikit-learn's rounds, choose in a race of recorded trainings.
"""

import math
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from polydom.models.selection.race import Race

Found = dict[str, Any]

FACTOR = 3  # of both halving rivals


def halving_grid(learners: Found, data: Found, seed: int) -> Found:
    """Scikit-learn's HalvingGridSearchCV on the same single split, without a refit.

    Its smaller rounds validate on as small a share of the validation rows.
    """
    from sklearn.dummy import DummyClassifier
    from sklearn.experimental import enable_halving_search_cv  # noqa: F401
    from sklearn.model_selection import HalvingGridSearchCV, PredefinedSplit
    from sklearn.pipeline import Pipeline

    X_valid, y_valid = data["validation"]
    X = np.concatenate([data["X"], X_valid])
    y = np.concatenate([data["y"], y_valid])
    fold = np.repeat([-1, 0], [len(data["y"]), len(y_valid)])
    search = HalvingGridSearchCV(
        Pipeline([("learner", DummyClassifier())]),
        {"learner": list(learners.values())},
        factor=FACTOR,
        cv=PredefinedSplit(fold),
        refit=False,
        random_state=seed,
        return_train_score=False,
    )
    start = time.process_time()
    search.fit(X, y)
    seconds = time.process_time() - start
    names = {id(learner): name for name, learner in learners.items()}
    return {
        "chosen": names[id(search.best_params_["learner"])],
        "seconds": seconds,
        "trainings": len(search.cv_results_["iter"]),
        "failed": {},
    }


def flaml_automl(data: Found, seed: int, budget_s: float) -> Found:
    """FLAML with its own learners on the same split, for so many CPU seconds.

    It counts wall seconds; where others use the processor too, it is asked again with
    as many more as it lacked.
    """
    import flaml.automl

    X_valid, y_valid = data["validation"]
    wall_s = budget_s
    for _ in range(3):
        search: Any = vars(flaml.automl)["AutoML"]()
        start = time.process_time()
        search.fit(
            data["X"],
            data["y"],
            X_val=X_valid,
            y_val=y_valid,
            task="classification",
            metric="accuracy",
            time_budget=wall_s,
            n_jobs=1,
            seed=seed,
            verbose=0,
        )
        seconds = time.process_time() - start
        if seconds > 0.8 * budget_s:
            break
        wall_s *= budget_s / seconds
    return {
        "chosen": str(search.best_estimator),
        "score": float(np.mean(search.predict(X_valid) == y_valid)),
        "seconds": seconds,
        "trainings": len(search.config_history),
        "failed": {},
    }


def halving_rule(race: Race) -> str:
    """HalvingGridSearchCV's rounds: the last on all rows, a third go on each time."""
    assert race.limit is not None
    arms = race.active
    rounds = 1 + math.floor(math.log(len(arms), FACTOR))
    for left in range(rounds - 1, -1, -1):
        race.train_all([(name, race.limit // FACTOR**left) for name in arms])
        arms = sorted((a for a in arms if a in race.active), key=race.loss)
        if left:
            arms = arms[: math.ceil(len(arms) / FACTOR)]
    return race.leader(arms)


def optuna_rule(race: Race, *, seed: int, pruner: str = "halving") -> str:
    """Optuna's pruners, a trial per learner in random order, on N / 27 ... N rows."""
    import optuna

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    limit, names = race.limit, list(race.arms)
    assert limit is not None
    pruners = optuna.pruners
    least, most = 1, FACTOR**3
    make: dict[str, Callable[[], Any]] = {
        "halving": lambda: pruners.SuccessiveHalvingPruner(least, FACTOR),
        "hyperband": lambda: pruners.HyperbandPruner(least, most, FACTOR),
    }

    def objective(trial: Any) -> float:
        name = trial.suggest_categorical("learner", names)
        score = -math.inf
        for left in (3, 2, 1, 0):
            line = race.train(name, limit // FACTOR**left)
            if line.score is None:
                raise optuna.TrialPruned
            score = line.score
            trial.report(score, FACTOR ** (3 - left))
            if left and trial.should_prune():
                raise optuna.TrialPruned
        return score

    study = optuna.create_study(
        study_name=f"race {seed}",  # Hyperband draws brackets by it
        direction="maximize",
        sampler=optuna.samplers.GridSampler({"learner": names}, seed=seed),
        pruner=make[pruner](),
    )
    study.optimize(objective, n_trials=len(names))
    return str(study.best_params["learner"])
