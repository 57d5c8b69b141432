import threading
import uuid
from contextlib import closing

import psycopg
import pytest

from harness.errors import ConfigError, StoreFailed
from harness.plugins.team.database import MIGRATIONS, TeamDatabase, TeamUnreachable
from tests.postgres import PASSWORD, Postgres

INSERT = "INSERT INTO harness.replies (key, reply, backend, model, created) VALUES (%s,%s,'','',0)"


def put(url: str, key: bytes, text: bytes = b"reply") -> None:
    with closing(TeamDatabase(url)) as database:
        database.transact(lambda cursor: cursor.execute(INSERT, [key, text]), 0)


def replies(url: str) -> list[tuple[object, ...]]:
    with closing(TeamDatabase(url)) as database:
        return database.transact(
            lambda cursor: cursor.execute("SELECT key, reply FROM harness.replies").fetchall(), 0
        )


def test_clients_that_connect_at_the_same_time_make_the_tables_once(postgres: Postgres) -> None:
    postgres.execute("CREATE DATABASE together")
    where = f"postgresql://postgres@/together?host={postgres.folder}&port={postgres.port}"
    failures: list[BaseException] = []

    def open_it() -> None:
        try:
            with closing(TeamDatabase(where)) as database:
                database.transact(lambda cursor: cursor.execute("SELECT 1"), 0)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=open_it) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    found = postgres.execute("SELECT max(version) FROM harness.versions", "together")
    assert found == [(len(MIGRATIONS),)]


def test_teams_do_not_see_each_others_rows(postgres: Postgres) -> None:
    acme, other = postgres.database("acme", "other")
    put(acme, b"same", b"of acme")
    put(other, b"same", b"of other")
    assert replies(acme) == [(b"same", b"of acme")]
    assert replies(other) == [(b"same", b"of other")]


def test_a_team_cannot_write_rows_of_another(postgres: Postgres) -> None:
    acme, _ = postgres.database("acme", "other")
    with psycopg.connect(acme) as connection, pytest.raises(psycopg.errors.InsufficientPrivilege):
        connection.execute(
            "INSERT INTO harness.replies VALUES ('other', 'key', 'reply', '', '', 0)"
        )


@pytest.mark.parametrize("statement", ["DELETE FROM {}", "TRUNCATE {}", "DROP TABLE {}"])
def test_no_team_may_delete(postgres: Postgres, url: str, statement: str) -> None:
    tables = [row[0] for row in postgres.execute(TABLES, url.rpartition("/")[2])]
    assert len(tables) >= 6
    for table in tables:
        with psycopg.connect(url) as team, pytest.raises(psycopg.errors.InsufficientPrivilege):
            team.execute(statement.format(f"harness.{table}"))  # type: ignore[call-overload]


TABLES = "SELECT tablename FROM pg_tables WHERE schemaname = 'harness'"


@pytest.mark.parametrize("change", ["replies SET reply = ''", "payments SET usd = 0"])
def test_replies_and_payments_cannot_be_changed(url: str, change: str) -> None:
    with psycopg.connect(url) as team, pytest.raises(psycopg.errors.InsufficientPrivilege):
        team.execute(f"UPDATE harness.{change}")  # type: ignore[call-overload]


def test_every_table_of_rows_shows_own_rows_only(postgres: Postgres, url: str) -> None:
    query = """
        SELECT relname FROM pg_class JOIN pg_namespace n ON n.oid = relnamespace
        WHERE nspname = 'harness' AND relkind = 'r' AND NOT (relrowsecurity AND relforcerowsecurity)
    """
    assert postgres.execute(query, url.rpartition("/")[2]) == [("versions",)]


def test_a_member_works_for_his_team_under_a_login_of_his_own(postgres: Postgres) -> None:
    (acme,) = postgres.database("acme")
    postgres.execute(f"CREATE ROLE ann LOGIN PASSWORD '{PASSWORD}' IN ROLE acme")
    put(acme.replace("acme", "ann") + "?options=-crole%3Dacme", b"key")
    assert replies(acme) == [(b"key", b"reply")]


def test_work_continues_after_a_restart_of_the_server(postgres: Postgres) -> None:
    (url,) = postgres.database("acme")
    said: list[str] = []
    with closing(TeamDatabase(url, said.append)) as database:
        database.transact(lambda cursor: cursor.execute("SELECT 1"), 0)
        postgres.stop()
        began = threading.Event()
        timer = threading.Timer(0.5, lambda: (began.set(), postgres.start()))
        timer.start()
        row = database.transact(lambda cursor: cursor.execute("SELECT 2").fetchone(), 60)
        timer.join()
    assert began.is_set()
    assert row == (2,)


def test_a_server_that_is_down_is_an_error_without_the_password(postgres: Postgres) -> None:
    (url,) = postgres.database("acme")
    postgres.stop()
    with closing(TeamDatabase(url)) as database, pytest.raises(TeamUnreachable) as raised:
        database.transact(lambda cursor: None, 0)
    assert "refused" in str(raised.value)
    assert f"127.0.0.1:{postgres.port}/" in str(raised.value)
    assert PASSWORD not in repr(raised.value) + str(raised.value)


def test_a_wrong_password_ends_the_wait(postgres: Postgres, url: str) -> None:
    wrong = f"wrong-{uuid.uuid4().hex}"
    with (
        closing(TeamDatabase(url.replace(PASSWORD, wrong))) as database,
        pytest.raises(TeamUnreachable, match="authentication failed") as raised,
    ):
        database.transact(lambda cursor: None, 3600)
    assert wrong not in str(raised.value)


def test_closing_ends_the_wait_for_a_server(postgres: Postgres) -> None:
    (url,) = postgres.database("acme")
    postgres.stop()
    database = TeamDatabase(url)
    threading.Timer(0.3, database.close).start()
    with pytest.raises(TeamUnreachable):
        database.transact(lambda cursor: None, 3600)


MALFORMED = (
    "postgresql://u:topsecret@[",
    "postgresql://u:topsecret@h/d?x=y",
    "postgresql://u:abc/topsecret@h/d",
    "postgresql://u:topsecret/5@h:5432/d",
)


@pytest.mark.parametrize("url", MALFORMED)
def test_a_malformed_url_is_not_quoted(url: str) -> None:
    with pytest.raises(ConfigError, match="HARNESS_CACHE_URL") as raised:
        TeamDatabase(url)
    assert "topsecret" not in str(raised.value)


def test_tables_of_a_newer_version_are_refused(postgres: Postgres, url: str) -> None:
    postgres.execute("INSERT INTO harness.versions VALUES (1000)", url.rpartition("/")[2])
    with closing(TeamDatabase(url)) as database, pytest.raises(StoreFailed, match="newer harness"):
        database.transact(lambda cursor: None, 0)


def test_a_role_without_rights_to_make_the_tables_says_who_has_them(postgres: Postgres) -> None:
    postgres.database("acme")
    postgres.execute("CREATE DATABASE bare")
    with (
        closing(TeamDatabase(postgres.url("acme", "bare"))) as database,
        pytest.raises(StoreFailed, match="database's owner"),
    ):
        database.transact(lambda cursor: None, 0)
