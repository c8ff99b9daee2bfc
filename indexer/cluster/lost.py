"""How engines say that a worker died, and not that what it was asked to do failed."""

from concurrent.futures import BrokenExecutor, CancelledError

# By name: no engine is imported to be told apart.
LOST = frozenset(
    {
        "distributed.client.FutureCancelledError",
        "distributed.comm.core.CommClosedError",
        "distributed.scheduler.KilledWorker",
        "ray.exceptions.LocalRayletDiedError",
        "ray.exceptions.NodeDiedError",
        "ray.exceptions.ObjectLostError",
        "ray.exceptions.OutOfMemoryError",
        "ray.exceptions.OwnerDiedError",
        "ray.exceptions.WorkerCrashedError",
    }
)


def means_lost(error: BaseException) -> bool:
    """Say whether an error means that a worker was killed or crashed.

    Processes of this machine raise a `BrokenExecutor`, whichever library has them; a
    call that is cancelled, and not by who asked for it, was on a cluster that is gone.
    """
    if isinstance(error, BrokenExecutor | CancelledError):
        return True
    kinds = type(error).__mro__
    return any(f"{kind.__module__}.{kind.__qualname__}" in LOST for kind in kinds)
