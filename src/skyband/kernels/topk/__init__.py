"""TODO-kernels.topk."""
