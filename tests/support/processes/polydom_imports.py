"""What polydom's commands import: done beforehand where they are forked from."""

from numba.core.registry import cpu_target

import polydom.indexer.building.build
import polydom.server.__main__
import polydom.server.app
import polydom.server.ops.server
import polydom.server.ops.workers  # noqa: F401

cpu_target.target_context.refresh()  # as the first kernel would
