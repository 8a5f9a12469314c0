"""Functions, triggers and views are recreated from their files, in the transaction of the migration they need."""

from __future__ import annotations

import psycopg
import pytest

from clerk.db.migrations.migrate import Migrator, read_state
from clerk.db.migrations.sqlfiles import SqlFolder
from clerk.db.migrations.verify import require_known_schema, require_triggers, verify_schema
from clerk.errors import MigrationError
from tests.db.conftest import SqlFolderBuilder
from tests.db.schema import schema_lines

THINGS = "create table things (id int primary key, name text);"
ONE = "-- needs: 0001\ncreate or replace function one() returns int language sql as $$ select 1 $$;"


@pytest.fixture
def things(sql_folder: SqlFolderBuilder) -> SqlFolderBuilder:
    sql_folder.migration("things", THINGS, "drop table things;")
    return sql_folder


def up(connection: psycopg.Connection, sql_folder: SqlFolderBuilder) -> list[str]:
    return [str(step) for step in Migrator(connection, sql_folder.folder).up()]


def value(connection: psycopg.Connection, query: str) -> object:
    row = connection.execute(query.encode()).fetchone()
    assert row is not None
    return row[0]


def exists(connection: psycopg.Connection, table_or_view: str) -> bool:
    return value(connection, f"select to_regclass('public.{table_or_view}') is not null") is True


def test_an_edited_file_is_applied_again(empty: psycopg.Connection, things: SqlFolderBuilder) -> None:
    things.write("functions/one.sql", ONE)
    up(empty, things)
    assert value(empty, "select one()") == 1
    things.write("functions/one.sql", ONE.replace("select 1", "select 11"))
    assert up(empty, things) == ["replace function one"]
    assert value(empty, "select one()") == 11
    assert up(empty, things) == []


def test_a_failing_function_rolls_its_migration_back(empty: psycopg.Connection, things: SqlFolderBuilder) -> None:
    up(empty, things)
    name = things.migration("others", "create table others (id int);", "drop table others;")
    things.write("functions/broken.sql", "-- needs: 0002\ncreate function broken() returns int as $$ nonsense $$;")
    with pytest.raises(MigrationError, match=r"sql/functions/broken.sql failed \(no language specified"):
        up(empty, things)
    assert read_state(empty).version == 1
    assert not exists(empty, "others")

    things.remove("functions/broken.sql")
    assert up(empty, things) == [f"apply {name}"]


def test_objects_without_a_file_are_dropped(empty: psycopg.Connection, things: SqlFolderBuilder) -> None:
    things.write(
        "functions/on_thing.sql",
        "-- needs: 0001\ncreate or replace function on_thing() returns trigger language plpgsql"
        " as $$ begin new.name := 'x'; return new; end $$;",
    )
    things.write(
        "triggers/thing_comes.sql",
        "-- needs: 0001\ncreate or replace trigger thing_comes before insert on things"
        " for each row execute function on_thing();",
    )
    things.write("views/seen.sql", "-- needs: 0001\ncreate view seen as select id from things;")
    up(empty, things)
    empty.execute("insert into things (id) values (1)")
    assert value(empty, "select name from things") == "x"

    for file in ("functions/on_thing.sql", "triggers/thing_comes.sql", "views/seen.sql"):
        things.remove(file)
    assert sorted(up(empty, things)) == ["drop function on_thing", "drop trigger thing_comes", "drop view seen"]
    assert not exists(empty, "seen")
    assert value(empty, "select count(*) from pg_proc where proname = 'on_thing'") == 0
    empty.execute("insert into things (id) values (2)")
    assert value(empty, "select name from things where id = 2") is None


def test_a_function_that_is_still_used_is_not_dropped(empty: psycopg.Connection, things: SqlFolderBuilder) -> None:
    things.write("functions/one.sql", ONE)
    up(empty, things)
    empty.execute("alter table things add column n int default one()")
    things.remove("functions/one.sql")
    with pytest.raises(
        MigrationError, match=r"function one must be dropped, .*default value for column n of table things"
    ):
        up(empty, things)
    assert value(empty, "select one()") == 1


