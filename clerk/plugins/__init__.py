"""Plugins: hook specifications, loading and isolation."""
