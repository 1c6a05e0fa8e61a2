"""TODO-data."""