def test_files_may_refer_to_each_other_in_any_order(empty: psycopg.Connection, things: SqlFolderBuilder) -> None:
    """Views use other views, and Postgres checks the calls in SQL functions when it creates them."""
    things.write("views/a_top.sql", "-- needs: 0001\ncreate view a_top as select id from m_middle;")
    things.write("views/m_middle.sql", "-- needs: 0001\ncreate view m_middle as select id from z_ground;")
    things.write(
        "views/z_ground.sql", "-- needs: 0001\ncreate view z_ground as select id from things where id > two();"
    )
    things.write(
        "functions/caller.sql",
        "-- needs: 0001\ncreate or replace function caller() returns int language sql as $$ select two() $$;",
    )
    things.write(
        "functions/two.sql",
        "-- needs: 0001\ncreate or replace function two() returns int language sql as $$ select 2 $$;",
    )
    up(empty, things)
    empty.execute("insert into things (id) values (2), (3)")
    assert value(empty, "select array_agg(id) from a_top") == [3]
    assert value(empty, "select caller()") == 2


def test_a_view_on_a_missing_table_is_named(empty: psycopg.Connection, things: SqlFolderBuilder) -> None:
    things.write("views/lost.sql", "-- needs: 0001\ncreate view lost as select * from nowhere;")
    with pytest.raises(MigrationError, match=r'sql/views/lost.sql failed \(relation "nowhere" does not exist'):
        up(empty, things)
    assert read_state(empty).version == 0


def test_a_views_column_list_may_change(empty: psycopg.Connection, things: SqlFolderBuilder) -> None:
    things.write("views/seen.sql", "-- needs: 0001\ncreate view seen as select id, name from things;")
    things.write("views/summed.sql", "-- needs: 0001\ncreate view summed as select count(*) from seen;")
    up(empty, things)
    things.write("views/seen.sql", "-- needs: 0001\ncreate view seen as select name as called from things;")
    assert up(empty, things) == ["replace view seen"]
    assert value(empty, "select count(called) from seen") == 0
    assert exists(empty, "summed")


def test_manual_grants_on_a_view_are_kept(empty: psycopg.Connection, things: SqlFolderBuilder) -> None:
    things.write("views/seen.sql", "-- needs: 0001\ncreate view seen as select id from things;")
    up(empty, things)
    empty.execute("grant select on seen to pg_monitor with grant option; grant select on seen to public")
    before = schema_lines(empty, things.folder)
    things.write("functions/one.sql", ONE)
    up(empty, things)
    assert [line for line in schema_lines(empty, things.folder) if " on seen" in line] == [
        line for line in before if " on seen" in line
    ]
    assert value(empty, "select has_table_privilege('pg_monitor', 'seen', 'select with grant option')") is True


def test_a_foreign_view_on_a_clerk_view_is_named(empty: psycopg.Connection, things: SqlFolderBuilder) -> None:
    things.write("views/seen.sql", "-- needs: 0001\ncreate view seen as select id from things;")
    up(empty, things)
    empty.execute("create view theirs as select * from seen")
    before = schema_lines(empty, things.folder)
    things.write("functions/one.sql", ONE)
    with pytest.raises(MigrationError, match=r"depends on one of clerk's views .*view theirs depends on view seen"):
        up(empty, things)
    assert schema_lines(empty, things.folder) == before


def test_changed_arguments_without_a_drop_are_refused(empty: psycopg.Connection, things: SqlFolderBuilder) -> None:
    things.write("functions/one.sql", ONE)
    up(empty, things)
    things.write("functions/one.sql", ONE.replace("one()", "one(p_more int)"))
    with pytest.raises(MigrationError, match=r"after sql/functions/one.sql there are 2 objects of that name"):
        up(empty, things)
    assert value(empty, "select one()") == 1

    things.migration("arguments", "drop function one();", "drop function one(int);")
    things.write("functions/one.sql", ONE.replace("one()", "one(p_more int)").replace("0001", "0002"))
    up(empty, things)
    assert value(empty, "select one(5)") == 1


