"""Five made-up towns and their documents, good and broken: what `bin/demo` runs on."""
