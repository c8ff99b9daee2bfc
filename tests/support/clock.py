"""A clock that tests move."""


class Clock:
    """A clock that moves when told to."""

    def __init__(self, now_s: float = 50.0) -> None:
        self.now_s = now_s

    def __call__(self) -> float:
        return self.now_s
