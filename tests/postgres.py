"""A PostgreSQL server from the binaries of this machine."""

from __future__ import annotations

import contextlib
import functools
import itertools
import os
import pwd
import shutil
import socket
import subprocess
import tempfile
from pathlib import Path

import pytest

PASSWORD = "correct-horse-battery"
SETTINGS = {"fsync": "off", "max_connections": "60", "shared_buffers": "32MB", "timezone": "UTC"}
GUARD = """
cat
server=$(head -n 1 "$1/data/postmaster.pid") && kill -QUIT "$server"
while kill -0 "$server" && [ -e "$1/data/postmaster.pid" ]; do sleep 0.05; done
rm -rf "$1"
"""
"""Removes the server when its stdin is closed, also because the tests were killed."""


@functools.cache
def binary(name: str) -> str:
    """The path of a server's program: Debian keeps them out of PATH."""
    found = sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{name}"))
    path = shutil.which(name) or (str(found[-1]) if found else "")
    if not path:
        pytest.skip(f"PostgreSQL is not installed: there is no {name}")
    return path


class Postgres:
    """A server on a loopback port, which asks for passwords; its files are in a short path."""

    def __init__(self) -> None:
        self._names = itertools.count()
        self.folder = Path(tempfile.mkdtemp(prefix="harness-pg-"))
        self._guard = subprocess.Popen(
            ["sh", "-c", GUARD, "sh", self.folder],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        self._account: dict[str, object] = {}
        if os.geteuid() == 0:  # it refuses to run as root
            names = {one.pw_name for one in pwd.getpwall()}
            name = "postgres" if "postgres" in names else "nobody"
            shutil.chown(self.folder, name)
            self._account = {
                "user": name,
                "group": pwd.getpwnam(name).pw_gid,
                "extra_groups": [],
            }
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]
        self.data = self.folder / "data"
        options = ["--auth-local=trust", "--auth-host=scram-sha-256", "--username=postgres"]
        options += ["--no-sync", "--encoding=UTF8", "--no-locale"]
        self._run("initdb", "-D", self.data, *options)
        lines = [f"{name} = '{value}'" for name, value in SETTINGS.items()]
        lines += [f"port = {self.port}", "listen_addresses = '127.0.0.1'"]
        lines += [f"unix_socket_directories = '{self.folder}'"]
        with (self.data / "postgresql.conf").open("a") as file:
            file.write("\n".join(lines) + "\n")
        self.start()

    def _run(self, program: str, *arguments: object) -> None:
        subprocess.run(
            [binary(program), *map(str, arguments)],
            check=True,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            cwd=self.folder,
            **self._account,  # type: ignore[call-overload]
        )

    @property
    def running(self) -> bool:
        return (self.data / "postmaster.pid").exists()

    def start(self) -> None:
        self._run("pg_ctl", "-D", self.data, "-w", "-l", self.folder / "log", "start")

    def stop(self, mode: str = "immediate") -> None:
        """Stop the server: without a checkpoint, unless another mode is asked for."""
        self._run("pg_ctl", "-D", self.data, "-m", mode, "-w", "stop")

    def execute(self, statement: str, database: str = "postgres") -> list[tuple[object, ...]]:
        """Execute SQL as the superuser, who sees the rows of all teams."""
        import psycopg

        where = f"host={self.folder} port={self.port} user=postgres dbname={database}"
        with psycopg.connect(where, autocommit=True) as connection:
            found = connection.execute(statement)  # type: ignore[call-overload]
            return found.fetchall() if found.description else []

    def database(self, *teams: str) -> list[str]:
        """Make a database with the tables, and return the URL of each team's role."""
        from harness.plugins.team.database import TeamDatabase

        name = f"d{next(self._names)}"
        self.execute(f"CREATE DATABASE {name}")
        for team in teams:
            with contextlib.suppress(Exception):  # a role belongs to the whole server
                self.execute(f"CREATE ROLE {team} LOGIN PASSWORD '{PASSWORD}'")
        owner = f"postgresql://postgres@/{name}?host={self.folder}&port={self.port}"
        with contextlib.closing(TeamDatabase(owner)) as database:
            database.transact(lambda cursor: None, 0)
        return [self.url(team, name) for team in teams]

    def url(self, team: str, database: str) -> str:
        return f"postgresql://{team}:{PASSWORD}@127.0.0.1:{self.port}/{database}"

    def remove(self) -> None:
        self._guard.communicate()
