"""The built-in deployers, a plugin each: `local` and `command`. Set in a site's `extra`: `{"deploy": ["local"]}`."""
