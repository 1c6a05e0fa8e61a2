"""TODO-answers."""
