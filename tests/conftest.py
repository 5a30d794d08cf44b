"""Settings that every test shares."""

import os

from hypothesis import HealthCheck, Phase, settings

# No deadline: test machines are busy, and a slow example is not a failure. HYPOTHESIS_PROFILE=explore finds new ones.
settings.register_profile(
    "steady", deadline=None, derandomize=True, max_examples=60, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile("explore", deadline=None, max_examples=1000, suppress_health_check=[HealthCheck.too_slow])
# HYPOTHESIS_PROFILE=unshrunk stops at the first failing example, as `make mutants` needs no small one.
settings.register_profile("unshrunk", parent=settings.get_profile("steady"), phases=(Phase.explicit, Phase.generate))
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "steady"))
