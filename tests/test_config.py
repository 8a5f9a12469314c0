"""Settings: their sources in order, one sentence for an invalid value, and no password in any message."""

from __future__ import annotations

import dataclasses
import os
from pathlib import Path

import pytest
from psycopg.conninfo import conninfo_to_dict

from clerk import config
from clerk.config import SETTINGS, Settings, redact_url
from clerk.errors import EXIT_USAGE, SettingError
from tests.docs.settings_page import PAGE, page


def load(folder: Path, **environ: str) -> Settings:
    return config.load(environ, folder)


def write_env(folder: Path, text: str) -> None:
    (folder / ".env").write_text(text, encoding="utf-8")


def test_defaults(tmp_path: Path) -> None:
    settings = load(tmp_path)
    assert settings.database_url is None
    assert settings.home == tmp_path / ".clerk"
    assert settings.storage_dir == tmp_path / ".clerk" / "storage"
    assert set(settings.origins.values()) == {"default"}


def test_every_setting_has_a_field_and_every_field_a_setting(tmp_path: Path) -> None:
    fields = {field.name for field in dataclasses.fields(Settings)} - {"origins"}
    assert {setting.field for setting in SETTINGS} == fields
    assert list(load(tmp_path).origins) == [setting.name for setting in SETTINGS]


def test_documented_numbers_are_the_real_defaults(tmp_path: Path) -> None:
    settings = load(tmp_path)
    for setting in SETTINGS:
        if setting.default.isdecimal():
            assert getattr(settings, setting.field) == setting.parse(setting.default), setting.name


def test_the_environment_wins_over_the_file(tmp_path: Path) -> None:
    write_env(tmp_path, "CLERK_HOME=/from/file\nSTORAGE_DIR='/sto rage'\n# a comment\nOTHER=x\n")
    settings = load(tmp_path, CLERK_HOME="/from/environment")
    assert settings.home == Path("/from/environment")
    assert settings.storage_dir == Path("/sto rage")
    assert settings.origins["CLERK_HOME"] == "environment"
    assert settings.origins["STORAGE_DIR"] == str(tmp_path / ".env")


def test_the_direct_url_is_the_database_url_unless_it_is_set(tmp_path: Path) -> None:
    pool, direct = "postgresql://u:p@pool:6432/db", "postgres://u:s3cret@server/db"
    assert not load(tmp_path).is_pooled
    settings = load(tmp_path, DATABASE_URL=pool)
    assert settings.direct_database_url == pool
    assert not settings.is_pooled
    settings = load(tmp_path, DATABASE_URL=pool, CLERK_DIRECT_DATABASE_URL=direct)
    assert settings.direct_database_url == "postgresql://u:s3cret@server/db"
    assert settings.is_pooled
    row = next(setting for setting in SETTINGS if setting.field == "direct_database_url")
    assert row.show(settings.direct_database_url) == "postgresql://u:***@server/db"
    with pytest.raises(SettingError, match="CLERK_DIRECT_DATABASE_URL is set, but DATABASE_URL is not"):
        load(tmp_path, CLERK_DIRECT_DATABASE_URL=direct)


@pytest.mark.parametrize(("name", "value"), [("CLERK_PLUGINS_DIR", "."), ("CLERK_DEPLOY_COMMAND", "touch /tmp/x")])
def test_settings_that_run_programs_are_not_read_from_the_file(tmp_path: Path, name: str, value: str) -> None:
    """Whoever can write to the current folder could otherwise run programs as the user of clerk."""
    assert load(tmp_path, **{name: value}).origins[name] == "environment"
    write_env(tmp_path, f"{name}={value}\n")
    with pytest.raises(SettingError, match=rf"{name} is in .*\.env, and is not read from there .*: remove it there"):
        load(tmp_path)
    assert load(tmp_path, **{name: value}).origins[name] == "environment", "the environment wins"


def test_networks(tmp_path: Path) -> None:
    assert load(tmp_path).allow_networks == ()
    allowed = load(tmp_path, CLERK_ALLOW_NETWORKS="10.1.2.0/24, fd12::/64,192.168.0.7").allow_networks
    assert [str(network) for network in allowed] == ["10.1.2.0/24", "fd12::/64", "192.168.0.7/32"]
    for wrong in ("10.1.2.3/24", "here", "0.0.0.0/0", "::/0"):
        with pytest.raises(SettingError, match="CLERK_ALLOW_NETWORKS"):
            load(tmp_path, CLERK_ALLOW_NETWORKS=wrong)


def test_credentials_have_precedence_over_the_file_only(tmp_path: Path) -> None:
    credentials = tmp_path / "credentials"
    credentials.mkdir()
    for name, text in {"DATABASE_URL": "postgresql://a:s3cret@b/c\n", "CLERK_HOME": "/x", "STORAGE_DIR": "/s"}.items():
        (credentials / name).write_text(text)
    (credentials / "other").write_bytes(b"\xff: not a setting")
    write_env(tmp_path, "DATABASE_URL=postgresql://file/db\nCLERK_OCR_DPI=200\n")
    settings = load(tmp_path, CREDENTIALS_DIRECTORY=str(credentials), CLERK_HOME="/from/environment")
    assert settings.database_url == "postgresql://a:s3cret@b/c"
    assert settings.origins["DATABASE_URL"] == str(credentials)
    assert settings.home == Path("/from/environment")
    assert settings.ocr_dpi == 200.0


