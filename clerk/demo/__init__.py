"""Generated towns and documents for `bin/demo`."""
