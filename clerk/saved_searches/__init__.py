"""Saved searches (`clerk alert`): new pages of each publication are matched with them; matches are delivered."""
