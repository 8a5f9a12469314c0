"""`clerk doctor`: checks of this machine, its settings and the database. Each problem has a remedy.

The checks call what workers and other commands call before they work; none is a second implementation.
"""
