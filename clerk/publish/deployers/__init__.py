"""The built-in deployers, a plugin each: `local` and `command`. A site's extra says which: `{"deploy": ["local"]}`."""
