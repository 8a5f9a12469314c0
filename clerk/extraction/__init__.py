"""People, organisations, places and votes, found in page texts."""
