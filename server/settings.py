"""What the operator decides, and the server's own limits."""

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NamedTuple

from polydom.features.errors import BadInput
from polydom.features.items import MAX_DECODED

# Above the 60 s of usual proxies, which would else reuse what is being closed.
KEEP_ALIVE_S = 65
Shown = Literal["nobody", "here", "everybody"]
# Bytes of requests that came behind others, which are not looked at yet.
UNREAD_LIMIT = 64 << 20
# Longest wait for requests that are under way when the server stops.
DRAIN_S = 30


@dataclass(frozen=True, slots=True)
class Settings:
    """What the operator decides.

    Attributes
    ----------
    budget_s
        Seconds for a request that names no budget.
    max_budget_s
        A request that names a larger one gets this.
    body_limit
        Bytes of the largest body that is read.
    intake_limit
        Bytes of all bodies that are held at a time.
    image_limit
        Bytes of the largest image, decoded.
    queue_limit
        Requests that may wait for the computing thread; more are turned away.
    correct
        Whether predicted times follow those that plans turn out to take.
    rescale
        Whether the index's costs are made this machine's while warming up.
    audit
        Share of the early exits whose plans are computed whole all the same, in [0, 1].
    samples
        Who is shown what single training items hold: "nobody", "here" those who ask
        by a name that this machine alone has, or "everybody".
    """

    budget_s: float = 0.05
    max_budget_s: float = 1.0
    body_limit: int = 8 << 20
    intake_limit: int = 256 << 20
    image_limit: int = MAX_DECODED
    queue_limit: int = 1024
    correct: bool = True
    rescale: bool = True
    audit: float = 0.0
    samples: Shown = "nobody"

    def __post_init__(self) -> None:
        limits = ("body_limit", "intake_limit", "image_limit", "queue_limit")
        for name in ("budget_s", "max_budget_s", *limits):
            value = getattr(self, name)
            if not 0 < value < math.inf:
                raise BadInput(f"{name} is {value!r}; it must be finite and above 0")
        if not 0 <= self.audit <= 1:
            raise BadInput(f"audit is {self.audit!r}; it must be in [0, 1]")


class GrpcAt(NamedTuple):
    """Where to answer gRPC, with TLS where there is a certificate with its key."""

    host: str
    port: int
    certificate: Path | None = None
    key: Path | None = None
