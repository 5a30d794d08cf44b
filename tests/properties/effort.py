"""How hard properties are tried: a little and always the same in every run, or much and ever anew where time is plenty."""

import os

from hypothesis import settings

EFFORT = int(os.environ.get("EFFORT", "1"))


def tried(examples: int) -> settings:
    """So many examples in an ordinary run."""
    return settings(max_examples=examples * EFFORT, deadline=None, derandomize=EFFORT == 1)
