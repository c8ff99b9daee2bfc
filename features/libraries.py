"""Versions of the libraries on which computed values depend.

Other installed libraries, such as an engine of a cluster or a tool for tests, do not
count: two machines with different versions of them compute the same values.
"""

import contextlib
import functools
import sys
from collections.abc import Iterable, Iterator, Mapping
from importlib.metadata import (
    PackageNotFoundError,
    distribution,
    packages_distributions,
)
from pathlib import Path

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from .own_modules import others_modules
from .syntax import OURS

EXTRAS = frozenset(("boosting", "image", "onnx"))  # extras of polydom that compute
NO_EXTRAS = frozenset[str]()
# Requirements of polydom for serving and printing: no value or model depends on them.
SPEAKING = frozenset(
    ("fastapi", "httptools", "prometheus-client", "rich", "typer", "uvicorn", "uvloop")
)
_distributions = functools.cache(packages_distributions)


def versions(files: Iterable[Path] = ()) -> dict[str, str]:
    """Return the versions of Python and of the distributions that features use.

    These are the distributions that polydom requires, the distributions that the user's
    `files` import, directly or by the user's own modules, and all installed
    distributions that these require. The files are read, not run. Keys such as "numpy"
    are sorted; the version of "python" has two numbers, as in "3.13".
    """
    modules = others_modules(files)
    named = {name for one in modules for name in _distributions().get(one, ())}
    python = f"{sys.version_info.major}.{sys.version_info.minor}"
    return dict(sorted({"python": python, **_closure(frozenset(named))}.items()))


def differences(here: Mapping[str, str], there: Mapping[str, str]) -> list[str]:
    """Describe the versions that differ, such as "numpy 2.1 (here 2.0)"."""
    return [
        f"{name} {there.get(name, 'missing')} (here {here.get(name, 'missing')})"
        for name in sorted({*here, *there})
        if here.get(name) != there.get(name)
    ]


@functools.cache
def _closure(named: frozenset[str]) -> dict[str, str]:
    """Return the versions of polydom, of `named`, and of all that these require."""
    found: dict[str, str] = {}
    left = [(OURS, EXTRAS), *((name, NO_EXTRAS) for name in named)]
    seen: set[tuple[str, frozenset[str]]] = set()
    while left:
        one = name, extras = left.pop()
        if one in seen:
            continue
        seen.add(one)
        with contextlib.suppress(PackageNotFoundError):
            facts = distribution(name)
            found[canonicalize_name(name)] = facts.version
            left += _required(name, facts.requires or [], extras)
    return found


def _required(
    by: str, requirements: Iterable[str], extras: frozenset[str]
) -> Iterator[tuple[str, frozenset[str]]]:
    """Yield name and extras of the requirements of distribution `by` that apply here.

    Polydom's requirements for serving and printing are left out.
    """
    for text in requirements:
        with contextlib.suppress(InvalidRequirement):  # old distributions may have one
            wanted = Requirement(text)
            applies = wanted.marker is None or any(
                wanted.marker.evaluate({"extra": extra}) for extra in ("", *extras)
            )
            name = canonicalize_name(wanted.name)
            if applies and not (by == OURS and name in SPEAKING):
                yield name, frozenset(wanted.extras)
