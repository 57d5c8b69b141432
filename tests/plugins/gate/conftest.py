"""Attempts and tables of them, as in the tests of the analysis."""

from tests.analysis.conftest import make, table_of

__all__ = ["make", "table_of"]
