"""`[cluster]`: the processes that carry out the calls of a build."""

from msgspec import Struct


class Cluster(Struct, frozen=True, forbid_unknown_fields=True):
    """Processes that carry out the calls of a build, here or on other machines.

    Attributes
    ----------
    on
        `dask://HOST:PORT`, `ray://auto`, `ray://HOST:PORT`, or `local:8` for 8
        processes on this machine. The default is this machine, with the project's
        `workers`.
    shared
        A folder that every worker sees under this path. The build keeps finished work
        and the workers' input there. Without a shared folder, each call carries its
        input, at most 16 MB.
    """

    on: str | None = None
    shared: str | None = None
