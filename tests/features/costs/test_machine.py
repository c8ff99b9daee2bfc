"""Where costs were measured: machines by kind, and how busy they were."""

import os
import platform
import re

from polydom.features.costs.machine import Machine, Measured
from polydom.features.costs.stopwatch import Load

QUIET, BUSY = Load(0.0, None, 2), Load(0.5, 1.0, 2)


def test_this_machine_is_told_by_its_kind_alone() -> None:
    machine = Machine.here()
    assert machine.processor
    assert platform.node() not in machine.processor
    assert machine.cores == os.cpu_count()
    assert re.fullmatch(r"\d{4}-\d\d-\d\d", machine.day)


def test_joined_measurements_name_each_kind_of_machine_once() -> None:
    first = Measured(QUIET, (Machine("b", 2, "2026-11-23"),))
    second = Measured(
        BUSY, (Machine("b", 2, "2026-11-24"), Machine("a", 2, "2026-01-01"))
    )
    joined = first.joined(second)
    assert joined.load == QUIET.joined(BUSY)
    machines = (Machine("a", 2, "2026-01-01"), Machine("b", 2, "2026-11-24"))
    assert joined.machines == machines
    assert second.joined(first) == joined
    facts = joined.facts()
    assert facts["busy"] is True
    assert facts["machines"] == [
        {"processor": "a", "cores": 2, "day": "2026-01-01"},
        {"processor": "b", "cores": 2, "day": "2026-11-24"},
    ]
