"""How long a CPU quota kept this process's control group waiting, for Prometheus."""

from collections.abc import Iterator
from pathlib import Path

from prometheus_client.core import CounterMetricFamily, Metric
from prometheus_client.registry import Collector

NAME = "polydom_cpu_throttled_seconds"
HELP = "Time that a CPU quota kept the container's processes from running."


class CpuThrottling(Collector):
    """Reads what the kernel counts, at each scrape; of all workers together.

    Shows nothing where there is no such count: without control groups of version 2, or
    where theirs do not control processors.

    Parameters
    ----------
    root
        Where `proc` and `sys` lie.
    """

    def __init__(self, root: Path = Path("/")) -> None:
        self._root = root

    def collect(self) -> Iterator[Metric]:
        """Give the one counter, or nothing."""
        throttled_s = read_throttled_s(self._root)
        if throttled_s is not None:
            yield CounterMetricFamily(NAME, HELP, value=throttled_s)


def read_throttled_s(root: Path) -> float | None:
    """Return the seconds since the group was made; None where they are not counted.

    `throttled_usec` of `cpu.stat`: Linux, Documentation/admin-guide/cgroup-v2.rst. Each
    processor that had to wait counts.
    """
    try:
        groups = (root / "proc/self/cgroup").read_text()
        (group,) = (line[4:] for line in groups.split("\n") if line.startswith("0::/"))
        stat = (root / "sys/fs/cgroup" / group / "cpu.stat").read_text()
        counts = dict(line.split() for line in stat.splitlines())
        return int(counts["throttled_usec"]) / 1e6
    except (OSError, ValueError, KeyError):
        return None
