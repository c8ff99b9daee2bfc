"""Orders reach all processes of a server, and a damaged file of them harms none."""

from pathlib import Path

import msgspec
import pytest

from polydom.server.runtime.rollout.orders import KEPT, LARGEST, OrdersFile


def test_orders_are_those_of_every_process(tmp_path: Path) -> None:
    files = [OrdersFile(), OrdersFile()]
    for file in files:
        assert file.read().allowed == []
        file.path = tmp_path / "orders.json"
        assert file.read().allowed == []
    files[0].allow("a")
    files[1].allow("b")
    files[0].allow("a")
    assert files[0].read() == files[1].read()
    assert files[0].read().allowed == ["b", "a"]


def test_orders_of_one_process_are_in_memory() -> None:
    file = OrdersFile()
    for number in range(KEPT + 5):
        file.allow(str(number))
    assert file.read().allowed == [str(number) for number in range(5, KEPT + 5)]


WRONG = [b'{"allowed": 1}', b'{"x": []}', msgspec.json.encode({"allowed": [1]})]


@pytest.mark.parametrize(
    "damage",
    [b"", b"{", b"[]", b"[" * 10**5, b"\xff", b" " * (LARGEST + 1), *WRONG],
)
def test_a_damaged_file_leaves_the_last_orders(
    tmp_path: Path, damage: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    file = OrdersFile()
    file.path = tmp_path / "orders.json"
    file.allow("a")
    file.path.write_bytes(damage)
    assert file.read().allowed == ["a"]
    assert "cannot be read" in caplog.text
