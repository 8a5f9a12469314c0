"""Published versions, publications and deployers."""
