"""Clusters for whoever asks for one."""

import pytest

from tests.support.builds.clusters import (
    dask_cluster,
    ray_cluster,
    started_dask,
    started_ray,
)

__all__ = ["dask_cluster", "ray_cluster", "started_dask", "started_ray"]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Kill a node of Ray last: another takes seconds to start, and its workers too."""
    items.sort(key=lambda item: "where_a_node_is_killed" in item.name)
