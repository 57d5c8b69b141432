"""Searching the texts of attempts."""

import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from harness.plugins.view.cases import BLOCK_BYTES, TextSearch
from harness.records import Attempt, Message, Score
from tests.store.test_index import attempt
from tests.store.test_index_following import add


def asked(*texts: str) -> dict[str, object]:
    roles = ("user", "assistant")
    return {"messages": [Message(roles[at % 2], text) for at, text in enumerate(texts)]}


AFTER_BLANK = {
    "messages": [Message("system", "Be brief"), Message("user", "Draw"), Message("user", "Again")]
}

ATTEMPTS = [
    attempt("one", text="Größe «x» of an answer"),
    attempt("two", text=None, outcome="error", error='It said C:\\temp "no"\n.'),
    attempt("three", request=asked("Name a zebra."), text="Fine"),
    attempt("four", scores={"rule": Score(False, False, "too many ÄPFEL")}, text="Fine"),
    attempt("five", request=asked("An example", "of few shots", "Question"), text="Fine"),
    attempt("five", 0, 2, request=asked("Question", "Draft", "Improve"), text="Better"),
    attempt("six", 0, 2, request=AFTER_BLANK, text="Fine"),
]


def found(path: Path, query: str) -> list[int]:
    search = TextSearch(path, query)
    search.search_on(path.stat().st_size)
    return search.hits.tolist()


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("an answer", [0]),
        ("ANSWER an", [0]),  # words in any order
        ('"answer an"', []),  # a phrase
        ('"an answer" größe', [0]),
        ("GRÖSSE", [0]),
        ("größe", [0]),
        ("«X»", [0]),
        ("c:\\TEMP", [1]),
        ("outcome", []),  # a key of the JSON, not a text
        ("two", [1]),  # an instance's name
        ("zebra", [2]),
        ("äpfel", [3]),
        ("few shots", []),  # an example in the prompt
        ("question", [4, 5]),
        ("improve draft", [5]),
        ("draw again", [6]),  # a blank answer has no message
        ("brief", []),  # the system message
        ("nowhere", []),
    ],
)
def test_words_are_found_in_any_order_and_case(
    tmp_path: Path, query: str, expected: Sequence[int]
) -> None:
    path = add(tmp_path / "attempts.jsonl", *ATTEMPTS)
    begins = [0]
    for line in path.read_bytes().splitlines(keepends=True):
        begins.append(begins[-1] + len(line))
    assert [begins.index(at) for at in found(path, query)] == expected


def test_a_file_of_many_blocks_is_searched_in_parts(tmp_path: Path) -> None:
    sizes = [BLOCK_BYTES // 3] * 5 + [3 * BLOCK_BYTES, 10, BLOCK_BYTES, 10]
    attempts: list[Attempt] = [
        attempt(f"case{at}", text=f"word {'x' * size} {at}end") for at, size in enumerate(sizes)
    ]
    path = add(tmp_path / "attempts.jsonl", *attempts)
    begins = found(path, "word")
    assert len(begins) == len(sizes)
    assert [found(path, f"{at}END") for at in range(len(sizes))] == [[begin] for begin in begins]
    search, size = TextSearch(path, "word"), path.stat().st_size
    steps = 0
    while search.size < size:
        search.search_on(search.size + 1000)  # at last, beyond the end
        steps += 1
    assert search.hits.tolist() == begins
    assert steps > 3
    search = TextSearch(path, "word")
    search.search_on(size, until=time.monotonic())
    assert search.size == 0
