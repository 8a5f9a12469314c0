"""The embedded Postgres and those who use it: real processes, killed at the worst moments."""

from __future__ import annotations

import contextlib
import fcntl
import itertools
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest

from clerk.db.embedded import postgres
from clerk.db.embedded.postgres import EmbeddedPostgres
from clerk.db.embedded.server import Server
from clerk.errors import EXIT_UNKNOWN, EmbeddedServerError
from tests.conftest import Url
from tests.db.conftest import copy_data_directory, require_binaries
from tests.helpers import until

ROOT = Path(__file__).parents[2]
LINGER = 0.4
only_linux = pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
only_root = pytest.mark.skipif(os.geteuid() != 0, reason="is about what root does")


class User:
    """A process that holds the server of a home."""

    def __init__(self, home: EmbeddedPostgres, linger: float = LINGER, **popen: object) -> None:
        options: dict[str, object] = {
            "env": {**os.environ, "PYTHONPATH": str(ROOT)},
            "start_new_session": True,
            **popen,
        }
        self.process: subprocess.Popen[str] = subprocess.Popen(  # type: ignore[call-overload]
            [sys.executable, "-P", "-m", "tests.db.embedded_user", str(home.folder), str(linger)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            **options,
        )

    def says(self) -> str:
        """Its first line: the URL, or why there is none."""
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def leave(self) -> None:
        self.process.communicate(timeout=60)

    def kill(self) -> None:
        """The process alone, not what it started."""
        self.process.kill()
        self.process.communicate()

    def kill_with_all_it_started(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.communicate()


@pytest.fixture(scope="module")
def short_folder() -> Iterator[Path]:
    """Not below pytest's own folders: a socket's path must be short, and people's homes are."""
    folder = Path(tempfile.mkdtemp(prefix="clerk-t-", dir="/tmp"))
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
def new_home(short_folder: Path) -> Iterator[Callable[[str], EmbeddedPostgres]]:
    """Call it for a home that does not exist yet."""
    made: list[EmbeddedPostgres] = []

    def make(name: str) -> EmbeddedPostgres:
        made.append(EmbeddedPostgres(short_folder / f"new-{next(_numbers)}" / name))
        return made[-1]

    yield make
    for home in made:
        stop(home)


@pytest.fixture
def copied_home(new_home: Callable[[str], EmbeddedPostgres], data_directory: Path) -> Callable[[str], EmbeddedPostgres]:
    """The same, with data that was never used, which saves the time of initdb."""

    def make(name: str) -> EmbeddedPostgres:
        home = new_home(name)
        copy_data_directory(data_directory, home.server.data)
        return home

    return make


@pytest.fixture
def home(short_folder: Path, data_directory: Path) -> Iterator[EmbeddedPostgres]:
    """A home with data that other tests have used before; the server is stopped."""
    home = EmbeddedPostgres(short_folder / "home")
    if not home.folder.exists():
        copy_data_directory(data_directory, home.server.data)
    yield home
    stop(home)
    (home.folder / "postgres.keeper.log").unlink(missing_ok=True)


_numbers = itertools.count()


def stop(home: EmbeddedPostgres) -> None:
    """However the test went."""
    with contextlib.suppress(EmbeddedServerError):
        postgres.stop(home.folder, force=True)
        until(lambda: stopped(home))


@pytest.fixture
def users(home: EmbeddedPostgres) -> Iterator[Callable[[], User]]:
    started: list[User] = []

    def one_more() -> User:
        started.append(User(home))
        return started[-1]

    yield one_more
    for user in started:
        user.kill_with_all_it_started()


def write_a_row(url: Url) -> None:
    with psycopg.connect(url) as connection:
        connection.execute("drop table if exists kept")
        connection.execute("create table kept as select 1 as id")


def rows(url: Url) -> int:
    with psycopg.connect(url) as connection:
        found = connection.execute("select count(*) from kept").fetchone()
        assert found is not None
        return int(found[0])


def stopped(home: EmbeddedPostgres) -> bool:
    return home.server.pid is None and home.daemon_pid() is None


def running_pid(home: EmbeddedPostgres) -> int:
    pid = home.server.pid
    assert pid is not None
    return pid


def keeper(home: EmbeddedPostgres) -> int:
    """The keeper's process, once it has taken over."""
    return until(lambda: home.daemon_pid() or 0)


def refusal(home: EmbeddedPostgres) -> EmbeddedServerError:
    with pytest.raises(EmbeddedServerError) as caught, postgres.running(home.folder, LINGER):
        pass
    assert caught.value.exit_code == EXIT_UNKNOWN
    assert "\n" not in str(caught.value)
    assert "Traceback" not in str(caught.value)
    return caught.value


# --- starting ---------------------------------------------------------------------------------------------


def test_the_first_start_makes_a_durable_private_server(new_home: Callable[[str], EmbeddedPostgres]) -> None:
    home = new_home("home")
    with postgres.running(home.folder, LINGER) as url, psycopg.connect(url) as connection:
        wanted = {
            "fsync": "on",
            "synchronous_commit": "on",
            "full_page_writes": "on",
            "listen_addresses": "",
            "unix_socket_permissions": "0700",
            "server_encoding": "UTF8",
        }
        found = {name: connection.execute("select current_setting(%s)", [name]).fetchone() for name in wanted}
        assert found == {name: (value,) for name, value in wanted.items()}
        assert connection.info.dbname == "clerk"
        order = connection.execute("select array_agg(x order by x) from unnest(array['b', 'Z', 'ä', 'a']) x")
        assert order.fetchone() == (["Z", "a", "b", "ä"],)
    assert home.server.data.stat().st_mode & 0o777 == 0o700
    assert list(home.folder.glob("postgres.new-*")) == []
    until(lambda: stopped(home))


def test_several_processes_start_at_once(new_home: Callable[[str], EmbeddedPostgres]) -> None:
    home = new_home("home")
    users = [User(home) for _ in range(4)]
    urls = {user.says() for user in users}
    assert urls == {home.server.url()}
    write_a_row(home.server.url())
    log = (home.folder / "postgres.log").read_text()
    assert log.count("ready to accept connections") == 1
    for user in users:
        user.leave()
    until(lambda: stopped(home))


def test_any_client_can_use_the_url_meanwhile(home: EmbeddedPostgres, users: Callable[[], User]) -> None:
    url = users().says()
    psql = home.server.binaries / "psql"
    answer = subprocess.run([psql, url, "-Atc", "select 6 * 7"], capture_output=True, text=True, check=True)
    assert answer.stdout == "42\n"


@pytest.mark.parametrize("name", ["Zürich 議会 it's", '"50%" & a\\b?', "with, comma"])
def test_odd_paths_are_no_trouble(copied_home: Callable[[str], EmbeddedPostgres], name: str) -> None:
    home = copied_home(name)
    with postgres.running(home.folder, LINGER) as url:
        write_a_row(url)
        assert rows(url) == 1


def test_a_path_too_long_for_a_socket_gets_one_elsewhere(copied_home: Callable[[str], EmbeddedPostgres]) -> None:
    home = copied_home("x" * 120)
    with postgres.running(home.folder, LINGER) as url:
        write_a_row(url)
        place = home.server.socket_folder
        assert place.parent == Path(tempfile.gettempdir())
        assert place.stat().st_mode & 0o777 == 0o700
    postgres.stop(home.folder)
    # Somebody else lays out the folder for us, to read along.
    assert not place.exists()
    place.mkdir(mode=0o777)
    place.chmod(0o777)
    assert "belongs to somebody else or is open to others" in refusal(home).what
    shutil.rmtree(place)


def test_no_place_for_the_socket_at_all(
    new_home: Callable[[str], EmbeddedPostgres], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    home = new_home("x" * 120)
    long = tmp_path / ("y" * 110)
    long.mkdir()
    monkeypatch.setenv("TMPDIR", str(long))
    monkeypatch.setattr(tempfile, "tempdir", None)
    error = refusal(home)
    assert "too long for a socket" in error.what
    assert error.remedy == "set CLERK_HOME to a shorter path"


def test_a_folder_with_something_else_in_it_is_left_alone(new_home: Callable[[str], EmbeddedPostgres]) -> None:
    home = new_home("home")
    home.server.data.mkdir(parents=True)
    (home.server.data / "thesis.txt").write_text("irreplaceable")
    assert "is not empty and not a Postgres data directory: move it away" in str(refusal(home))
    assert (home.server.data / "thesis.txt").read_text() == "irreplaceable"


def test_data_of_another_postgres_is_left_alone(new_home: Callable[[str], EmbeddedPostgres]) -> None:
    home = new_home("home")
    home.folder.mkdir(parents=True)
    older = Server(home.server.data, binaries=require_binaries(16))
    older.initialise()
    before = sorted(path.name for path in home.server.data.iterdir())
    assert "was made by Postgres 16, and this clerk brings Postgres 18: dump it" in str(refusal(home))
    assert sorted(path.name for path in home.server.data.iterdir()) == before


def test_a_home_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    error = refusal(EmbeddedPostgres(tmp_path / "file" / "home"))
    assert f"cannot write to {tmp_path}/file/home (Not a directory)" in error.what
    assert "set CLERK_HOME" in error.remedy


@only_linux
def test_a_home_where_nobody_may_write() -> None:
    assert "clerk cannot write to /proc/clerk" in refusal(EmbeddedPostgres(Path("/proc/clerk"))).what


def test_what_postgres_complains_of_is_passed_on(copied_home: Callable[[str], EmbeddedPostgres]) -> None:
    home = copied_home("home")
    with (home.server.data / "postgresql.conf").open("a") as conf:
        conf.write("shared_buffers = 'a lot'\n")
    error = refusal(home)
    assert f"could not start in {home.server.data} (invalid value" in error.what
    assert 'invalid value for parameter "shared_buffers": "a lot"' in error.what


@only_root
def test_root_keeps_its_folders_closed(copied_home: Callable[[str], EmbeddedPostgres]) -> None:
    """Root's server runs as another user, who must get at data in a folder that is closed to all others."""
    home = copied_home("home")
    home.folder.parent.chmod(0o700)
    with postgres.running(home.folder, LINGER) as url:
        write_a_row(url)
        owner = Path(f"/proc/{running_pid(home)}").stat().st_uid
    assert owner != 0
    assert home.folder.parent.stat().st_mode & 0o777 == 0o700


@only_linux
@only_root
def test_a_full_disk_is_called_a_full_disk(new_home: Callable[[str], EmbeddedPostgres]) -> None:
    home = new_home("home")
    home.folder.mkdir(parents=True)
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", home.folder], check=False)
    if mounted.returncode != 0:
        pytest.skip("this machine lets nobody mount a small disk to fill")
    try:
        error = refusal(home)
        assert f"the disk under {home.folder} is full" in error.what
        assert error.remedy.startswith("make room")
        assert [path.name for path in home.folder.iterdir() if path.is_dir()] == []
    finally:
        subprocess.run(["umount", home.folder], check=True)


def test_being_killed_while_making_the_data_leaves_no_harm(new_home: Callable[[str], EmbeddedPostgres]) -> None:
    home = new_home("home")
    user = User(home)
    until(lambda: list(home.folder.glob("postgres.new-*/PG_VERSION")))
    user.kill_with_all_it_started()
    assert not home.server.data.exists(), "nothing half-made has the final name"
    with postgres.running(home.folder, LINGER) as url:
        write_a_row(url)
    assert list(home.folder.glob("postgres.new-*")) == [], "what was left over is gone"


def test_a_folder_called_clerk_is_not_the_package(home: EmbeddedPostgres, tmp_path: Path) -> None:
    (tmp_path / "clerk").mkdir()
    (tmp_path / "clerk" / "__init__.py").write_text("raise SystemExit('not this one')")
    user = User(home, cwd=tmp_path)
    assert user.says() == home.server.url()
    user.leave()


# --- staying and stopping ---------------------------------------------------------------------------------


def test_it_stops_some_time_after_its_last_user(home: EmbeddedPostgres) -> None:
    user = User(home, linger=1.0)
    user.says()
    user.leave()
    left = time.monotonic()
    until(lambda: stopped(home))
    assert time.monotonic() - left >= 1.0


def test_a_new_user_within_that_time_finds_it_running(home: EmbeddedPostgres) -> None:
    for _ in range(2):
        with postgres.running(home.folder, 30):
            pid = running_pid(home)
    assert running_pid(home) == pid
    assert keeper(home)


def test_another_client_keeps_it_up(home: EmbeddedPostgres, users: Callable[[], User]) -> None:
    user = users()
    with psycopg.connect(user.says(), autocommit=True) as foreign:
        user.leave()
        idle_long_enough = f"select clock_timestamp() - backend_start > interval '{LINGER * 4} s' from pg_stat_activity"
        until(
            lambda: foreign.execute(f"{idle_long_enough} where pid = pg_backend_pid()".encode()).fetchone() == (True,)
        )
        assert not stopped(home)
    until(lambda: stopped(home))


def test_start_keeps_it_up_and_stop_ends_that(home: EmbeddedPostgres, users: Callable[[], User]) -> None:
    user = users()
    user.says()
    home.keep_running_file.touch()
    user.leave()
    pid = running_pid(home)
    # It even comes back, should it die.
    os.kill(pid, signal.SIGKILL)
    until(lambda: home.server.pid not in (None, pid) and home.server.answers())
    assert postgres.stop(home.folder, dry_run=True) is True
    assert postgres.stop(home.folder) is True
    assert stopped(home)
    assert not home.keep_running_file.exists()
    assert postgres.stop(home.folder) is False


def test_stop_refuses_while_it_is_used_unless_forced(home: EmbeddedPostgres, users: Callable[[], User]) -> None:
    url = users().says()
    home.keep_running_file.touch()
    with pytest.raises(EmbeddedServerError, match=r"other clerk processes are using .* --force"):
        postgres.stop(home.folder)
    assert home.keep_running_file.exists(), "what was refused changed nothing"
    write_a_row(url)
    assert postgres.stop(home.folder, force=True) is True
    assert stopped(home)
    second = users()
    assert rows(second.says()) == 1


def test_looking_whether_it_is_used_is_never_mistaken_for_use(home: EmbeddedPostgres) -> None:
    """The keeper looks too, four times a second, with the same lock, and holds it alone while it stops the server."""
    home.prepare()
    with home.users_lock.open("a") as somebody:
        fcntl.flock(somebody, fcntl.LOCK_SH)
        assert home.is_used()
        fcntl.flock(somebody, fcntl.LOCK_EX)
        assert not home.is_used()
    assert not home.is_used()


# --- kill -9 ----------------------------------------------------------------------------------------------


def test_a_killed_user_neither_stops_it_nor_keeps_it_up(home: EmbeddedPostgres, users: Callable[[], User]) -> None:
    victim, other = users(), users()
    write_a_row(victim.says())
    pid = running_pid(home)
    victim.kill()
    assert rows(other.says()) == 1
    assert running_pid(home) == pid
    other.kill()
    until(lambda: stopped(home))


def test_the_next_user_replaces_a_killed_keeper(home: EmbeddedPostgres, users: Callable[[], User]) -> None:
    first = users()
    write_a_row(first.says())
    pid, dead = running_pid(home), keeper(home)
    os.kill(dead, signal.SIGKILL)
    until(lambda: home.daemon_pid() is None)
    second = users()
    assert rows(second.says()) == 1
    assert running_pid(home) == pid, "the server was taken over, not started anew"
    assert keeper(home) != dead
    first.leave()
    second.leave()
    until(lambda: stopped(home))


def test_a_user_who_leaves_replaces_a_killed_keeper(home: EmbeddedPostgres, users: Callable[[], User]) -> None:
    user = users()
    user.says()
    os.kill(keeper(home), signal.SIGKILL)
    until(lambda: home.daemon_pid() is None)
    user.leave()
    until(lambda: stopped(home))


def test_a_killed_server_comes_back_for_its_users(home: EmbeddedPostgres, users: Callable[[], User]) -> None:
    url = users().says()
    write_a_row(url)
    pid = running_pid(home)
    os.kill(pid, signal.SIGKILL)
    until(lambda: home.server.pid not in (None, pid) and home.server.answers())
    assert rows(url) == 1, "under the same URL, with what was committed"


def test_it_comes_back_although_a_session_of_the_dead_one_lingers(
    home: EmbeddedPostgres, users: Callable[[], User]
) -> None:
    """Postgres refuses to start while a session of its predecessor still has its memory: the keeper tries again."""
    url = users().says()
    with psycopg.connect(url, autocommit=True) as busy:
        backend = busy.info.backend_pid
        os.kill(backend, signal.SIGSTOP)
        pid = running_pid(home)
        os.kill(pid, signal.SIGKILL)
        log = home.folder / "postgres.keeper.log"
        until(lambda: "still in use" in log.read_text())
        assert not home.server.answers()
        os.kill(backend, signal.SIGCONT)
        until(home.server.answers)


@only_linux
def test_a_process_id_that_is_used_again_is_not_the_server(home: EmbeddedPostgres, users: Callable[[], User]) -> None:
    """After a container's restart the id in a crashed server's lock file is soon somebody else's."""
    user = users()
    write_a_row(user.says())
    os.kill(keeper(home), signal.SIGKILL)
    os.kill(running_pid(home), signal.SIGKILL)
    user.kill()
    until(lambda: home.server.pid is None)
    owner = home.server.data.stat()
    stranger = subprocess.Popen(["sleep", "600"], user=owner.st_uid, group=owner.st_gid)
    try:
        for name in ("postmaster.pid", ".s.PGSQL.5432.lock"):
            file = home.server.data / name
            _, _, rest = file.read_bytes().partition(b"\n")
            file.write_bytes(b"%d\n%s" % (stranger.pid, rest))
        assert postgres.stop(home.folder, force=True) is False, "there is nothing to stop"
        with postgres.running(home.folder, LINGER) as url:
            assert rows(url) == 1
        assert stranger.poll() is None, "and nobody hurt it"
    finally:
        stranger.kill()
        stranger.wait()


def test_a_home_that_was_moved_after_a_crash(copied_home: Callable[[str], EmbeddedPostgres]) -> None:
    home = copied_home("home")
    user = User(home)
    write_a_row(user.says())
    os.kill(keeper(home), signal.SIGKILL)
    os.kill(running_pid(home), signal.SIGKILL)
    user.kill()
    until(lambda: home.server.pid is None)
    moved = EmbeddedPostgres(home.folder.rename(home.folder.with_name("moved")))
    with postgres.running(moved.folder, LINGER) as url:
        assert rows(url) == 1
        assert str(moved.folder) in url
    stop(moved)


def test_the_old_keepers_id_is_never_signalled(home: EmbeddedPostgres, users: Callable[[], User]) -> None:
    """`stop` signals whom the keeper's file names, so a dead keeper's id must not stay in there."""
    user = users()
    user.says()
    os.kill(keeper(home), signal.SIGKILL)
    until(lambda: home.daemon_pid() is None)
    with subprocess.Popen(["sleep", "600"]) as stranger:
        home.daemon_lock.write_text(str(stranger.pid))
        postgres.stop(home.folder, force=True)
        assert stranger.poll() is None
        stranger.kill()


# --- leaving nothing behind ---------------------------------------------------------------------------------


def test_whoever_waits_for_our_output_is_not_kept_waiting(home: EmbeddedPostgres) -> None:
    """`url=$(clerk db url)` ends when the command does, not when the server does."""
    started = time.monotonic()
    user = User(home, linger=60)
    user.leave()
    assert time.monotonic() - started < 30
    assert home.server.pid is not None


@only_linux
def test_neither_server_nor_keeper_keeps_a_file_of_their_starter(home: EmbeddedPostgres) -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        os.set_inheritable(theirs.fileno(), True)
        user = User(home, linger=60, pass_fds=[theirs.fileno()])
        user.says()
        inode = os.fstat(theirs.fileno()).st_ino

        def holds(pid: int) -> bool:
            links = [str(link.readlink()) for link in Path(f"/proc/{pid}/fd").iterdir()]
            return f"socket:[{inode}]" in links

        assert holds(user.process.pid)
        assert not holds(running_pid(home))
        assert not holds(keeper(home))
        user.leave()
