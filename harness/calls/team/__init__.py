"""Replies, budgets and rate limits that a team shares through PostgreSQL (the extra ``team``).

The database is set by ``HARNESS_CACHE_URL``. Without it, this package is not imported.
"""

from harness.extras import import_extra

import_extra("psycopg", "team")
