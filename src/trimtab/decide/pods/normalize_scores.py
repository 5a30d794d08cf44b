"""Normalizes raw scores of the feasible nodes to 0 to 100."""

import numpy as np

from trimtab.decide.fleet import Array

MAX_SCORE = 100


def normalize_scores(raw: Array) -> Array:
    """The highest score becomes 100, the others are scaled to it."""
    highest = int(raw.max(initial=0))
    if highest == 0:
        return np.zeros(len(raw), dtype=np.int64)
    normalized: Array = MAX_SCORE * raw // highest
    return normalized


def normalize_scores_reversed(raw: Array) -> Array:
    """The highest score becomes 0; when all scores are 0, every node gets 100."""
    if not raw.any():
        return np.full(len(raw), MAX_SCORE, dtype=np.int64)
    return MAX_SCORE - normalize_scores(raw)
