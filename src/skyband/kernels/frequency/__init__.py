"""TODO-kernels.frequency."""
