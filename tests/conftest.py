"""What all tests share: hypothesis profiles, and the fixtures of running nodes."""

import os

from hypothesis import HealthCheck, settings

pytest_plugins = ["esp.testing.pytest_plugin"]

settings.register_profile(
    "ci", derandomize=True, max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile("thorough", max_examples=20_000, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))
