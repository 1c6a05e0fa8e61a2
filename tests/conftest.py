"""Property tests have no deadline: kernels may be compiled in the middle of an example."""

from hypothesis import settings

settings.register_profile("skyband", deadline=None)
settings.load_profile("skyband")
