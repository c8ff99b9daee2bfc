"""Facts about the machine that measures costs, all of them safe to publish."""

import functools
import os
import platform
from datetime import UTC, datetime
from typing import NamedTuple, Self

from .stopwatch import Load


class Machine(NamedTuple):
    """A kind of machine, and the last day on which costs were measured on it."""

    # Model of the processor, such as "AMD EPYC 9B45"; never the name of a machine
    processor: str
    cores: int  # Number of logical cores
    day: str  # Last day in UTC, such as "2026-11-23"

    @classmethod
    def here(cls) -> Self:
        """Describe this machine, with today's date."""
        day = datetime.now(UTC).date().isoformat()
        return cls(_processor(), os.cpu_count() or 1, day)


class Measured(NamedTuple):
    """Conditions under which costs were measured."""

    load: Load  # Load of the machine by other programs
    machines: tuple[Machine, ...]  # One entry for each kind of machine, sorted

    def joined(self, other: "Measured") -> "Measured":
        """Combine the conditions of two measurements; no machine is listed twice."""
        days: dict[tuple[str, int], str] = {}
        for processor, cores, day in (*self.machines, *other.machines):
            days[processor, cores] = max(day, days.get((processor, cores), ""))
        machines = (Machine(*kind, day) for kind, day in sorted(days.items()))
        return Measured(self.load.joined(other.load), tuple(machines))

    def facts(self) -> dict[str, object]:
        """Return the conditions as a dictionary for JSON: the load and the machines."""
        return {
            **self.load.facts(),
            "machines": [machine._asdict() for machine in self.machines],
        }


@functools.cache
def _processor() -> str:
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
            for line in file:
                name, _, model = line.partition(":")
                if name.strip() == "model name" and model.strip():
                    return model.strip()
    except OSError:
        pass
    return platform.processor() or platform.machine() or "unknown"
