"""Fixtures of the analysis, which the tests of the report share."""

from tests.analysis.conftest import make

__all__ = ["make"]
