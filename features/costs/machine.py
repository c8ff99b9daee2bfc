"""The machine that costs are measured on, as far as it may be told to anybody."""

import functools
import os
import platform
from datetime import UTC, datetime
from typing import NamedTuple, Self

from .stopwatch import Load


class Machine(NamedTuple):
    """A machine, and the last day on which something was measured there.

    Attributes
    ----------
    processor
        Its model, such as "AMD EPYC 9B45"; no name by which one machine is found.
    cores
        Logical ones.
    day
        In UTC, such as "2026-11-23".
    """

    processor: str
    cores: int
    day: str

    @classmethod
    def here(cls) -> Self:
        """Return this machine, today."""
        day = datetime.now(UTC).date().isoformat()
        return cls(_processor(), os.cpu_count() or 1, day)


class Measured(NamedTuple):
    """Under what conditions costs were measured: how busy it was, and where.

    Attributes
    ----------
    machines
        One entry for each kind, in order.
    """

    load: Load
    machines: tuple[Machine, ...]

    def joined(self, other: "Measured") -> "Measured":
        """Return the load of both together, and the machines of both."""
        days: dict[tuple[str, int], str] = {}
        for processor, cores, day in (*self.machines, *other.machines):
            days[processor, cores] = max(day, days.get((processor, cores), ""))
        machines = (Machine(*kind, day) for kind, day in sorted(days.items()))
        return Measured(self.load.joined(other.load), tuple(machines))

    def facts(self) -> dict[str, object]:
        """Plain data."""
        return {
            **self.load.facts(),
            "machines": [machine._asdict() for machine in self.machines],
        }


@functools.cache
def _processor() -> str:
    """Model of the processor, as the system names it."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
            for line in file:
                name, _, model = line.partition(":")
                if name.strip() == "model name" and model.strip():
                    return model.strip()
    except OSError:
        pass
    return platform.processor() or platform.machine() or "unknown"
