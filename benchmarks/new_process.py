"""What the system says of a process: its memory, and its processor time (Linux only).

Memory is measured where no earlier part has left any behind.
"""

import os
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path


def in_new_process(measure: Callable[[], dict[str, float]]) -> dict[str, float]:
    """Measure where no earlier part has left memory behind."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as process:
        return process.submit(measure).result()


def forget_peak() -> int:
    """Make the present memory the peak (Linux only), and give it in KiB."""
    Path("/proc/self/clear_refs").write_text("5")
    return memory_kb("VmRSS")


def memory_kb(name: str, pid: int | str = "self") -> int:
    """What the system says of a process's memory, in KiB."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(name))


def cpu_s(pid: int) -> float:
    """Seconds of processor time that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
