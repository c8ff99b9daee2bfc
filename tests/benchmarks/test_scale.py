"""The script of clusters works, on few items."""

import json
import sys

import pytest

pytestmark = pytest.mark.jit


def test_calls_are_counted(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("psutil")
    from benchmarks.cluster.bench_scale import main

    monkeypatch.setattr(sys, "argv", ["x", "--quick", "--json", "--parts", "bytes"])
    main()
    found = json.loads(capsys.readouterr().out)
    (counted,) = found["what goes to workers and back in a build"]
    assert counted["items"] == 300
    assert 0 < counted["bytes of the largest"] < 4096
