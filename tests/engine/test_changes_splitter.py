"""Warnings before the first call."""

import logging
from pathlib import Path

import pytest

from harness.engine.changes import warn_of_splitter

OWN = {"dataset": "public", "splitter": "nltk 3.10 punkt, own abbreviations"}


def test_missing_sentence_parameters_are_reported_once_where_published_verdicts_are_expected(
    caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    cache = tmp_path / "cache"  # of the machine
    with caplog.at_level(logging.WARNING, logger="harness"):
        warn_of_splitter(OWN, cache, simulated=True)
        warn_of_splitter(OWN | {"dataset": "builtin"}, cache, simulated=False)
        warn_of_splitter(OWN | {"splitter": "nltk 3.10 punkt_tab english"}, cache, simulated=False)
        warn_of_splitter({"dataset": "public"}, cache, simulated=False)
        assert not caplog.records
        warn_of_splitter(OWN, cache, simulated=False)
        warn_of_splitter(OWN, cache, simulated=False)
    (record,) = caplog.records
    assert "harness data fetch punkt" in record.getMessage()
