"""What plugin authors import: the marker for hooks, and the classes that hooks return."""

from clerk.documents.catalogue import Found
from clerk.plugins.fetcher import Fetcher
from clerk.plugins.hookspecs import hookimpl

__all__ = ["Fetcher", "Found", "hookimpl"]
