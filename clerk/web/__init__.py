"""The dashboard: pages rendered on the server from the SQL views and, with `--allow-actions`, operator actions."""
