"""Promises about early exits: which shares of new decisions they may change."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from polydom.features.errors import BadInput

Floats = NDArray[np.float64]
# Classes, of two, that may be answered early: both, only the first, only the second
Sides = Literal["both", "negative", "positive"]

ALPHA = 0.005  # share of a class's decisions that may change, unless another is given
MOST_NAMED = 5  # a sentence lists no more than this number of classes
OTHERS = "*"  # in a table of shares by label: all classes that the table does not name


@dataclass(frozen=True, slots=True)
class Promise:
    """Proven upper bounds on the shares of new decisions that early exits change.

    There is one bound for each of K >= 2 classes. Of the new rows that the whole
    ensemble decides as class k, early exits change at most the share `bounds[k]`. All K
    bounds hold together with the given confidence. A bound of 0 is certain: no early
    exit could change such a row, or only exits that the remaining base models cannot
    overrule. A promise that an older release stored has a single bound, on the share of
    all decisions.
    """

    bounds: tuple[float, ...]  # (K,) upper bounds of the shares, each in [0, 1]
    # Probability, over draws of calibration rows, that all bounds hold, in (0, 1)
    confidence: float
    # (K,) numbers of calibration rows that the whole ensemble decides as each class;
    # fitting did not use these rows
    rows: tuple[int, ...]
    changed: tuple[int, ...]  # (K,) numbers of changed decisions among these rows

    @property
    def by_class(self) -> bool:
        """True if there is a bound for each class; False for a bound on all."""
        return len(self.bounds) > 1

    def array(self) -> Floats:
        """Return (bound, confidence, rows, changed) of each class: (4 * K,)."""
        sure = [self.confidence] * len(self.bounds)
        parts = self.bounds, sure, self.rows, self.changed
        return np.array(parts, np.float64).T.ravel()

    @classmethod
    def of(cls, numbers: Sequence[float]) -> "Promise":
        """Make a promise from the result of `array`; raise BadInput if it cannot be."""
        if len(numbers) % 4:
            raise BadInput(f"its promise is {len(numbers)} numbers; it must be 4 each")
        bounds, sure, rows, changed = (tuple(numbers[k::4]) for k in range(4))
        for bound, confidence, count, wrong in zip(
            bounds, sure, rows, changed, strict=True
        ):
            sound = 0 <= bound <= 1 and 0 < confidence < 1 and confidence == sure[0]
            sound = sound and 0 <= wrong <= count < 2**53
            sound = sound and wrong <= bound * count * (1 + 1e-9)
            whole = float(count).is_integer() and float(wrong).is_integer()
            if not (sound and whole and any(rows)):
                raise BadInput(f"its promise cannot be: {list(numbers)}")
        return cls(bounds, sure[0], tuple(map(int, rows)), tuple(map(int, changed)))

    def __str__(self) -> str:
        """Return a sentence that states the promise.

        It names classes by their positions, from 0.
        """
        whole = "the whole ensemble's decisions"
        if len({*self.bounds}) == 1:
            every = " for each class" if self.by_class and any(self.bounds) else ""
            said = f"{_at_most(self.bounds[0])} {whole}{every}"
        else:
            parts = [
                f"{_at_most(bound)} those for {own}" for bound, own in self._groups()
            ]
            said = _joined([parts[0].replace("those", whole), *parts[1:]])
        return (
            f"on new rows, early exits change {said}, with {self.confidence:.0%} "
            f"confidence ({sum(self.changed):,} of {sum(self.rows):,} calibration rows "
            "changed)"
        )

    def _groups(self) -> list[tuple[float, str]]:
        """Return each bound with the names of its classes, fewest classes first."""
        places: dict[float, list[str]] = {}
        for place, bound in enumerate(self.bounds):
            places.setdefault(bound, []).append(str(place))
        groups = sorted(places.items(), key=lambda group: len(group[1]))
        named = []
        for bound, own in groups:
            name = f"class {own[0]}"
            if len(own) > 1:
                name = f"each of the classes {_joined(own)}"
            if len(own) > MOST_NAMED and own is groups[-1][1]:
                name = "each other class"
            named.append((bound, name))
        return named


def _at_most(bound: float) -> str:
    return f"at most {100 * bound:.3g}% of" if bound else "none of"


def _joined(words: Sequence[str]) -> str:
    return " and ".join([", ".join(words[:-1]), words[-1]] if words[1:] else words)


def shares_by_class(alpha: Any, count: int) -> Floats:
    """Return the share of each class's decisions that may change, shape (K,).

    `alpha` is one number for all K = `count` classes, or a number for each. Raises
    BadInput unless each is in [0, 1).
    """
    try:
        given = np.asarray(alpha, np.float64)
    except (TypeError, ValueError) as error:
        raise BadInput(f"alpha is {alpha!r}; it must be a number in [0, 1)") from error
    if given.shape not in ((), (count,)):
        raise BadInput(
            f"alpha has shape {given.shape}; it must be one number, or one for each of "
            f"the {count} classes"
        )
    shares = np.array(np.broadcast_to(given, count))
    for share in shares.tolist():
        if not 0 <= share < 1:
            raise BadInput(f"alpha is {share!r}; it must be in [0, 1)")
    return shares


def shares_by_label(alpha: Any, labels: Sequence[Any]) -> Floats:
    """Return the share of each class's decisions that may change, shape (K,).

    `alpha` is a number for all classes, or maps labels to numbers: `{"fraud": 0.0,
    "*": 0.01}`. There, `"*"` stands for all labels that are not named, and is `ALPHA`
    by default. Raises BadInput for a label that is not one of `labels` (K,), or a
    number outside [0, 1).
    """
    if not isinstance(alpha, Mapping):
        return shares_by_class(alpha, len(labels))
    known = list(labels)
    for label, share in alpha.items():
        if label not in known and not (isinstance(label, str) and label == OTHERS):
            raise BadInput(
                f"alpha names the class {label!r}; the classes are "
                f"{', '.join(map(repr, known))}, and {OTHERS!r} stands for the others"
            )
        if isinstance(share, bool) or not isinstance(share, Real):
            raise BadInput(
                f"alpha of {label!r} is {share!r}; it must be a number in [0, 1)"
            )
    others = alpha.get(OTHERS, ALPHA)
    return shares_by_class([alpha.get(label, others) for label in known], len(known))
