"""Whether early exits keep their promise on the items that are really asked about."""

import random
from collections.abc import Callable
from threading import Lock

from polydom.features.errors import BadInput

from .outcome import Outcome

# An alarm that sounds on a stream which keeps its promise comes after so many drawn
# answers on average, or later. A busy server draws thousands an hour, and an alarm
# stays; that true ones take longer grows only with the logarithm of this.
QUIET = 1_000_000
# The rates of changed answers that are looked for, in promised ones. Without the first
# a rate of up to 1.4 promised ones is hardly told from one.
TIMES = (1.5, 2.0, 4.0, 8.0)


class ExitAudit:
    """Computes a share of the sure answers' plans whole, and counts what changes.

    Calibration items promise that at most `alpha` of a plan's answers, early or not,
    differ from the whole plan's, for items like them. Those asked about later may be
    others. So a share of all answers is drawn; those that passed every exit are whole
    and cost nothing. Each drawn answer bets on a rate of `TIMES` alpha against one of
    alpha; a Shiryaev and Roberts sum of these likelihood ratios begins a bet at every
    one, so that a change is noticed whenever it comes. While none has a chance above
    alpha of being changed, the sum of n is n at most in expectation, and the mean time
    to an alarm at least `quiet` (Shin, Ramdas and Rinaldo, E-detectors, 2022).

    Safe to share between threads: single answers and batches come from several.

    Parameters
    ----------
    alpha
        Promised share of changed answers, in [0, 1); None where nothing was promised,
        and then there is no alarm.
    share
        Of the answers that are drawn, in [0, 1].
    quiet
        Drawn answers to a false alarm, above 1.
    draw
        Gives numbers from [0, 1).

    Raises
    ------
    BadInput
        If alpha or share is outside its range.

    Attributes
    ----------
    exits, audited, changed
        Plans that were sure before their last features, or before their model's last
        base model; those of them that were computed whole; those of these whose answer
        that changed.
    passed
        Drawn answers of plans that passed all their exits.
    used, left
        Base models that answered where a schedule was followed, and those left out.
    alarm
        Whether an alarm has sounded; it stays.
    """

    __slots__ = (
        "_draw",
        "_lock",
        "_quiet",
        "_ratios",
        "_sums",
        "alarm",
        "alpha",
        "audited",
        "changed",
        "exits",
        "left",
        "passed",
        "share",
        "used",
    )

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
        self.exits = self.audited = self.changed = self.passed = 0
        self.used = self.left = 0
        self.alarm = False

    def due(self) -> bool:
        """Say whether to draw an answer; a plan that is sure then goes on."""
        return self.share > 0 and self._draw() < self.share

    def answered(self, outcome: Outcome) -> None:
        """Count an answer, if it came of an early exit or was drawn."""
        early = outcome.reason == "sure"
        if outcome.base_models is not None:
            used = outcome.base_models_used or 0
            early = self.follow(used, outcome.base_models) or early
        if outcome.passed:
            self.add_passed()
        elif early or outcome.audit is not None:
            self.add(outcome.audit)

    def follow(self, used: int, count: int) -> bool:
        """Count a schedule's base models; whether it stopped before the last."""
        with self._lock:
            self.used += used
            self.left += count - used
        return used < count

    def add(self, changed: bool | None) -> None:
        """Count an exit; None where it was not audited."""
        with self._lock:
            self.exits += 1
            if changed is not None:
                self.audited += 1
                self.changed += changed
                self._bet(changed)

    def add_passed(self) -> None:
        """Count a drawn answer whose plan passed all its exits."""
        with self._lock:
            self.passed += 1
            self._bet(changed=False)

    def _bet(self, changed: bool) -> None:
        if self.alarm or self.alpha is None:
            return
        if self.alpha == 0:  # a single change breaks this promise
            self.alarm = changed
            return
        self._sums = [
            (total + 1) * ratio[changed]
            for total, ratio in zip(self._sums, self._ratios, strict=True)
        ]
        self.alarm = sum(self._sums) > self._quiet * len(self._sums)


def ratios(alpha: float) -> list[tuple[float, float]]:
    """Likelihood ratios of (an answer kept, one changed) for each rate looked for."""
    if alpha == 0:
        return []
    rates = [min(times * alpha, (1 + alpha) / 2) for times in TIMES]
    return [((1 - rate) / (1 - alpha), rate / alpha) for rate in rates]
