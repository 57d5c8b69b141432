"""Fixtures of the analysis, which the tests of figures share."""

from tests.analysis.conftest import make, table_of

__all__ = ["make", "table_of"]
