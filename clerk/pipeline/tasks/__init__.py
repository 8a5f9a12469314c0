"""The Procrastinate tasks: one module per stage, the coordinator and the periodic tasks."""
