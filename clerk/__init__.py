"""clerk: public-meeting archives, with Postgres as the only broker."""
