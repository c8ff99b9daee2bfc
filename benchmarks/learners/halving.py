"""Successive Halving and six rivals on its paper's three experiments (SH, section 5).

An arm is a setting of a learner trained by stochastic gradient, a pull some of its
steps. Budgets double; every run starts anew, as the paper's do. Shown: test loss of the
named arm after the run, CPU seconds of the run, losses observed; means over trials.
The kernel SVM is Pegasos on even against odd digits, rows scaled to length 1, and
ratings are generated at rank 8 with noise 0.3.
"""

import statistics
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from polydom.features.threads import one_thread
from polydom.models.selection.race import Race, TrainingOutcome
from polydom.models.selection.successive_halving import successive_halving, uniform

from ..data.bundled import load_digit_rows
from ..figures import figure_at
from ..places import data_folder
from .bandits import exp3, lil_ucb, lucb, successive_elimination, successive_rejects
from .learning_sets import mnist

Floats = NDArray[np.float64]
Parts = tuple[tuple[Floats, Floats], ...]  # train, valid, test

SVM_ROWS, QUICK_ROWS = 10_000, 120

RIVALS: dict[str, Callable[..., str]] = {
    "uniform": uniform,
    "halving": successive_halving,
    "rejects": successive_rejects,
    "elimination": successive_elimination,
    "lucb": lucb,
    "lil-ucb": lil_ucb,
    "exp3": exp3,
}


@dataclass(eq=False)
class Gradient:
    """An arm: `step` changes `state` once per pull, `loss` judges it on some rows."""

    parts: Parts
    state: Any
    step: Callable[[Any, Floats, Floats, int], None]
    loss: Callable[[Any, Floats, Floats], float]
    had: int = field(default=0, init=False)

    def __call__(self, amount: int) -> TrainingOutcome:
        start = time.process_time()
        for pull in range(self.had, amount):
            self.step(self.state, *self.parts[0], pull)
        self.had = amount
        fitted = time.process_time()
        loss = min(self.loss(self.state, *self.parts[1]), 1e6)
        return TrainingOutcome(
            1 - loss, None, fitted - start, time.process_time() - fitted
        )

    def test_loss(self) -> float:
        return self.loss(self.state, *self.parts[2])


def divide(X: Floats, y: Floats, rng: np.random.Generator) -> Parts:
    """90 % against 10 % for the test, then 80 % against 20 % to validate."""
    order = rng.permutation(len(y))
    rows = np.split(order, [int(0.72 * len(y)), int(0.9 * len(y))])
    return tuple((X[part], y[part]) for part in rows)


def songs(quick: bool) -> tuple[Floats, Floats]:
    """Numbers of songs, and the years they are of; in short, patients with diabetes."""
    if quick:
        from sklearn.datasets import load_diabetes

        X, y = load_diabetes(return_X_y=True)
        return X, y
    path = data_folder() / "millionsong" / "millionsong.txt.gz"
    table = np.loadtxt(path, delimiter=",")
    return table[:, 1:], table[:, 0]


def ridge_arms(rng: np.random.Generator, quick: bool) -> dict[str, Gradient]:
    """Ridge by SGD, step .01 / sqrt(2 + t), 16 rows a pull; 10 penalties."""
    X, y = songs(quick)
    X, y = (X - X.mean(0)) / X.std(0), (y - y.mean()) / y.std()
    parts = divide(X, y, rng)

    def step(state: Any, X: Floats, y: Floats, pull: int) -> None:
        weights, penalty = state
        for k in range(16 * pull, 16 * pull + 16):
            x, rate = X[k % len(y)], 0.01 / np.sqrt(2 + k)
            slope = (x @ weights - y[k % len(y)]) * x + penalty * weights
            weights -= rate * slope

    def loss(state: Any, X: Floats, y: Floats) -> float:
        return float(np.mean((X @ state[0] - y) ** 2))

    return {
        f"{penalty:.1e}": Gradient(parts, (np.zeros(X.shape[1]), penalty), step, loss)
        for penalty in 10 ** rng.uniform(-6, 0, 10)
    }


def svm_arms(rng: np.random.Generator, quick: bool) -> dict[str, Gradient]:
    """Kernel SVM by Pegasos, one row a step, 5 steps a pull; 10 x 10 settings."""
    X, digits = load_digit_rows() if quick else mnist(data_folder())
    some = rng.permutation(len(digits))[: QUICK_ROWS if quick else SVM_ROWS]
    X = X[some] / np.linalg.norm(X[some], axis=1, keepdims=True)
    parts = divide(X, np.where(digits[some] % 2, 1.0, -1.0), rng)
    order = rng.integers(0, len(parts[0][1]), 10**6)

    def decide(state: Any, X: Floats) -> Floats:
        counts, (penalty, width), steps = state["counts"], state["setting"], state["t"]
        rows = np.flatnonzero(counts)
        if not rows.size:
            return np.zeros(len(X))
        kernel = np.exp(-width * (2 - 2 * X @ parts[0][0][rows].T))
        votes: Floats = kernel @ (counts[rows] * parts[0][1][rows])
        decisions: Floats = votes / (penalty * max(steps, 1))
        return decisions

    def step(state: Any, X: Floats, y: Floats, pull: int) -> None:
        for k in range(5 * pull, 5 * pull + 5):
            row = order[k]
            state["t"] = k + 1
            if y[row] * decide(state, X[row : row + 1])[0] < 1:
                state["counts"][row] += 1

    def loss(state: Any, X: Floats, y: Floats) -> float:
        return float(np.mean(np.where(decide(state, X) > 0, 1.0, -1.0) != y))

    arms = {}
    for penalty in 10 ** rng.uniform(-6, 0, 10):
        for width in 10 ** rng.uniform(0, 3, 10):
            counts = np.zeros(len(parts[0][1]))
            state = {"counts": counts, "setting": (penalty, width), "t": 0}
            name = f"{penalty:.6e} {width:.6e}"
            arms[name] = Gradient(parts, state, step, loss)
    return arms


