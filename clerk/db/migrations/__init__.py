"""Schema migrations: versioned files, repeatable objects and Procrastinate's own schema."""
