"""Sources of documents: fetchers, the HTTP client, the sync of one site and the validation of sites."""
