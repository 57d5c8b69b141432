"""`harness prices`."""

import os
from pathlib import Path

import pytest

from tests.cli.command import harness, mistake, words

MINE = """
models.example.org:
  models:
    "[bold]evil\\e[2J": {input: 0.25, output: 1, note: "\\e[31mred"}
api.openai.com:
  models:
    gpt-4: {input: 27.125, output: 54, source: our contract}
"""


def environment(**changes: str) -> dict[str, str]:
    return {k: v for k, v in os.environ.items() if k != "HARNESS_PRICES"} | changes


def test_every_price_is_shown_with_its_source_and_day(tmp_path: Path) -> None:
    ended = harness("prices", env=environment(COLUMNS="80"), cwd=tmp_path)
    assert ended.returncode == 0, ended.stderr
    said = words(ended.stdout)
    assert "gpt-4-0613 30 - 60 15/30 2026-07-30 1" in said
    assert "gpt-4.1 2 0.5 8 1/4 2026-09-02" in said
    assert "1 https://developers.openai.com/api/docs/pricing" in said
    assert "US dollars per million tokens" in said
    assert "HARNESS_PRICES (not set)" in ended.stderr
    assert all(len(line) <= 80 for line in ended.stdout.splitlines())


def test_prices_of_long_calls_have_a_line_of_their_own(tmp_path: Path) -> None:
    ended = harness("prices", "GEMINI-2.5-pro", env=environment(), cwd=tmp_path)
    said = words(ended.stdout)
    assert "gemini-2.5-pro 1.25 0.125 10 0.625/5 2026-07-21 1" in said
    assert "above 200,000 tokens in 2.5 0.25 15 1.25/7.5" in said
    assert "gpt-4" not in said


def test_a_filter_that_nothing_passes_says_so(tmp_path: Path) -> None:
    ended = harness("prices", "no-such-model", env=environment(), cwd=tmp_path)
    assert ended.returncode == 0
    assert not ended.stdout
    assert "'no-such-model'" in ended.stderr


@pytest.mark.parametrize("width", ["40", "80"])
def test_the_users_own_prices_are_marked_and_inert(width: str, tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text(MINE)
    (tmp_path / ".env").write_text("HARNESS_PRICES=mine.yaml\n")
    ended = harness("prices", env=environment(COLUMNS=width), cwd=tmp_path)
    assert ended.returncode == 0, ended.stderr
    assert "\x1b" not in ended.stdout
    said = words(ended.stdout)
    assert "* yours: mine.yaml" in said
    if width == "80":
        assert "gpt-4 27.125 - 54 - - * 2" in said or "gpt-4 27.125 - 54 - - *" in said
        assert "[bold]evil\\x1b[2J 0.25 - 1 - - *" in said
    assert "our contract" in said
    assert "now mine.yaml" in ended.stderr


@pytest.mark.parametrize("text", ["api.openai.com: {models: {gpt-4: {input: x}}}", "", "{"])
def test_a_broken_file_is_a_message(text: str, tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(text)
    said = mistake(harness("prices", env=environment(HARNESS_PRICES=str(path)), cwd=tmp_path))
    assert str(path) in said


def test_a_missing_file_is_a_message(tmp_path: Path) -> None:
    said = mistake(harness("prices", env=environment(HARNESS_PRICES="~/none/x.yaml"), cwd=tmp_path))
    assert "HARNESS_PRICES" in said
    assert "~" not in said
