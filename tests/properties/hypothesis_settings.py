"""Hypothesis settings of property tests: few fixed examples by default, more and random ones with EFFORT > 1."""

import os

from hypothesis import settings

EFFORT = int(os.environ.get("EFFORT", "1"))


def example_settings(examples: int) -> settings:
    """Settings that run `examples` examples in an ordinary run."""
    return settings(max_examples=examples * EFFORT, deadline=None, derandomize=EFFORT == 1)
