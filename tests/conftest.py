"""No property test fails for being slow: kernels may be compiled in the middle of an example."""

from hypothesis import settings

settings.register_profile("skyband", deadline=None)
settings.load_profile("skyband")
