from tests.cli.conftest import clerk_command
from tests.web.conftest import pool

__all__ = ["clerk_command", "pool"]
