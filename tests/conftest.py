"""Settings that every test shares."""

import os

from hypothesis import HealthCheck, settings

# No deadline: test machines are busy, and a slow example is not a failure. HYPOTHESIS_PROFILE=explore finds new ones.
settings.register_profile(
    "steady", deadline=None, derandomize=True, max_examples=60, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile("explore", deadline=None, max_examples=1000, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "steady"))
