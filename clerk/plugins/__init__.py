"""What plugin authors import: the marker for hooks, and the classes that hooks return."""

from clerk.plugins.fetcher import Fetcher, Found
from clerk.plugins.hookspecs import hookimpl

__all__ = ["Fetcher", "Found", "hookimpl"]
