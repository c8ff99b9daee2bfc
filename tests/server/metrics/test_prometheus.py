"""Time that a CPU quota took is shown as the kernel counts it, or not at all."""

from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry, generate_latest

from polydom.server.metrics.prometheus import THROTTLED, CpuThrottling, read_throttled_s

COUNTED = ("usage_usec", "user_usec", "system_usec", "nr_periods", "nr_throttled")
GROUPS = "0::/kubepods.slice/pod7/cri-containerd-3f.scope\n"


def draw_machine(root: Path, groups: str, stat: str) -> Path:
    """The files that the kernel shows a process of a control group."""
    path = groups.splitlines()[-1].removeprefix("0::/")
    group = root / "sys/fs/cgroup" / path
    group.mkdir(parents=True)
    (group / "cpu.stat").write_text(stat)
    (root / "proc/self").mkdir(parents=True)
    (root / "proc/self/cgroup").write_text(groups)
    return root


@given(
    counts=st.permutations(range(len(COUNTED) + 1)),
    throttled_us=st.integers(0, 2**63),
    groups=st.sampled_from(["0::/\n", GROUPS, "4:memory:/x\n1:name=systemd:/\n0::/\n"]),
)
def test_the_kernels_count_is_shown_in_seconds(
    counts: list[int], throttled_us: int, groups: str
) -> None:
    lines = [*(f"{name} {3 * k}" for k, name in enumerate(COUNTED))]
    lines.append(f"throttled_usec {throttled_us}")
    stat = "\n".join(lines[k] for k in counts) + "\n"
    with TemporaryDirectory() as folder:
        root = draw_machine(Path(folder), groups, stat)
        assert read_throttled_s(root) == throttled_us / 1e6


def test_prometheus_gets_one_counter_without_labels(tmp_path: Path) -> None:
    root = draw_machine(tmp_path, GROUPS, "usage_usec 9\nthrottled_usec 2500000\n")
    registry = CollectorRegistry()
    registry.register(CpuThrottling(root))
    assert f"\n{THROTTLED}_total 2.5\n" in generate_latest(registry).decode()


@pytest.mark.parametrize(
    ("groups", "stat"),
    [
        ("0::/\n", "usage_usec 9\nuser_usec 8\n"),  # processors are not controlled
        ("2:cpu,cpuacct:/x\n", "throttled_usec 5\n"),  # version 1
        ("", "throttled_usec 5\n"),
        ("0::/\n", "throttled_usec many\n"),
        ("0::/\n", "throttled_usec\n"),
    ],
)
def test_what_is_not_counted_is_not_shown(
    tmp_path: Path, groups: str, stat: str
) -> None:
    root = draw_machine(tmp_path, groups or "\n", stat)
    assert list(CpuThrottling(root).collect()) == []


def test_a_machine_without_control_groups_shows_nothing(tmp_path: Path) -> None:
    assert list(CpuThrottling(tmp_path).collect()) == []
