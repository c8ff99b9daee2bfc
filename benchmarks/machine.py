"""The machine and the versions that a benchmark's figures belong to."""

import os
import platform
from importlib.metadata import version
from pathlib import Path

PACKAGES = ("numpy", "numba", "scikit-learn", "uvicorn", "fastapi")


def describe() -> str:
    """One line: processor, cores, Python and package versions."""
    versions = ", ".join(f"{name} {version(name)}" for name in PACKAGES)
    return (
        f"{_processor()}, {os.cpu_count()} cores, Python "
        f"{platform.python_version()}, {versions}"
    )


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    names = [line.split(":", 1)[1].strip() for line in lines if "model name" in line]
    return names[0] if names else platform.machine()