def test_a_file_must_be_named_after_its_object(empty: psycopg.Connection, things: SqlFolderBuilder) -> None:
    things.write("functions/uno.sql", ONE)
    with pytest.raises(MigrationError, match=r"after sql/functions/uno.sql there are 0 objects of that name"):
        up(empty, things)


@pytest.mark.parametrize("opening", ["", "-- needs: soon\n", "-- A comment first.\n-- needs: 0001\n"])
def test_a_file_must_name_the_migration_it_needs(
    empty: psycopg.Connection, things: SqlFolderBuilder, opening: str
) -> None:
    things.write("functions/one.sql", ONE.replace("-- needs: 0001\n", opening))
    with pytest.raises(MigrationError, match=r"sql/functions/one.sql does not say which migration it needs"):
        up(empty, things)
    assert read_state(empty).kind == "empty"


def test_down_drops_objects_that_need_the_migration(empty: psycopg.Connection, things: SqlFolderBuilder) -> None:
    things.migration("others", "create table others (id int);", "drop table others;")
    things.write("functions/one.sql", ONE)
    things.write(
        "functions/two.sql",
        "-- needs: 0002\ncreate or replace function two() returns others language sql as $$ select * from others $$;",
    )
    things.write("views/joined.sql", "-- needs: 0002\ncreate view joined as select o.id from others o, things;")
    things.write("views/seen.sql", "-- needs: 0001\ncreate view seen as select id from things;")
    up(empty, things)
    Migrator(empty, things.folder).down(1)
    assert value(empty, "select one()") == 1
    assert exists(empty, "seen")
    assert not exists(empty, "joined")
    assert value(empty, "select count(*) from pg_proc where proname = 'two'") == 0


def test_a_migration_may_change_a_table_that_views_use(empty: psycopg.Connection, things: SqlFolderBuilder) -> None:
    things.write("views/seen.sql", "-- needs: 0001\ncreate view seen as select id, name from things;")
    up(empty, things)
    things.migration(
        "wider", "alter table things alter column id type bigint;", "alter table things alter column id type int;"
    )
    up(empty, things)
    assert value(empty, "select pg_typeof(id)::text from (select max(id) as id from seen) s") == "bigint"
    Migrator(empty, things.folder).down(1)
    assert exists(empty, "seen")


@pytest.mark.parametrize(
    "by_hand",
    [
        "create or replace function one() returns int language sql as $$ select 2 $$",
        "alter function one() immutable",
        "alter function one() security definer",
        "alter function one() set search_path = nowhere",
        "create function one(int) returns int language sql as $$ select 2 $$",
        "drop function one()",
    ],
)
def test_a_function_changed_by_hand_is_detected(
    empty: psycopg.Connection, things: SqlFolderBuilder, by_hand: str
) -> None:
    things.write("functions/one.sql", ONE)
    up(empty, things)
    require_known_schema(empty, things.folder)
    empty.execute(by_hand.encode())
    with pytest.raises(MigrationError, match=r"function one (was changed by hand|is missing)"):
        require_known_schema(empty, things.folder)


def test_dropped_or_disabled_objects_are_recreated(connection: psycopg.Connection, folder: SqlFolder) -> None:
    """`clerk db up` is the remedy in the error of workers that refuse to start without the triggers."""
    connection.execute("drop trigger clerk_fence on procrastinate_jobs")
    connection.execute("alter table procrastinate_jobs disable trigger clerk_record_change")
    connection.execute("alter table procrastinate_jobs enable replica trigger clerk_record_delete")
    connection.execute("drop view recent_repairs; drop function clerk_notify_queue")
    migrator = Migrator(connection, folder)
    assert {str(step) for step in migrator.plan()} == {
        "recreate trigger clerk_fence",
        "recreate trigger clerk_record_change",
        "recreate trigger clerk_record_delete",
        "recreate view recent_repairs",
        "recreate function clerk_notify_queue",
    }
    migrator.up()
    assert migrator.plan() == []
    require_triggers(connection)
    assert [problem for check in verify_schema(connection, folder) for problem in check.problems] == []
