"""Arms for worker processes; apart from the tests, so that those start quickly."""

import os
import signal
import time

from polydom.models.selection.race import Outcome


def answer(amount: int) -> Outcome:
    return Outcome(amount / 10)


def hang(amount: int) -> Outcome:
    time.sleep(600)  # stopped long before
    return Outcome(0.0)


def die(amount: int) -> Outcome:
    os.kill(os.getpid(), signal.SIGKILL)
    return Outcome(0.0)


def refuse(amount: int) -> Outcome:
    raise ValueError("singular matrix")
