"""Things by name that are made when a test first asks for one, not at import."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TypeVar

Key = TypeVar("Key")
Made = TypeVar("Made")


class AtFirstUse(Mapping[Key, Made]):
    """A mapping whose keys are known at import, for parameters of tests."""

    def __init__(self, keys: Iterable[Key], make: Callable[[Key], Made]) -> None:
        self._keys = dict.fromkeys(keys)
        self._make = make
        self._made: dict[Key, Made] = {}

    def __getitem__(self, key: Key) -> Made:
        if key not in self._keys:
            raise KeyError(key)
        if key not in self._made:
            self._made[key] = self._make(key)
        return self._made[key]

    def __iter__(self) -> Iterator[Key]:
        return iter(self._keys)

    def __len__(self) -> int:
        return len(self._keys)
