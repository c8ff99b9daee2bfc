"""Slow twins of the build of an index."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray


def divide_groups_slowly(
    codes: Sequence[int], groups: Sequence[int], parts: int, seed: int
) -> list[int]:
    """Largest group first, each where its classes' shares are least so far."""
    names = sorted(set(groups))
    shuffled = np.random.default_rng(seed).permutation(len(names))
    total = Counter(codes)
    part_of: dict[int, int] = {}
    for name in sorted((names[i] for i in shuffled), key=lambda n: -groups.count(n)):
        scores = []
        for part in range(parts):
            held = Counter(
                c for c, g in zip(codes, groups, strict=True) if part_of.get(g) == part
            )
            own = Counter(c for c, g in zip(codes, groups, strict=True) if g == name)
            grows = sum(
                1 / float(total[c]) ** 2 * own[c] * held[c] for c in sorted(own)
            )
            scores.append((grows, held.total(), part))
        part_of[name] = min(scores)[2]
    return [part_of[group] for group in groups]


def out_of_sample(
    X: NDArray[np.float32],
    y: Sequence[int],
    splits: Sequence[tuple[NDArray[np.int64], NDArray[np.int64]]],
) -> tuple[list[float], list[int]]:
    """Ask a logistic regression trained on each split's first rows about its others.

    Margins of the likeliest class over the next, and that class; without columns the
    shares of the classes are all there is.
    """
    from sklearn.dummy import DummyClassifier
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    margins, choices = [], []
    for train, test in splits:
        learner: Any = DummyClassifier()
        if X.shape[1]:
            learner = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000))
        learner.fit(X[train].astype(np.float64), [y[i] for i in train])
        for i in test:
            shares = learner.predict_proba(X[i : i + 1].astype(np.float64))[0].tolist()
            second, best = sorted(shares)[-2:]
            margins.append(best - second)
            choices.append(shares.index(best))
    return margins, choices


def luck_of_the_best(
    right: NDArray[np.bool_],
    groups: Sequence[int],
    weights: Sequence[float],
    draws: int,
    seed: int,
) -> list[float]:
    """Luck of the best of the first 1, 2 ... sets, counting item by item."""
    rng = np.random.default_rng([seed, 2])
    names = sorted(set(groups))
    even = np.full(len(names), 1 / len(names))
    observed = [
        sum(w for w, r in zip(weights, own, strict=True) if r) / sum(weights)
        for own in right
    ]
    lucks = []
    for count in (len(names), len(names) // 2):
        lucky = [0.0] * len(right)
        for times in rng.multinomial(count, even, size=draws):
            counts = [
                weight * int(times[names.index(group)])
                for weight, group in zip(weights, groups, strict=True)
            ]
            shares = [
                sum(c for c, r in zip(counts, own, strict=True) if r) / sum(counts)
                for own in right
            ]
            for last in range(len(right)):
                best = max(shares[: last + 1])
                # of sets that are as good the last, as the cheapest come first
                at = max(s for s in range(last + 1) if shares[s] == best)
                lucky[last] += (best - observed[at]) / draws
        lucks.append(lucky)
    found = []
    for whole, half in zip(*lucks, strict=True):
        ratio = 1.0 if whole <= 0 else min(max((half / whole / 2) ** 2, 2 / 3), 1.0)
        found.append(float(max(whole, 0.0) * np.sqrt(ratio / (2 * ratio - 1))))
    return found
