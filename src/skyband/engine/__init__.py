"""TODO-engine."""
