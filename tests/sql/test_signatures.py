"""`clerk/pipeline/engine.py` wraps the public SQL functions one to one: same names, same arguments, same defaults."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from typing import Any

import pytest

from clerk.db.migrations.sqlfiles import SqlFolder
from clerk.pipeline import engine, job_manager
from clerk.reconcile import escalation, log
from clerk.sources.http import rate_limit
from tests.engine.helpers import Connection, rows

WRAPPERS: dict[str, Callable[..., Any]] = {
    name: function
    for name, function in inspect.getmembers(engine, inspect.isfunction)
    if function.__module__ == engine.__name__ and not name.startswith("_")
}

DESIGNED = {
    "start_run",
    "start_phase",
    "settle_unit",
    "advance_phase",
    "initialize_stage",
    "increment_completed",
    "increment_failed",
    "should_trigger_coordinator",
    "claim_coordinator_enqueue",
}

_ARGUMENTS = """
select p.proargnames[1:p.pronargs], p.pronargdefaults,
       array(select pg_get_function_arg_default(p.oid, n) from generate_series(1, p.pronargs) n)
from pg_proc p where p.proname = %s and p.pronamespace = 'public'::regnamespace
"""


@pytest.mark.parametrize("name", WRAPPERS)
def test_wrapper_has_the_signature_of_its_function(connection: Connection, name: str) -> None:
    found = rows(connection, _ARGUMENTS, [f"clerk_{name}"])
    assert len(found) == 1, f"there are {len(found)} functions clerk_{name}"
    names, defaulted, defaults = found[0]

    parameters = list(inspect.signature(WRAPPERS[name]).parameters.values())
    assert parameters[0].name == "connection"
    assert [f"p_{parameter.name.rstrip('_')}" for parameter in parameters[1:]] == (names or [])
    ours = [parameter.default for parameter in parameters[1:] if parameter.default is not inspect.Parameter.empty]
    assert len(ours) == defaulted
    theirs = [rows(connection, f"select {default}")[0][0] for default in defaults if default is not None]
    assert ours == theirs


def test_designed_functions_exist() -> None:
    assert set(WRAPPERS) >= DESIGNED


def test_function_that_no_sql_calls_can_be_called_from_python(folder: SqlFolder) -> None:
    other_callers = "".join(inspect.getsource(module) for module in (job_manager, rate_limit, log, escalation))
    for function in (item for item in folder.objects if item.kind == "function"):
        called = any(
            re.search(rf"\b{function.name}\b", item.sql) for item in folder.objects if item.name != function.name
        )
        assert called or function.name.removeprefix("clerk_") in WRAPPERS or function.name in other_callers, (
            function.name
        )