@pytest.mark.parametrize("wrong", ["missing", "bytes"])
def test_credentials_that_cannot_be_read_are_an_error(tmp_path: Path, wrong: str) -> None:
    """Without them clerk might use another database."""
    credentials = tmp_path / "credentials"
    if wrong == "bytes":
        credentials.mkdir()
        (credentials / "DATABASE_URL").write_bytes(b"\xff")
    with pytest.raises(SettingError, match="cannot be read"):
        load(tmp_path, CREDENTIALS_DIRECTORY=str(credentials))


@pytest.mark.parametrize("empty", ["", "  ", "\n"])
def test_an_empty_value_counts_as_not_set(tmp_path: Path, empty: str) -> None:
    write_env(tmp_path, "CLERK_HOME=/from/file\nCLERK_LOCK_TIMEOUT=\n")
    settings = load(tmp_path, CLERK_HOME=empty, DATABASE_URL=empty, CLERK_LOCK_TIMEOUT=empty)
    assert settings.home == Path("/from/file")
    assert settings.database_url is None
    assert settings.lock_timeout == 2.0


def test_storage_follows_the_home(tmp_path: Path) -> None:
    assert load(tmp_path, CLERK_HOME="/var/lib/clerk").storage_dir == Path("/var/lib/clerk/storage")


def test_folders_may_be_relative_and_start_with_a_tilde(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", "/home/me")
    settings = load(tmp_path, CLERK_HOME="below", STORAGE_DIR="~/pdfs")
    assert settings.home == tmp_path / "below"
    assert settings.storage_dir == Path("/home/me/pdfs")


@pytest.mark.parametrize("scheme", ["postgres", "postgresql"])
def test_both_schemes_are_accepted(tmp_path: Path, scheme: str) -> None:
    url = load(tmp_path, DATABASE_URL=f" {scheme}://me:p%40ss@db:5432,db2:5433/clerk?sslmode=require\n").database_url
    assert url == "postgresql://me:p%40ss@db:5432,db2:5433/clerk?sslmode=require"


def test_the_keyword_form_of_libpq_is_accepted(tmp_path: Path) -> None:
    text = r" host=/run/pg,db2 port = 5432 user=me password='p@s s/?&\'%s' dbname='my db' sslmode=prefer "
    url = load(tmp_path, DATABASE_URL=text).database_url
    assert url is not None
    assert conninfo_to_dict(url) == conninfo_to_dict(text)
    assert "p%40s" in url
    assert "p%40s" not in redact_url(url)


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("DATABASE_URL", "mysql://me:s3cret@db/clerk", "is not a Postgres URL: write postgresql://"),
        ("DATABASE_URL", "s3cret", "is not a Postgres URL"),
        ("CLERK_CONTACT", "call me", "write a mail address such as name@example.org, or a URL"),
        ("CLERK_CONTACT", "https://example.org\r\nX: y", "write a mail address"),
        ("CLERK_ROBOTS", "no", "write honour or ignore"),
        ("DATABASE_URL", "host=db password=s3cret more", "is not a valid connection string of libpq"),
        ("DATABASE_URL", "host=db pasword=s3cret", "is not a valid connection string of libpq"),
        ("DATABASE_URL", "host=db port=s3cret", "is not a valid connection string of libpq"),
        ("DATABASE_URL", "postgresql://me:s3c%zzret@db/clerk", "is not a valid Postgres URL"),
        ("DATABASE_URL", "postgresql://me:s3cret/more@db/clerk", "special characters as %XX"),
        ("DATABASE_URL", "postgresql://me:123/s3cret@db/clerk", "special characters as %XX"),
        ("DATABASE_URL", "postgresql://me:pass@s3cret@db/clerk", "special characters as %XX"),
        ("DATABASE_URL", "postgresql://me:s3cret@db:port/clerk", "is not a valid Postgres URL"),
        ("DATABASE_URL", "postgresql://me@db/clerk?pasword=s3cret", "is not a valid Postgres URL"),
        ("CLERK_HOME", "/dev/null", "names /dev/null, which is not a folder"),
        ("CLERK_HOME", "~nobody-of-that-name/x", "cannot be accessed"),
        ("CLERK_HOME", "/" + "x" * 5000, "cannot be accessed"),
        ("STORAGE_DIR", "/dev/null", "not a folder"),
        ("CLERK_LOCK_TIMEOUT", "soon", "is 'soon': write a number of seconds above 0"),
        ("CLERK_LOCK_TIMEOUT", "0", "is '0'"),
        ("CLERK_LOCK_TIMEOUT", "-1", "is '-1'"),
        ("CLERK_LOCK_TIMEOUT", "nan", "is 'nan'"),
        ("CLERK_LOCK_TIMEOUT", "inf", "is 'inf'"),
        ("CLERK_POSTGRES_IDLE_TIMEOUT", "1e9", "at most 86400"),
        ("CLERK_KEEP_JOBS_HOURS", "a day", "is 'a day'"),
    ],
)
def test_an_invalid_value_is_reported_in_one_sentence_with_its_origin(
    tmp_path: Path, name: str, value: str, message: str
) -> None:
    for origin in ("environment", str(tmp_path / ".env")):
        if origin == "environment":
            environ = {name: value}
        else:
            environ = {}
            write_env(tmp_path, f"{name}='{value}'\n")
        with pytest.raises(SettingError) as caught:
            load(tmp_path, **environ)
        sentence = str(caught.value)
        assert sentence.startswith(f"{name} (from {origin}) ")
        assert message in sentence
        assert "\n" not in sentence
        assert "s3cret" not in sentence
        assert caught.value.exit_code == EXIT_USAGE


