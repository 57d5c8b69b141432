import pytest

from tests.postgres import Postgres


@pytest.fixture
def url(postgres: Postgres) -> str:
    """The URL of a new database for the role ``acme``."""
    return postgres.database("acme")[0]
