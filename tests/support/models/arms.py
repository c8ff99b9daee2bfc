"""Arms for worker processes; apart from the tests, so that those start quickly."""

import os
import signal
import time

from polydom.models.selection.race import TrainingOutcome


def answer(amount: int) -> TrainingOutcome:
    return TrainingOutcome(amount / 10)


def hang(amount: int) -> TrainingOutcome:
    time.sleep(600)  # stopped long before
    return TrainingOutcome(0.0)


def die(amount: int) -> TrainingOutcome:
    os.kill(os.getpid(), signal.SIGKILL)
    return TrainingOutcome(0.0)


def refuse(amount: int) -> TrainingOutcome:
    raise ValueError("singular matrix")
