"""What tests of servers share."""

import contextlib
import subprocess
from pathlib import Path

import pytest


@pytest.fixture
def pem(tmp_path: Path) -> Path:
    """A certificate of 127.0.0.1 that it signed itself, and its key."""
    made = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"]
    made += ["-keyout", "key", "-out", "certificate", "-subj", "/CN=127.0.0.1"]
    made += ["-addext", "subjectAltName=IP:127.0.0.1"]
    with contextlib.suppress(FileNotFoundError):
        subprocess.run(made, cwd=tmp_path, check=True, capture_output=True)
        return tmp_path
    pytest.skip("openssl is not here")
