"""How raw grades of the feasible nodes become grades from 0 to 100."""

import numpy as np

from trimtab.decide.fleet import Array

BEST = 100


def most_first(raw: Array) -> Array:
    """The largest becomes 100, the others their share of it."""
    most = int(raw.max(initial=0))
    if most == 0:
        return np.zeros(len(raw), dtype=np.int64)
    settled: Array = BEST * raw // most
    return settled


def fewest_first(raw: Array) -> Array:
    """The largest becomes 0; without any every node is best."""
    if not raw.any():
        return np.full(len(raw), BEST, dtype=np.int64)
    return BEST - most_first(raw)
