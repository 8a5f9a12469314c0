"""Fetching: one polite and wary HTTP client, and what a site's documents go through on their way into storage."""
