"""What a build sends to workers is small."""

import json

import pytest

pytestmark = pytest.mark.jit


def test_calls_are_counted(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("psutil")
    from benchmarks.cluster.scale import main

    main(["--quick", "--json", "--parts", "bytes"])
    found = json.loads(capsys.readouterr().out)
    (counted,) = found["what goes to workers and back in a build"]
    assert counted["items"] == 300
    assert 0 < counted["bytes of the largest"] < 4096
