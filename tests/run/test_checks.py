"""Warnings before the first call."""

import logging

import pytest

from harness.run.checks import check_splitter, warn_of_splitter

OWN = {"dataset": "public", "splitter": "nltk 3.10 punkt, own abbreviations"}


def test_missing_sentence_parameters_are_reported_once_where_published_verdicts_are_expected(
    caplog: pytest.LogCaptureFixture,
) -> None:
    warn_of_splitter.cache_clear()  # a run of another test may have warned
    with caplog.at_level(logging.WARNING, logger="harness"):
        check_splitter(OWN, simulated=True)
        check_splitter(OWN | {"dataset": "builtin"}, simulated=False)
        check_splitter(OWN | {"splitter": "nltk 3.10 punkt_tab english"}, simulated=False)
        check_splitter({"dataset": "public"}, simulated=False)
        assert not caplog.records
        check_splitter(OWN, simulated=False)
        check_splitter(OWN, simulated=False)
    (record,) = caplog.records
    assert "harness data fetch punkt" in record.getMessage()
