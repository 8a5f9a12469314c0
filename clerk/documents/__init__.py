"""Documents of sites: repository in the database, files in storage, manifests and integrity checks."""
