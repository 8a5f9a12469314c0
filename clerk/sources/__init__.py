"""Where documents come from: the Fetcher base class, the vendors, and the sync of one site."""
