"""Clusters for whoever asks for one."""

from tests.support.builds.clusters import (
    dask_cluster,
    ray_cluster,
    started_dask,
    started_ray,
)

__all__ = ["dask_cluster", "ray_cluster", "started_dask", "started_ray"]
