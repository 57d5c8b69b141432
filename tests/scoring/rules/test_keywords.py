"""Which words count as the quoted one."""

from __future__ import annotations

import pytest

from harness.scoring.rules import recognise


@pytest.mark.parametrize(
    ("constraint", "text", "reason"),
    [
        ('Include the word "run".', "Run!", ""),
        ('Include the word "run".', "running, rerun", "there is no 'run'"),
        ('Include the word "run".', "a run-up", ""),
        ('Include the word "don\'t".', "We don\u2019t.", ""),
        ('Include the phrase "the end".', "THE\n  end", ""),
        ('Include the exact phrase "The End".', "the end", "there is no 'The End'"),
        ('Include the words "a" and "b".', "a", "there is no 'b'"),
        ('Do not use the word "hate".', "I hated it", ""),
        ('Do not use the word "hate".', "Hate!", "there is 'hate'"),
        ('Do not use the words "x" or "y".', "y", "there is 'y'"),
        ('Use the word "go" at least twice.', "Go, go", ""),
        ('Use the word "go" at least twice.', "Go, gone", "'go' 1 times, not at least 2"),
        ('Use the word "go" only once.', "go go", "'go' 2 times, not exactly 1"),
        ('Use the term "C++" at most twice.', "C++ C++ C++", "'C++' 3 times, not at most 2"),
    ],
)
def test_words(constraint: str, text: str, reason: str) -> None:
    rule = recognise(constraint)
    assert rule is not None
    assert rule.check(text) == reason
