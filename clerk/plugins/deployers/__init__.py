"""The built-in deployers, a plugin each: `local` and `command`. A site chooses with `{"deploy": ["local"]}` in its extra."""
