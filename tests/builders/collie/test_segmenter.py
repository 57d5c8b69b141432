"""From documents to strings: what is filtered, cleaned, joined and drawn."""

from collections import Counter
from typing import Any

import pytest

from harness.builders.collie.extraction import Segmenter, Yield
from harness.builders.collie.source import Source
from harness.records import Document
from harness.scoring import punkt
from harness.scoring.constraints.check import Splitter
from harness.scoring.constraints.grammar import Level

UNITS = Splitter(punkt.own(), punkt.word_tokens)
TEXT = """TITLE

It rained
all day. It did so again.

See example.org for it. It is long.

The _second_ [9] one.  Why? It is
another one.

| a table. of two words |

So it went on. It ended."""
LEVELS: tuple[Level, ...] = ("sentence", "paragraph", "passage")


def built(seed: int = 0, **source: Any) -> Segmenter:
    rules = {
        "name": "mine",
        "load": "text",
        "filters": ["capitals", "url", "no_sentence"],
        "passage_filters": ["table"],
        "post_processors": ["markdown", "brackets", "single_newlines", "white_space"],
    }
    return Segmenter(Source.model_validate({**rules, **source}), UNITS, seed)


def strings(text: str, seed: int = 0, **source: Any) -> tuple[dict[Level, set[str]], Yield]:
    levels = source.get("levels", LEVELS)
    found = built(seed, **source).segment(Document("a", text), levels)
    assert all(len(set(each)) == len(each) for each in found.strings.values())
    return {level: set(each) for level, each in found.strings.items()}, found


def test_paragraphs_sentences_and_passages() -> None:
    found, seen = strings(TEXT)
    assert found["paragraph"] == {
        "It rained all day. It did so again.",
        "The second one. Why? It is another one.",
        "| a table. of two words |",
        "So it went on. It ended.",
    }
    # Without a period, or of two words, a sentence is none.
    assert found["sentence"] == {
        "It rained all day.", "It did so again.", "The second one.", "It is another one.",
        "So it went on.", "| a table.", "of two words |",
    } - {"of two words |"}  # fmt: skip
    assert seen.paragraphs == 6
    assert seen.filtered["paragraph"] == Counter(capitals=1, url=1)
    assert seen.filtered["sentence"]["no_sentence"] == 3
    # Every paragraph stands alone between others that were left out: no passage.
    assert found["passage"] == set()


def test_passages_are_made_of_paragraphs_in_a_row() -> None:
    rows = [f"This is paragraph {n} of them." for n in range(11)]
    text = "\n\n".join([*rows[:7], "HEADING", *rows[7:9], "HEADING", rows[9], "HEADING", rows[10]])
    found, _ = strings(text, passages=None)
    assert found["passage"] == {"\n\n".join(rows[:7]), "\n\n".join(rows[7:9])}
    assert strings("\n\n".join(rows[:3]), passages={"from": 2, "to": 3})[0]["passage"] == {
        "\n\n".join(rows[:3])
    }
    assert strings("\n\n".join(rows[:2]), passages={"from": 3, "to": 4})[0]["passage"] == set()
    for seed in range(5):
        found, _ = strings(text, seed, passages={"from": 2, "to": 3})
        for passage in found["passage"]:
            assert 2 <= len(passage.split("\n\n")) <= 3
            assert passage in text
        # Rows of seven and of two: all of their paragraphs are in one.
        assert sum(len(passage.split("\n\n")) for passage in found["passage"]) == 9
    pieces = [frozenset(strings(text, seed)[0]["passage"]) for seed in range(5)]
    assert len(set(pieces)) > 1


def test_only_so_many_are_drawn_by_the_seed() -> None:
    text = "\n\n".join(f"This is paragraph {n} of them." for n in range(300))
    segment = built(strings=10)
    drawn = segment.segment(Document("a", text), LEVELS).strings
    assert {level: len(each) for level, each in drawn.items()} == dict.fromkeys(LEVELS, 10)
    assert drawn == segment.segment(Document("a", text), LEVELS).strings
    assert drawn != built(seed=1, strings=10).segment(Document("a", text), LEVELS).strings
    everything, _ = strings(text, strings=None)
    assert len(everything["paragraph"]) == 300
    # What is drawn of a part of the text is drawn of the whole, or gives way to others.
    part = built(strings=10).segment(Document("a", text[: len(text) // 2]), LEVELS).strings
    assert set(drawn["paragraph"]) & set(everything["paragraph"]) == set(drawn["paragraph"])
    assert set(part["paragraph"]) & set(drawn["paragraph"])


def test_words_of_a_list_and_of_text() -> None:
    found, _ = strings("lantern\n\n  bird \nbird's\n", levels=("word",), delimiter="\n", filters=[])
    assert found["word"] == {"lantern", "bird", "bird's"}
    found, _ = strings("Snow fell, 3 times; it's over.", levels=("word",))
    assert found["word"] == {"Snow", "fell", "times", "it", "over"}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "\n\n\n\n",
        "x" * 30_000 + ".",
        "\0\n\n\x1b[2J",
        "a. " * 9_000,
        "[]" * 50,
        "﷽\u202e. a b c",
    ],
    ids=range(7),
)
def test_any_text_is_taken(text: str) -> None:
    found, seen = strings(text)
    assert all(part.strip() == part and part for each in found.values() for part in each)
    assert sum(seen.filtered["paragraph"].values()) <= seen.paragraphs


def test_long_paragraphs_and_empty_ones_are_counted() -> None:
    _, seen = strings("a b c. " * 9_000 + "\n\n[It is a note.]", longest=1_000)
    assert seen.filtered["paragraph"] == Counter({"too long": 1, "empty": 1})


def test_filters_of_one_name_are_told_apart() -> None:
    rules = [{"name": "pattern", "pattern": "a"}, {"name": "pattern", "pattern": "b"}]
    _, seen = strings("x b.\n\nx a.\n\ny b", filters=rules)
    assert seen.filtered["paragraph"] == Counter({"pattern": 1, "pattern 2": 2})


def test_paragraphs_that_no_passage_is_made_of_are_counted() -> None:
    rows = [f"This is paragraph {n} of them." for n in range(5)]
    text = "\n\n".join([*rows[:3], "| a table. of two words |", *rows[3:], "TITLE"])
    found, seen = strings(text, passages=None)
    assert len(found["passage"]) == 2
    assert seen.filtered["passage"] == Counter(table=1)
    assert seen.filtered["paragraph"] == Counter(capitals=1)
    _, seen = strings(text, levels=("paragraph",))
    assert "passage" not in seen.filtered
