"""TODO-kernels.core."""
