"""Error codes: unique, used, with a remedy; SQL functions write only codes that have a class."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import clerk
from clerk import errors
from clerk.config import SETTINGS
from clerk.db.migrations.sqlfiles import SqlFolder
from clerk.error_causes import code_and_message
from clerk.errors import JOB_ERRORS, ClerkError, JobError, NotFetched

CODE = re.compile(r"'([A-Z][a-z]+(?:[A-Z][a-z]+)+|Superseded)'")


def subclasses(base: type[Exception]) -> Iterator[type[Exception]]:
    for error in base.__subclasses__():
        if error.__module__.startswith("clerk."):
            yield error
            yield from subclasses(error)


@pytest.fixture(scope="module")
def python() -> str:
    """All of clerk's code but errors.py, with every module imported."""
    for module in pkgutil.walk_packages(clerk.__path__, "clerk."):
        if module.name != "clerk.__main__":
            importlib.import_module(module.name)
    files = Path(clerk.__path__[0]).rglob("*.py")
    return "\n".join(file.read_text() for file in files if file != Path(inspect.getfile(errors)))


@pytest.fixture
def sql(folder: SqlFolder) -> str:
    return "\n".join(item.sql for item in folder.objects)


@pytest.mark.usefixtures("python")
def test_every_code_is_the_name_of_its_class_and_unique() -> None:
    coded = [error for base in (JobError, ClerkError) for error in subclasses(base) if "code" in vars(error)]
    assert [error.code for error in coded] == [error.__name__ for error in coded]  # type: ignore[attr-defined]
    assert len({error.__name__ for error in coded}) == len(set(coded))


@pytest.mark.usefixtures("python")
def test_all_job_errors_are_in_errors_py() -> None:
    assert {error.__module__ for error in subclasses(JobError)} == {"clerk.errors"}


def test_only_base_classes_have_no_code() -> None:
    without = {error for error in subclasses(JobError) if "code" not in vars(error)}
    assert without == {
        errors.PdfError,
        errors.FetchError,
        errors.HostError,
        errors.PermanentError,
        errors.PluginError,
        errors.StorageError,
        errors.StorageUnavailable,
    }


@pytest.mark.usefixtures("python")
def test_every_command_error_has_a_code() -> None:
    without = {error for error in subclasses(ClerkError) if "code" not in vars(error)}
    assert without == {errors.PipelineError}


@pytest.mark.parametrize("error", JOB_ERRORS.values(), ids=JOB_ERRORS)
def test_every_job_error_says_what_to_do(error: type[JobError]) -> None:
    assert re.fullmatch(r"[^\sA-Z].*[^.]", error.remedy)
    assert "remedy" in vars(error)
    assert error.retry_helps or "then retry" not in error.remedy


def test_every_code_is_used(python: str, sql: str) -> None:
    unused = [code for code in JOB_ERRORS if not re.search(rf"\b{code}\b", python) and f"'{code}'" not in sql]
    assert unused == []


def test_every_code_that_sql_writes_has_a_class(sql: str) -> None:
    codes = set(CODE.findall(sql))
    assert {"WorkerLost", "JobDeleted", "RunCancelled", "Superseded"} <= codes
    assert codes - set(JOB_ERRORS) == set()


@pytest.mark.parametrize("error", JOB_ERRORS.values(), ids=JOB_ERRORS)
def test_a_remedy_names_what_to_edit(error: type[JobError]) -> None:
    """`clerk site edit SITE` alone changes nothing: it lists the options."""
    assert not re.search(r"site edit SITE(?! --[a-z]+ | lists)", error.remedy)


def test_settings_that_remedies_name_exist() -> None:
    named = set(re.findall(r"CLERK_[A-Z_]+", " ".join(error.remedy for error in JOB_ERRORS.values())))
    assert named <= {setting.name for setting in SETTINGS}


def test_an_exception_without_a_code_is_unexpected() -> None:
    assert code_and_message(KeyError("pages")) == ("UnexpectedError", "KeyError: 'pages'")
    assert code_and_message(errors.PermanentError("sold out")) == ("UnexpectedError", "PermanentError: sold out")
    assert code_and_message(errors.PdfBroken("no page")) == ("PdfBroken", "no page")
    assert code_and_message(NotFetched("404", "DownloadRefused")) == ("DownloadRefused", "404")
