"""TODO-kernels.fused."""
