"""`clerk plugins try`: a plugin's parts, each run once without a worker."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Clerk, clerk_command  # noqa: F401 (fixture)
from tests.publish.helpers import Town

PLUGIN = """
from datetime import date
from clerk import DocumentRef, Fetcher, hookimpl

class Listing(Fetcher):
    async def documents(self):
        for day in range(1, 13):
            yield DocumentRef(f"https://town.example/{day}.pdf", "Council", date(2024, 3, day), "minutes")

class Extractor:
    version = "1"
    def extract(self, pages):
        if "poison" in pages[0][1]:
            raise KeyError("name")
        return {pages[0][0]: {"persons": [{"text": pages[0][1], "confidence": 1}]}}

@hookimpl
def fetcher_class(label):
    return Listing if label == "listing" else None

@hookimpl
def extractor(label):
    return Extractor() if label in ("taking", "listing") else None

@hookimpl
def deploy_municipality(subdomain):
    return f"uploaded {subdomain}"
"""


@pytest.fixture
def plugin(plugins_dir: Path) -> None:
    (plugins_dir / "mine.py").write_text(PLUGIN)


@pytest.mark.usefixtures("plugin")
def test_each_part_is_run_once_and_stores_nothing(town: Town, clerk_command: Clerk) -> None:  # noqa: F811
    town.configure(extractor="taking")
    document = town.add_document("Ellen Ortiz")
    town.run()
    before = town.one("select (select count(*) from content_items), (select count(*) from publication_steps)")

    listed = clerk_command("plugins", "try", "listing", "--as", "fetcher", "--site", "springfield")
    assert (listed.code, "and 2 more" in listed.out, "12: 12 minutes" in listed.out) == (0, True, True), listed
    assert "https://town.example/10.pdf" in listed.out
    extracted = clerk_command("plugins", "try", "taking", "--site", "springfield", "--json")
    result = json.loads(extracted.out)
    assert (result["kind"], result["result"]["document"]) == ("extractor", document.id)
    assert [person["text"] for person in result["result"]["pages"]["1"]["persons"]] == ["Ellen Ortiz"]
    deployed = clerk_command("plugins", "try", "mine", "--as", "deployer", "--site", "springfield")
    assert "uploaded springfield" in deployed.out
    assert town.one("select (select count(*) from content_items), (select count(*) from publication_steps)") == before


@pytest.mark.usefixtures("plugin")
def test_what_cannot_be_tried_is_refused_and_a_failure_names_the_line(town: Town, clerk_command: Clerk) -> None:  # noqa: F811
    for arguments, code, message in [
        (("listing", "--site", "springfield"), 2, "listing is a fetcher and a extractor"),
        (("lisTing", "--site", "springfield"), 2, "no plugin provides a fetcher, extractor or deployer lisTing"),
        (("listing", "--as", "deployer", "--site", "springfield"), 2, "no plugin provides a deployer listing"),
        (("taking", "--site", "springfeld"), 2, "did you mean springfield?"),
        (("taking", "--site", "springfield"), 2, "springfield has no document with text"),
        (("mine", "--as", "deployer", "--site", "springfield"), 2, "springfield has no archive yet"),
    ]:
        answer = clerk_command("plugins", "try", *arguments)
        assert (answer.code, message in answer.err) == (code, True), answer
    town.add_document("poison")
    failed = clerk_command("plugins", "try", "taking", "--site", "springfield")
    assert failed.code == 1
    assert "KeyError: 'name'" in failed.err
    assert "line 14, in extract" in failed.err


LISTINGS = """
from datetime import date
from clerk import DocumentRef, Fetcher, hookimpl

class Base(Fetcher):
    refs = ()
    async def documents(self):
        for ref in self.refs:
            yield ref

class WrongDate(Base):
    refs = [DocumentRef("https://town.example/1.pdf", "Council", "2024-03-05")]

class Relative(Base):
    refs = [DocumentRef("/1.pdf", "Council", date(2024, 3, 5))]

class SameKey(Base):
    refs = [DocumentRef(f"https://town.example/{day}.pdf", "Council", date(2024, 3, day), key="x") for day in (1, 1, 2)]

class Empty(Fetcher):
    pass

@hookimpl
def fetcher_class(label):
    return {"date": WrongDate, "relative": Relative, "key": SameKey, "empty": Empty}.get(label)
"""


def test_a_listing_is_checked_as_in_a_run(town: Town, clerk_command: Clerk, plugins_dir: Path) -> None:  # noqa: F811
    (plugins_dir / "listings.py").write_text(LISTINGS)
    for label, code, message in [
        ("date", 1, "plugin listings listed a document whose date is '2024-03-05', not a datetime.date or None"),
        ("relative", 0, "1 document cannot be downloaded: the fetcher must list complete URLs"),
        ("key", 0, "has the same key as https://town.example/1.pdf"),
        ("empty", 1, "the class Empty has no method documents()"),
    ]:
        answer = clerk_command("plugins", "try", label, "--site", "springfield")
        assert (answer.code, message in " ".join((answer.out + answer.err).split())) == (code, True), answer
        assert label != "key" or "documents   1: 1 minutes" in answer.out


EXTRACTORS = """
from clerk import hookimpl

class NoVersion:
    def extract(self, pages):
        return {}

class Number(NoVersion):
    version = 3

class NoMethod:
    version = "1"

@hookimpl
def extractor(label):
    return {"class": NoMethod, "none": NoVersion(), "number": Number(), "method": NoMethod()}.get(label)
"""


def test_what_is_no_extractor_is_refused_with_what_is_missing(
    town: Town,
    clerk_command: Clerk,  # noqa: F811
    plugins_dir: Path,
) -> None:
    (plugins_dir / "extractors.py").write_text(EXTRACTORS)
    for label, message in [
        ("class", "is the class NoMethod: return an object, NoMethod()"),
        ("none", "has the version None: it must be text"),
        ("number", "has the version 3: it must be text"),
        ("method", "has no method extract(pages)"),
    ]:
        answer = clerk_command("plugins", "try", label, "--site", "springfield")
        assert answer.code == 1
        assert f"the extractor {label} of plugin extractors {message}" in " ".join(answer.err.split())
