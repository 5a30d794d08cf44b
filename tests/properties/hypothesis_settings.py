"""Hypothesis settings of property tests: few fixed examples by default, more and random ones with EFFORT > 1."""

import os
from typing import Any

from hypothesis import settings

EFFORT = int(os.environ.get("EFFORT", "1"))


def example_settings(examples: int, thorough: int = 0, **options: Any) -> settings:
    """Settings that run `examples` examples in `make test`, and EFFORT times as many, or as `thorough`, in `make soak`.

    Slow examples have a larger `thorough`: a few of them in `make test` notice what is broken in general.
    """
    count = examples if EFFORT == 1 else (thorough or examples) * EFFORT
    return settings(max_examples=count, deadline=None, derandomize=EFFORT == 1, **options)
