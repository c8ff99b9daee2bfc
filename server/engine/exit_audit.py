"""Check by audits whether early exits change more answers than the index promises."""

import random
from collections.abc import Callable
from threading import Lock

from polydom.features.errors import BadInput

from .request import Outcome

# Minimum mean number of audited answers until a false alarm. A busy server audits
# thousands an hour, and an alarm is never cleared. A larger number delays true alarms
# only by its logarithm.
QUIET = 1_000_000
# Rates of changed answers to detect, as multiples of the promised rate. Without 1.5,
# rates up to 1.4 times the promise would hardly be detected.
TIMES = (1.5, 2.0, 4.0, 8.0)


class ExitAudit:
    """Computes the whole plan for a share of early answers, and counts changed answers.

    Calibration promises that at most a share `alpha` of all answers differs from the
    whole plan's answers, for items like the calibration items. Requests may bring other
    items. So a `share` of all answers is drawn at random for an audit. A drawn answer
    without an early exit needs no further work.

    For each number c in `TIMES`, a test compares two hypotheses about the rate at which
    drawn answers change: c * alpha against alpha. A test is a Shiryaev-Roberts sum of
    likelihood ratios, which detects a change of the rate at any time. The alarm is
    raised if the mean of these sums exceeds `quiet`; with alpha = 0, if any answer
    changes. If each answer changes with a probability of at most alpha, the expected
    sum after n answers is at most n, and the mean number of drawn answers until a false
    alarm is at least `quiet` (Shin, Ramdas and Rinaldo, E-detectors, 2022).

    Threads may share the object. `alpha` is in [0, 1), or None if nothing is promised;
    then there is no alarm. `share` is in [0, 1]. BadInput is raised for other values.
    `draw` returns random numbers in [0, 1).
    """

    def __init__(
        self,
        alpha: float | None,
        share: float = 0.0,
        *,
        quiet: float = QUIET,
        draw: Callable[[], float] = random.random,
    ) -> None:
        if alpha is not None and not 0 <= alpha < 1:
            raise BadInput(f"alpha is {alpha!r}; it must be in [0, 1)")
        if not 0 <= share <= 1:
            raise BadInput(f"the share to audit is {share!r}; it must be in [0, 1]")
        self.alpha, self.share = alpha, share
        self._quiet, self._draw, self._lock = quiet, draw, Lock()
        self._ratios = [] if alpha is None else ratios(alpha)
        self._sums = [0.0] * len(self._ratios)
        # Numbers of early exits, of early exits whose whole plan was computed, and of
        # these whose answer changed. Stopping before a model's last base model is an
        # early exit, too.
        self.exits = self.audited = self.changed = 0
        self.passed = 0  # number of audited answers without an early exit
        # numbers of base models that schedules evaluated, and left out
        self.used = self.left = 0
        self.alarm = False

    def due(self) -> bool:
        """Draw whether to audit the present answer; the probability is `share`."""
        return self.share > 0 and self._draw() < self.share

    def answered(self, outcome: Outcome) -> None:
        """Count an answer if it exited early or was selected for an audit."""
        if outcome.base_models is not None:
            self.follow(outcome.base_models_used or 0, outcome.base_models)
        if outcome.passed:
            self.add_passed()
        elif outcome.early or outcome.audit is not None:
            self.add(outcome.audit)

    def follow(self, used: int, count: int) -> bool:
        """Return True if an evaluation ended early, and count its base models.

        `used` of the model's `count` base models were evaluated.
        """
        with self._lock:
            self.used += used
            self.left += count - used
        return used < count

    def add(self, changed: bool | None) -> None:
        """Count an answer that exited early.

        `changed` is True if the whole plan answers differently, False if it does not,
        and None if the answer was not audited.
        """
        with self._lock:
            self.exits += 1
            if changed is not None:
                self.audited += 1
                self.changed += changed
                self._bet(changed)

    def add_passed(self) -> None:
        """Count an audited answer of a plan that took no early exit."""
        with self._lock:
            self.passed += 1
            self._bet(changed=False)

    def _bet(self, changed: bool) -> None:
        if self.alarm or self.alpha is None:
            return
        if self.alpha == 0:  # a single change breaks the promise
            self.alarm = changed
            return
        self._sums = [
            (total + 1) * ratio[changed]
            for total, ratio in zip(self._sums, self._ratios, strict=True)
        ]
        self.alarm = sum(self._sums) > self._quiet * len(self._sums)


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
