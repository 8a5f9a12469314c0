"""Extraction of people, organisations, places and votes from page texts."""
