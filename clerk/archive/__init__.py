"""Building and publishing meetings.db."""
