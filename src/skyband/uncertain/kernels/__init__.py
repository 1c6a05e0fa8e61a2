"""The compiled loops of the family, one module per algorithm or part."""
