"""Which columns of a row each base model reads."""

import numpy as np
from numpy.typing import NDArray

from .lattices import Lattices
from .lead_exit import Terms
from .trees import Trees


def columns_used(terms: Terms, width: int) -> NDArray[np.bool_]:
    """Mark which columns of full rows each base model reads: (T, width).

    A tree reads the columns of its splits, a lattice its inputs, a term of a linear
    model its own.
    """
    used = np.zeros((terms.size, width), np.bool_)
    columns = terms.columns
    if isinstance(terms, Trees):
        tree = np.repeat(np.arange(terms.size), np.diff(terms.roots))
        read = terms.nodes["column"].astype(np.int64)
        inner = read >= 0
        # Prepared rows have a column for each input, others are the full row itself.
        prepared = len(terms.preparation.operations) > 0
        used[tree[inner], columns[read[inner]] if prepared else read[inner]] = True
    elif isinstance(terms, Lattices):
        used[np.arange(terms.size)[:, None], columns[terms.inputs]] = True
    else:
        used[np.arange(terms.size), columns] = True
    return used
