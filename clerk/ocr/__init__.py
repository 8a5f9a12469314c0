"""A PDF becomes page texts."""
