"""The embedded Postgres server for people without a database."""
