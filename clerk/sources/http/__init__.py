"""Rate-limited HTTP client that connects to public addresses only."""