def ratings_arms(rng: np.random.Generator, quick: bool) -> dict[str, Gradient]:
    """Matrix completion by SGD, 500 ratings a pull; 4 ranks x penalties x starts."""
    users, films, count = (40, 30, 700) if quick else (400, 300, 20_000)
    true = rng.normal(size=(users, 8)) @ rng.normal(size=(8, films)) / np.sqrt(8)
    pairs = rng.permutation(users * films)[:count]
    X = np.stack([pairs // films, pairs % films], axis=1).astype(np.float64)
    y = true.reshape(-1)[pairs] + 0.3 * rng.normal(size=count)
    parts = divide(X, y, rng)

    def guess(state: Any, X: Floats) -> Floats:
        u, v = X[:, 0].astype(int), X[:, 1].astype(int)
        guessed: Floats = (state["U"][u] * state["V"][v]).sum(axis=1)
        return guessed

    def step(state: Any, X: Floats, y: Floats, pull: int) -> None:
        rows = (500 * pull + np.arange(500)) % len(y)
        u, v = X[rows, 0].astype(int), X[rows, 1].astype(int)
        error = (guess(state, X[rows]) - y[rows])[:, None]
        U, V, rate = state["U"], state["V"], 0.05
        U_step = error * V[v] + state["penalty"] * U[u]
        V_step = error * U[u] + state["penalty"] * V[v]
        np.add.at(U, u, -rate * U_step)
        np.add.at(V, v, -rate * V_step)

    def loss(state: Any, X: Floats, y: Floats) -> float:
        with np.errstate(over="ignore", invalid="ignore"):  # some settings diverge
            found = float(np.mean((guess(state, X) - y) ** 2))
        return found if np.isfinite(found) else 1e6

    arms = {}
    for rank in rng.integers(2, 51, 4):
        for penalty in 10 ** rng.uniform(-6, 0, 4):
            for spread in rng.uniform(0.01, 3, 4):
                scale = spread / np.sqrt(rank)
                state = {
                    "U": scale * rng.normal(size=(users, rank)),
                    "V": scale * rng.normal(size=(films, rank)),
                    "penalty": penalty,
                }
                name = f"{rank} {penalty:.1e} {spread:.2f}"
                arms[name] = Gradient(parts, state, step, loss)
    return arms


class Experiment(NamedTuple):
    """The arms, the pulls of the first budget, its doublings, trials and data."""

    arms: Callable[[np.random.Generator, bool], dict[str, Gradient]]
    least: int  # halving needs so many
    doublings: int
    trials: int
    folder: str | None


EXPERIMENTS = {
    "ridge": Experiment(ridge_arms, 100, 4, 4, "millionsong"),
    "svm": Experiment(svm_arms, 700, 3, 1, "mnist"),
    "ratings": Experiment(ratings_arms, 384, 4, 1, None),
}


def measure(
    name: str, rivals: Iterable[str], doublings: int | None, quick: bool
) -> list[dict[str, Any]]:
    """Run the rivals with every budget; means over the trials."""
    experiment = EXPERIMENTS[name]
    last = experiment.doublings if doublings is None else doublings
    if quick:
        last = 0
    rows = []
    for rival in rivals:
        for budget in (experiment.least << k for k in range(last + 1)):
            trials = range(1 if quick else experiment.trials)
            found = [_run(experiment, rival, budget, trial, quick) for trial in trials]
            means = map(statistics.fmean, zip(*found, strict=True))
            keys = ("test loss", "CPU s", "observed")
            row = {"rival": rival, "pulls": budget}
            rows.append(row | dict(zip(keys, means, strict=True)))
    return rows


def _run(
    experiment: Experiment, rival: str, budget: int, trial: int, quick: bool
) -> tuple[float, float, int]:
    """Test loss, CPU seconds, and losses observed."""
    with one_thread():
        arms = experiment.arms(np.random.default_rng(trial), quick)
        race = Race(arms, carries_on=True)
        start = time.process_time()
        chosen = RIVALS[rival](race, budget=budget)
        seconds = time.process_time() - start
        return arms[chosen].test_loss(), seconds, len(race.log)


def plot(rows: list[dict[str, Any]], title: str, path: Path) -> None:
    """Draw test loss against pulls and against seconds (SH, figures 4 to 6).

    On log scales; rivals differ in marker too, as some lie on top of each other.
    """
    from matplotlib.ticker import LogLocator, NullFormatter

    with figure_at(path, 1, 2, figsize=(12, 5), sharey=True) as (figure, axes):
        for axis, against in zip(axes, ("pulls", "CPU s"), strict=True):
            rivals = dict.fromkeys(row["rival"] for row in rows)
            for rival, marker in zip(rivals, "osv^D*X", strict=False):
                mine = [row for row in rows if row["rival"] == rival]
                x, y = (
                    [row[against] for row in mine],
                    [row["test loss"] for row in mine],
                )
                thick = 2.5 if rival == "halving" else 1.2
                axis.plot(x, y, marker=marker, lw=thick, alpha=0.8, label=rival)
            axis.set(xscale="log", yscale="log", xlabel=against)
            for scale in (axis.xaxis, axis.yaxis):
                scale.set_major_locator(LogLocator(subs=(1, 2, 5)))
                scale.set_major_formatter("{x:g}")
                scale.set_minor_formatter(NullFormatter())
            axis.grid(alpha=0.3)
        axes[0].set(ylabel="test loss")
        axes[1].legend(loc="upper left", bbox_to_anchor=(1.02, 1))
        figure.suptitle(title)
