"""clerk's own fetchers."""
