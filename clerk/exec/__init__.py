"""External programs: one module per package of binaries, and `limited`, through which all of them are run."""