def test_an_unreadable_file_is_named(tmp_path: Path) -> None:
    (tmp_path / ".env").write_bytes(b"CLERK_HOME=/caf\xe9\n")
    with pytest.raises(SettingError, match=r"\.env cannot be read .*: correct it or move it away"):
        load(tmp_path)


def test_a_deleted_current_folder_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    with pytest.raises(SettingError, match="the current folder was deleted"):
        config.load({})


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("postgresql://me@db/clerk", "postgresql://me@db/clerk"),
        ("postgresql:///clerk?host=/run", "postgresql:///clerk?host=/run"),
        ("postgresql://me:s3cret@db:5432/clerk", "postgresql://me:***@db:5432/clerk"),
        ("postgresql://me:s3cret@db1,db2/clerk", "postgresql://me:***@db1,db2/clerk"),
        (
            "postgresql://me:s3cret@db1:5432,[::1]:5433/clerk?target_session_attrs=read-write",
            "postgresql://me:***@db1:5432,[::1]:5433/clerk?target_session_attrs=read-write",
        ),
        ("postgresql://me:@db/clerk", "postgresql://me:***@db/clerk"),
        ("postgresql://me:s3:cret@db/clerk", "postgresql://me:***@db/clerk"),
        # Unescaped special characters.
        ("postgresql://me:a@s3cret@db/clerk", "postgresql://me:***@db/clerk"),
        ("postgresql://me:a/s3cret@db/clerk", "postgresql://me:***@db/clerk"),
        ("postgresql://me:a?s3cret@db/clerk", "postgresql://me:***@db/clerk"),
        ("postgresql://me:a#s3cret@db/clerk", "postgresql://me:***@db/clerk"),
        ("postgresql://me:[s3cret@db/clerk", "postgresql://me:***@db/clerk"),
        ("postgresql://db/clerk?user=me&password=s3cret", "postgresql://db/clerk?user=me&password=***"),
        ("postgresql://db/clerk?PASSWORD=s3cret@x", "postgresql://db/clerk?PASSWORD=***"),
        ("postgresql://db/clerk?pass%77ord=s3cret", "postgresql://db/clerk?pass%77ord=***"),
        ("postgresql://me:s3cret@db/c?sslpassword=s3cret&a=b", "postgresql://me:***@db/c?sslpassword=***&a=b"),
        ("postgresql://me:s3cret@db/clerk?options=a@b", "postgresql://me:***@db/clerk?options=a@b"),
    ],
)  # fmt: skip
def test_passwords_are_redacted(url: str, shown: str) -> None:
    assert redact_url(url) == shown
    assert "s3cret" not in shown


def test_the_page_lists_exactly_the_settings() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), "run: python -m tests.docs.settings_page"


def test_nothing_else_in_the_code_reads_the_environment() -> None:
    """A setting that is read elsewhere has no documentation, no check and no origin."""
    package = Path(config.__file__).parent
    readers = [
        str(path.relative_to(package))
        for path in package.rglob("*.py")
        if "os.environ" in path.read_text(encoding="utf-8") or "getenv" in path.read_text(encoding="utf-8")
    ]
    # These pass their environment on to a child process.
    passed_on = {
        "cli/group.py",
        "db/embedded/postgres.py",
        "ocr/ocr_engine.py",
        "process/parent_death.py",
        "process/supervisor.py",
        "publish/deployers/command.py",
    }
    # These read variables of systemd, tesseract and OpenTelemetry.
    foreign = {"process/sd_notify.py", "ocr/tesseract.py", "telemetry/variables.py"}
    # This sees by their names whether there are variables to check, before it imports the settings.
    names_only = {"cli/__init__.py"}
    assert set(readers) <= {"config.py"} | passed_on | foreign | names_only
    assert os.environ.get("DATABASE_URL") is None, "tests must not use a developer's own database"
