from collections.abc import Iterator

import pytest

from tests.postgres import Postgres, postgres_server


@pytest.fixture(scope="session")
def server() -> Iterator[Postgres]:
    """A server that all tests share: none may stop it."""
    with postgres_server() as running:
        yield running


@pytest.fixture
def url(server: Postgres) -> str:
    """The URL of a new database for the role ``acme``."""
    return server.database("acme")[0]
