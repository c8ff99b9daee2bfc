"""How often Python looks for garbage: seldom while a command starts."""

import gc

USUAL = gc.get_threshold()


def collect_seldom() -> None:
    """Look through few of the million objects that imports and loading make to stay."""
    gc.set_threshold(20_000, 50, 100)


def collect_as_usual() -> None:
    """Look for what requests leave behind as often as Python does."""
    gc.set_threshold(*USUAL)
