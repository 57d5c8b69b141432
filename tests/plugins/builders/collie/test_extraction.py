"""Extraction: strings from documents, the recorded targets, and yields in any order."""

import json
from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.plugins.benchmarks import punkt
from harness.plugins.benchmarks.collie.constraints.check import Splitter, check
from harness.plugins.benchmarks.collie.constraints.grammar import Level, Target
from harness.plugins.benchmarks.collie.task import CollieItem, read_items
from harness.plugins.builders.collie.extraction import (
    Candidate,
    ExtractionPlan,
    Segmenter,
    Yield,
    chosen,
    extract,
    merge,
)
from harness.plugins.builders.collie.source import Source
from harness.plugins.builders.collie.structure import PAPER, Options, find_structures, satisfying
from harness.plugins.builders.draws import Draws
from harness.records import Document
from tests.plugins.benchmarks.collie.nltk_reference import english

OTHERWISE = {"ccnews_c10/28", "guten_c07/7", "wiki_c10/56", "wiki_c10/62", "wiki_c11/17"}
"""Instances whose text passes, but has a word more, or the same word twice, with today's NLTK."""


@pytest.fixture
def published(data_dir: Path) -> list[CollieItem]:
    return list(read_items(data_dir / "collie" / "instances.jsonl"))


def among(target: Target, options: Options) -> bool:
    """Whether each target is one that its text gives; a recorded one may be a list of one."""
    if isinstance(options, list):
        return target in options or (target in [(option,) for option in options])
    assert isinstance(target, tuple)
    return all(map(among, target, options))


def test_the_recorded_targets_come_out_of_the_recorded_texts(
    published: list[CollieItem], data_dir: Path
) -> None:
    recorded = json.loads((data_dir / "collie" / "expected_examples.json").read_text())
    passing = set(recorded["examples_passing"])
    units = english()
    structures = {structure.name: structure for structure in find_structures([PAPER])}
    given_back: Counter[str] = Counter()
    otherwise = set()
    for item in published:
        if item.id not in passing or item.example is None:
            continue
        structure = structures[item.structure]
        assert structure.constraints == (item.specification.constraint,)
        found = satisfying(
            item.specification.constraint, structure.rules, item.example, units, lambda: Draws(0)
        )
        if item.structure == "sent04" and found is not None:  # drawn: any three of the text's words
            assert isinstance(found, list)
            ours = extract(structure, item.example, units, seed=0)
            assert ours is not None
            given_back[item.structure] += check(ours, item.example, units).passed
        elif found is not None and among(item.specification.targets, found):
            given_back[item.structure] += 1
        else:
            otherwise.add(item.id)
    assert otherwise == OTHERWISE
    assert given_back.total() == len(passing) - len(OTHERWISE) == 2_055
    assert len(given_back) == 13


def test_every_extracted_target_is_satisfied(published: list[CollieItem]) -> None:
    units = english()
    structures = find_structures([PAPER])
    found = 0
    for item in published[::10]:
        for structure in structures:
            if structure.level != item.specification.level or item.example is None:
                continue
            specification = extract(structure, item.example, units, seed=7)
            if specification is not None:
                found += 1
                assert check(specification, item.example, units).passed
                assert specification == extract(structure, item.example, units, seed=7)
    assert found > 300


def candidate(number: int, target: int) -> Candidate:
    return Candidate(f"text {number}", {"targets": target}, f"document {number}", {})


CORPUS = st.lists(st.integers(0, 7), max_size=40).map(
    lambda targets: [candidate(number, target) for number, target in enumerate(targets)]
)


@given(CORPUS, st.integers(1, 12), st.randoms(use_true_random=False), st.integers(1, 5))
def test_the_parts_give_what_the_whole_gives(
    corpus: list[Candidate], most: int, random: Random, parts: int
) -> None:
    whole = chosen(corpus, most, 0)
    assert len(whole) == min(most, len(corpus))
    shuffled = sorted(corpus, key=lambda _: random.random())
    assert chosen(shuffled, most, 0) == whole
    found = Yield()
    for part in range(parts):
        some = Yield(candidates={"s": chosen(shuffled[part::parts], most, 0)})
        merge(found, some, ExtractionPlan([], {}, {}, 0, most, "", ""))
    assert found.candidates["s"] == whole


@given(CORPUS, st.integers(1, 12))
def test_as_many_different_targets_as_there_are(corpus: list[Candidate], most: int) -> None:
    there = {one.plain["targets"] for one in corpus}
    assert len({one.plain["targets"] for one in chosen(corpus, most, 0)}) == min(most, len(there))


def test_no_text_is_there_twice_and_the_seed_draws() -> None:
    corpus = [candidate(number, 1) for number in range(50)]
    again = [Candidate(one.text, {"targets": 1}, "a copy", {}) for one in corpus]
    both = chosen([*corpus, *again], 100, 0)
    assert len(both) == 50
    assert {one.document for one in both} == {"a copy"}  # always the first by name
    assert chosen(corpus, 5, seed=1) != chosen(corpus, 5, seed=2)


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
