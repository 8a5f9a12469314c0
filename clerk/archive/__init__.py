"""meetings.db: which documents it contains, how it is built, and full-text search in it."""
