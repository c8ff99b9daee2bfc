"""A digest of a model's arrays: what was stored for one is not read for another."""

from hashlib import blake2b
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..scoring.model import Model


def digest_model(model: Model) -> NDArray[np.uint8]:
    """Hash the arrays of a model, with their names, types and shapes: (8,)."""
    made = blake2b(digest_size=8)
    for name, array in sorted(model.arrays().items()):
        made.update(f"{name} {array.dtype.str} {array.shape} ".encode())
        made.update(_bytes(array))
    return np.frombuffer(made.digest(), np.uint8)


def _bytes(array: NDArray[Any]) -> Any:
    if array.dtype.hasobject:  # labels, of which the array only has addresses
        return repr(array.tolist()).encode()
    return np.ascontiguousarray(array).tobytes()
