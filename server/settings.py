"""Settings that the operator of a server chooses, and fixed limits."""

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NamedTuple

from polydom.features.errors import BadInput
from polydom.features.items import MAX_DECODED

# Idle proxies usually close connections after 60 s. A longer time here ensures that no
# proxy reuses a connection that the server is just closing.
KEEP_ALIVE_S = 65
Shown = Literal["nobody", "here", "everybody"]
# Limit for the bytes of pipelined requests that wait for earlier requests on their
# connections.
UNREAD_LIMIT = 64 << 20
# Seconds that a stopping server waits at most for requests in progress.
DRAIN_S = 30


@dataclass(frozen=True, slots=True)
class Settings:
    """Budgets, limits and switches of a server; `polydom serve` has a flag for each.

    Attributes
    ----------
    budget_s
        Budget, in seconds, of a request that names no budget.
    max_budget_s
        Maximum budget, in seconds. A larger budget in a request is reduced to this.
    body_limit
        Maximum size of a body, in bytes.
    intake_limit
        Maximum total size of all bodies in memory at the same time, in bytes.
    image_limit
        Maximum size of a decoded image, in bytes.
    queue_limit
        Maximum number of requests that wait for the computing thread; further requests
        get status 429.
    correct
        True to correct predicted times by the times measured while serving.
    rescale
        True to convert the index's costs to this machine's costs during the warm-up.
    audit
        Share of early exits, in [0, 1], after which the whole plan is also computed, to
        compare the two answers.
    input_drift
        True to compare a sample of the answered items with the items of the build.
    mean_price
        Price that fetches may cost per request in the mean, in each process; None for
        no limit. Then what has a price is fetched wherever it can gain something.
    allow_changes
        True to let a reload change what callers rely on, such as labels and columns.
    samples
        Callers that may see single training items: "nobody", "everybody", or "here" for
        callers whose Host header means this machine, such as `localhost`.
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
    input_drift: bool = True
    mean_price: float | None = None
    allow_changes: bool = False
    samples: Shown = "nobody"

    def __post_init__(self) -> None:
        limits = ("body_limit", "intake_limit", "image_limit", "queue_limit")
        for name in ("budget_s", "max_budget_s", *limits):
            value = getattr(self, name)
            if not 0 < value < math.inf:
                raise BadInput(f"{name} is {value!r}; it must be finite and above 0")
        if self.mean_price is not None and not 0 <= self.mean_price < math.inf:
            raise BadInput(f"mean_price is {self.mean_price!r}; 0 or more is needed")
        if not 0 <= self.audit <= 1:
            raise BadInput(f"audit is {self.audit!r}; it must be in [0, 1]")


class GrpcAt(NamedTuple):
    """Address of the gRPC server, and the PEM files of its certificate and key."""

    host: str
    port: int
    certificate: Path | None = None
    key: Path | None = None
