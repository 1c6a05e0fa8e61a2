"""TODO-embedded."""
