"""Lazy imports: a package imports the module of a name at the name's first use."""

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def offer(
    package: str, modules: Mapping[str, str]
) -> tuple[list[str], Callable[[str], Any], Callable[[], list[str]]]:
    """Return the `__all__`, `__getattr__` and `__dir__` of a package (PEP 562).

    The package then imports a module only when a program first uses one of its names.
    So `import polydom.models` takes milliseconds, and a client does not load the code
    that trains models.

    Parameters
    ----------
    package
        The package's `__name__`.
    modules
        The module of each name that the package offers, relative to the package.
    """
    names = sorted(modules)

    def find(name: str) -> Any:
        if name in modules:
            return getattr(import_module(modules[name], package), name)
        raise AttributeError(f"module {package!r} has no attribute {name!r}")

    return names, find, lambda: names
