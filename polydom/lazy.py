"""Names that a package offers and imports only when they are first asked for."""

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def offer(
    package: str, modules: Mapping[str, str]
) -> tuple[list[str], Callable[[str], Any], Callable[[], list[str]]]:
    """Make the `__all__`, `__getattr__` and `__dir__` of a package (PEP 562).

    So `import polydom.models` takes milliseconds, and a client does not load what
    trains models.

    Parameters
    ----------
    package
        Its `__name__`.
    modules
        Module of each name that the package offers, relative to the package.
    """
    names = sorted(modules)

    def find(name: str) -> Any:
        if name in modules:
            return getattr(import_module(modules[name], package), name)
        raise AttributeError(f"module {package!r} has no attribute {name!r}")

    return names, find, lambda: names
