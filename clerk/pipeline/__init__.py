"""The queue: worker, connector, job manager and the SQL API of the engine."""
