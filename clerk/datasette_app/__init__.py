"""`clerk serve`: the published archives on the web, with Datasette (extra `clerk[serve]`)."""
