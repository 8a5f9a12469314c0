"""Process supervision: supervisor, sd_notify, exit with the parent."""
