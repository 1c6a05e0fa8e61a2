"""TODO-kernels.skyline."""
