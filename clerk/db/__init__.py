"""The database: connections, audit settings, migrations and the embedded server."""
