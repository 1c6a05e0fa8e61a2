"""TODO-lab."""
