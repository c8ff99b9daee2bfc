"""Check by audits whether early exits change more answers than the index promises."""

import logging
import random
from collections import Counter
from collections.abc import Callable, Mapping
from threading import Lock

from polydom.features.errors import BadInput

from ..request import Outcome

# Minimum mean number of audited answers until a false alarm. A busy server audits
# thousands an hour, and an alarm is never cleared. A larger number delays true alarms
# only by its logarithm.
QUIET = 1_000_000
# Rates of changed answers to detect, as multiples of the promised rate. Without 1.5,
# rates up to 1.4 times the promise would hardly be detected.
TIMES = (1.5, 2.0, 4.0, 8.0)

log = logging.getLogger("polydom")


class ShareTest:
    """Tests whether more than the share `alpha` of some answers changes.

    For each number c in `TIMES`, a test compares two hypotheses about the rate at which
    answers change: c * alpha against alpha. A test is a Shiryaev-Roberts sum of
    likelihood ratios, which detects a change of the rate at any time. The alarm is
    raised if the mean of these sums exceeds `quiet`; with alpha = 0, if any answer
    changes. If each answer changes with a probability of at most alpha, the expected
    sum after n answers is at most n (Shin, Ramdas and Rinaldo, E-detectors, 2022).

    `alpha` is in [0, 1); BadInput is raised for other values.
    """

    def __init__(self, alpha: float, quiet: float = QUIET) -> None:
        if not 0 <= alpha < 1:
            raise BadInput(f"alpha is {alpha!r}; it must be in [0, 1)")
        self.alpha, self.alarm = alpha, False
        self._quiet, self._ratios = quiet, ratios(alpha)
        self._sums = [0.0] * len(self._ratios)

    def add(self, changed: bool) -> bool:
        """Take one more answer; return True if it raises the alarm."""
        if self.alarm:
            return False
        if self.alpha == 0:  # a single change breaks the promise
            self.alarm = changed
        else:
            self._sums = [
                (total + 1) * ratio[changed]
                for total, ratio in zip(self._sums, self._ratios, strict=True)
            ]
            self.alarm = sum(self._sums) > self._quiet * len(self._sums)
        return self.alarm


class ExitAudit:
    """Computes the whole plan for a share of early answers, and counts changed answers.

    Calibration promises for each class: of the items that the whole plan answers with
    this class, at most a share is answered otherwise, for items like the calibration
    items. Requests may bring other items. So a `share` of all answers is drawn at
    random for an audit, and counted by the class that the whole plan answers. A drawn
    answer without an early exit needs no further work.

    Each class has a `ShareTest`. A drawn answer adds at most 1 to the expected sum of
    its class's test, and nothing to others. So while all promises are kept, the first
    false alarm of any class comes after at least `quiet` drawn answers on average, for
    any number of classes.

    Threads may share the object. `alphas` has the promised share of each class, in [0,
    1). It has the key None instead of classes if the share is one of all answers
    together, and is empty if nothing is promised; then there is no alarm. `share` is in
    [0, 1]. BadInput is raised for other values. `draw` returns random numbers in [0,
    1).
    """

    def __init__(
        self,
        alphas: Mapping[str | None, float],
        share: float = 0.0,
        *,
        quiet: float = QUIET,
        draw: Callable[[], float] = random.random,
    ) -> None:
        if not 0 <= share <= 1:
            raise BadInput(f"the share to audit is {share!r}; it must be in [0, 1]")
        self.share = share
        self._draw, self._lock = draw, Lock()
        self._tests = {label: ShareTest(one, quiet) for label, one in alphas.items()}
        # Number of early exits. Stopping before a model's last base model is an early
        # exit, too.
        self.exits = 0
        # By the class that the whole plan answers: numbers of drawn answers, of those
        # that exited early and whose whole plan was computed, and of changed answers
        self.drawn = Counter({label: 0 for label in alphas if label is not None})
        self.audited, self.changed = self.drawn.copy(), self.drawn.copy()
        # numbers of base models that schedules evaluated, and left out
        self.used = self.left = 0

    @property
    def alarms(self) -> dict[str | None, bool]:
        """True for each class of which more answers changed than promised."""
        return {label: test.alarm for label, test in self._tests.items()}

    def counts(self) -> Counter[tuple[str, str]]:
        """Return all counts until now, by name and class; the class may be empty."""
        classes = {
            "drawn": self.drawn,
            "audited": self.audited,
            "changed": self.changed,
        }
        with self._lock:
            by_class = {
                (name, label): count
                for name, counts in classes.items()
                for label, count in counts.items()
            }
            sums = {"exits": self.exits, "used": self.used, "left": self.left}
        return Counter({**by_class, **{(name, ""): n for name, n in sums.items()}})

    def due(self) -> bool:
        """Draw whether to audit the present answer; the probability is `share`."""
        return self.share > 0 and self._draw() < self.share

    def answered(self, outcome: Outcome) -> None:
        """Count an answer if it exited early or was selected for an audit."""
        if outcome.base_models is not None:
            self.follow(outcome.base_models_used or 0, outcome.base_models)
        if outcome.early or outcome.audit is not None:
            self.add()
        if outcome.label is not None and (outcome.passed or outcome.audit is not None):
            self.check(outcome.label, outcome.audit)

    def follow(self, used: int, count: int) -> bool:
        """Return True if an evaluation ended early, and count its base models.

        `used` of the model's `count` base models were evaluated.
        """
        with self._lock:
            self.used += used
            self.left += count - used
        return used < count

    def add(self) -> None:
        """Count an answer that exited early."""
        with self._lock:
            self.exits += 1

    def check(self, label: str, changed: bool | None) -> None:
        """Count a drawn answer, of which `label` is the whole plan's.

        `changed` is True if the early answer was another one, False if it was the same,
        and None if the plan took no early exit.
        """
        with self._lock:
            self.drawn[label] += 1
            if changed is not None:
                self.audited[label] += 1
                self.changed[label] += changed
            of = label if label in self._tests else None
            test = self._tests.get(of)
            alarm = test is not None and test.add(bool(changed))
        if alarm and test is not None:
            self._warn(of, test.alpha)

    def _warn(self, of: str | None, alpha: float) -> None:
        drawn, changed = self.drawn.total(), self.changed.total()
        named = ""
        if of is not None:
            drawn, changed, named = self.drawn[of], self.changed[of], f" {of!r}"
        log.warning(
            "early exits change more than the promised %.3g %% of the answers%s: "
            "%d of %d that were checked",
            100 * alpha,
            named,
            changed,
            drawn,
            extra={"event": "exits_changed", "class": of or ""},
        )


def ratios(alpha: float) -> list[tuple[float, float]]:
    """Return two likelihood ratios for each rate of changed answers to detect.

    The first ratio is for an unchanged answer, the second for a changed answer. Each is
    the likelihood of such an answer at the rate to detect, divided by its likelihood at
    the rate `alpha`.
    """
    if alpha == 0:
        return []
    rates = [min(times * alpha, (1 + alpha) / 2) for times in TIMES]
    return [((1 - rate) / (1 - alpha), rate / alpha) for rate in rates]
