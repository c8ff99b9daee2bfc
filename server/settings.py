"""The server's own limits, and where it answers."""

from pathlib import Path
from typing import NamedTuple

# Above the 60 s of usual proxies, which would else reuse what is being closed.
KEEP_ALIVE_S = 65
# Longest wait for requests that are under way when the server stops.
DRAIN_S = 30


class GrpcAt(NamedTuple):
    """Where to answer gRPC, with TLS where there is a certificate with its key."""

    host: str
    port: int
    certificate: Path | None = None
    key: Path | None = None
