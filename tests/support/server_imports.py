"""What servers import: done beforehand in the process that they are forked from."""

from numba.core.registry import cpu_target

import polydom.server.__main__
import polydom.server.app
import polydom.server.ops.server
import polydom.server.ops.workers  # noqa: F401

cpu_target.target_context.refresh()  # as the first kernel would
