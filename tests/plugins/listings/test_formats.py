"""The listings in other formats, and in the form of a run file."""

import json

import pytest

from tests.cli.command import harness, mistake


@pytest.mark.parametrize(
    "listing",
    ["configs", "tasks", "backends", "checkers", "judges", "checkers word_count", "prices gpt-4o"],
)
def test_a_listing_is_also_json(listing: str) -> None:
    ended = harness(*listing.split(), "--format", "json")
    assert ended.returncode == 0, ended.stderr
    assert json.loads(ended.stdout)


def test_a_checker_is_shown_as_a_run_file_has_it() -> None:
    said = harness("checkers", "word_count").stdout
    assert "checks: [{word_count: {exactly: 3}}]" in said
    assert "at_most" in said
    assert "Did you mean 'word_count'?" in mistake(harness("checkers", "wordcount"))
    said = harness("judges", "yes_no").stdout
    assert "judges: [{name: yes_no, model: {backend: openai, name: gpt-4o-mini}}]" in said
