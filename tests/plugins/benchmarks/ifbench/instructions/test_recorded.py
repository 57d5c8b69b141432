"""IFBench: the published code's verdicts on recorded answers, edge cases and its own unit tests."""

import json
import sys
from pathlib import Path
from string import ascii_uppercase
from typing import Any

import nltk
import pytest

from harness.datasets.folder import read_jsonl
from harness.plugins.benchmarks.ifbench.instructions import language_data
from harness.plugins.benchmarks.ifeval.instructions import BLANK, instruction, judge

pytestmark = pytest.mark.usefixtures("punkt_data")


@pytest.fixture
def folder(data_dir: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    found = data_dir / "ifbench"
    if not found.is_dir():
        pytest.skip("no recorded answers to IFBench")
    monkeypatch.setattr(nltk.data, "path", [*nltk.data.path, str(found / "nltk_data")])
    language_data.stopwords.cache_clear()
    language_data._tagger.cache_clear()
    return found


def test_recorded_answers_get_the_official_verdicts(folder: Path) -> None:
    prompts = {row["prompt"].strip(): row for row in read_jsonl(folder / "IFBench_test.jsonl")}
    expected = {row["key"]: row for row in read_jsonl(folder / "expected_sample_output.jsonl")}
    aggregates = json.loads((folder / "expected_aggregates.json").read_text())
    counts = {"strict": [0, 0], "loose": [0, 0]}
    answers = list(read_jsonl(folder / "responses_sample_output.jsonl"))
    assert len(answers) == aggregates["prompts"] == 147
    for answer in answers:
        row = prompts[answer["prompt"].strip()]
        pairs = zip(row["instruction_id_list"], row["kwargs"], strict=True)
        found = judge([instruction(*pair) for pair in pairs], answer["response"])
        assert not any(one.strict and not one.loose for one in found)
        for mode, count in counts.items():
            ours = [getattr(one, mode) for one in found]
            assert ours == expected[row["key"]][mode], (row["key"], mode)
            count[0] += all(ours)
            count[1] += sum(ours)
    for mode, (passed, followed) in counts.items():
        official = aggregates[mode]
        assert passed / aggregates["prompts"] == official["prompt_level"]
        assert followed / aggregates["instructions"] == official["instruction_level"]


def test_edge_cases_get_the_official_verdicts(folder: Path) -> None:
    rows = list(read_jsonl(folder / "edge_cases.jsonl.gz"))
    assert len(rows) == 7_946
    differ = []
    for row in rows:
        [found] = judge([instruction(row["instruction_id"], row["kwargs"])], row["response"])
        for mode in ("strict", "loose"):
            if row[mode] is not None and getattr(found, mode) != row[mode]:
                differ.append((row["id"], mode))
    assert differ == []


def test_the_official_unit_tests_pass(folder: Path) -> None:
    rows = [row for row in read_jsonl(folder / "unit_tests.jsonl") if row["instruction_id"]]
    assert len(rows) > 150
    for row in rows:
        asked = instruction(row["instruction_id"], row["effective_args"] or row["kwargs"])
        reason = asked.check(row["response"])
        assert reason == BLANK or (reason == "") is row["follows"], row


SPAN = {"prompt_to_repeat": "one two three four", "n_start": 1, "n_end": 2}
QUOTED_ALPHABET = " ".join(f'"{letter}a went home."' for letter in ascii_uppercase)
CURLY_ALPHABET = " ".join(f"“{letter}a went home.”" for letter in ascii_uppercase)
OVERLAP = {"reference_text": "the cat sat on a mat", "percentage": 50}


@pytest.mark.parametrize(
    ("name", "arguments", "text", "official", "corrected"),
    [
        ("count:unique_word_count", {"N": 3}, "one - two", True, False),
        ("count:conjunctions", {"small_n": 2}, "and And", True, False),
        ("count:numbers", {"N": 2}, "from 10-12", False, True),
        ("ratio:sentence_type", {}, "Hello!", True, False),
        ("ratio:sentence_balance", {}, "a list", True, False),
        ("ratio:sentence_words", {}, "A cat. A cat. A cat.", True, False),
        ("ratio:overlap", OVERLAP, "the cat sat far", False, True),
        ("words:words_position", {"keyword": "up"}, "Look up and up there...", False, True),
        ("format:line_indent", {}, "a\n\n\n b", False, True),
        ("format:quote_unquote", {}, 'so: \N{LEFT DOUBLE QUOTATION MARK}a"', False, False),
        ("format:quote_unquote", {}, "\u201ca\u201d \u201cb\u201d c", True, False),
        ("format:list", {"sep": "-"}, "so-called well-known", True, False),
        ("format:thesis", {}, "<em></em> text", True, False),
        ("format:sub-bullets", {}, "no bullets", True, False),
        ("format:no_bullets_bullets", {}, "One. Two.\n\nThree.\n* a\n* b", False, True),
        ("format:title_case", {}, "We Don't Go", False, True),
        ("format:title_case", {}, "The Art of War", False, True),
        ("format:title_case", {}, "The hEAd", True, False),
        ("repeat:repeat_span", SPAN, "two three", False, True),
        ("repeat:repeat_span", SPAN, "ne", True, False),
        ("custom:date_format_list", {}, "1800-00-00", True, False),
        ("custom:sentence_alphabet", {}, QUOTED_ALPHABET, False, True),
        ("custom:sentence_alphabet", {}, CURLY_ALPHABET, False, True),
        ("sentence:keyword", {"word": "stayed", "N": 2}, "“He left.” “She stayed.”", False, True),
    ],
)
def test_corrected_verdicts_read_what_official_ones_misread(
    name: str, arguments: dict[str, Any], text: str, official: bool, corrected: bool
) -> None:
    assert (instruction(name, arguments).check(text) == "") is official
    assert (instruction(name, arguments, "corrected").check(text) == "") is corrected


@pytest.mark.parametrize(
    ("name", "arguments", "text", "reason"),
    [
        ("count:pronouns", {"N": 2}, "You know", "1 pronoun, at least 2 wanted"),
        ("words:alphabet", {}, "Any cat", "word 2, 'cat', does not begin with 'b'"),
        ("custom:csv_quotes", {}, "a", "the first line is not the header of the five columns"),
        ("sentence:increment", {"small_n": 1}, "One. Two.", "sentence 2 has 1 word, 2 wanted"),
        ("format:no_whitespace", {}, "a b", "1 character of white space, none wanted"),
    ],
)
def test_reasons(name: str, arguments: dict[str, Any], text: str, reason: str) -> None:
    assert instruction(name, arguments).check(text) == reason


def test_an_empty_field_of_a_table_is_no_error() -> None:
    header = '"StudentID"\t"Subject"\t"Grade"\t"Semester"\t"Score"'
    text = "\n".join([header, *['"1"\t\t"A"\t"1"\t"9"'] * 3])
    assert instruction("custom:csv_quotes", {}).check(text) == "'', '', '' not in quotes"


def test_syllables_are_counted_without_setuptools(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] == "syllapy"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "pkg_resources", None)
    language_data.syllable_counter.cache_clear()
    assert language_data.syllable_counter()("evaluation") == 5
    assert "pkg_resources" not in sys.modules
