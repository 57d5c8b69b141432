"""Arguments, reasons, loose variants, corrected verdicts, and texts made to be slow."""

import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from inspect import signature
from typing import Any

import pytest

from harness.datasets.folder import read_jsonl
from harness.errors import ConfigError, DataInvalid, DataMissing
from harness.plugins.benchmarks.ifbench.instructions import IFBenchTask
from harness.plugins.benchmarks.ifeval.instructions import (
    ifeval,
    instruction,
    judge,
    table_of_each,
    variants,
)
from harness.scoring.patterns import PatternTooSlow
from harness.scoring.text import Uncountable
from tests.plugins.benchmarks.ifbench.instructions.training import CASES

pytestmark = pytest.mark.usefixtures("punkt_data")
CURLY = "\N{LEFT DOUBLE QUOTATION MARK}a\N{RIGHT DOUBLE QUOTATION MARK}"
SENTENCES = ("He left.", "She stayed.", "We slept.")
THREE = {"num_sentences": 3, "relation": "at least"}

ARGUMENTS: dict[str, dict[str, Any]] = {
    "keywords:existence": {"keywords": ["oak"]},
    "keywords:frequency": {"keyword": "oak", "frequency": 2, "relation": "at least"},
    "keywords:forbidden_words": {"forbidden_words": ["oak"]},
    "keywords:letter_frequency": {"letter": "q", "let_frequency": 2, "let_relation": "at least"},
    "language:response_language": {"language": "de"},
    "length_constraints:number_sentences": {"num_sentences": 3, "relation": "less than"},
    "length_constraints:number_paragraphs": {"num_paragraphs": 2},
    "length_constraints:number_words": {"num_words": 3, "relation": "at least"},
    "length_constraints:nth_paragraph_first_word": {
        "num_paragraphs": 2,
        "nth_paragraph": 2,
        "first_word": "oak",
    },
    "detectable_content:number_placeholders": {"num_placeholders": 2},
    "detectable_content:postscript": {"postscript_marker": "P.S."},
    "detectable_format:number_bullet_lists": {"num_bullets": 2},
    "detectable_format:number_highlighted_sections": {"num_highlights": 2},
    "detectable_format:multiple_sections": {"section_spliter": "Part", "num_sections": 2},
    "combination:repeat_prompt": {"prompt_to_repeat": "Say it."},
    "startend:end_checker": {"end_phrase": "The end."},
    "change_case:capital_word_frequency": {
        "capital_frequency": 2,
        "capital_relation": "at least",
    },
}


IFBENCH_ARGUMENTS = {
    name: arguments
    for row in read_jsonl(IFBenchTask._builtin)
    for name, arguments in zip(row["instruction_id_list"], row["kwargs"], strict=True)
} | {"ratio:stop_words": {"percentage": 10}}
TRAINING_ARGUMENTS = {name: arguments for name, (arguments, *_) in CASES.items()}
ALL_ARGUMENTS = ARGUMENTS | IFBENCH_ARGUMENTS | TRAINING_ARGUMENTS


@pytest.mark.parametrize(
    ("name", "text", "reason"),
    [
        ("length_constraints:number_words", "One two", "2 words, at least 3 wanted"),
        (
            "length_constraints:number_sentences",
            "One two. Three four. Five six.",
            "3 sentences, fewer than 3 wanted",
        ),
        ("length_constraints:number_paragraphs", "a", "1 paragraph divided by ***, 2 wanted"),
        (
            "length_constraints:nth_paragraph_first_word",
            "An oak.\n\nElms.",
            "paragraph 2 begins with 'elms', 'oak' wanted",
        ),
        ("keywords:existence", "elm", "'oak' missing"),
        ("keywords:frequency", "oak", "1 occurrence of 'oak', at least 2 wanted"),
        ("keywords:forbidden_words", "An Oak.", "contains 'oak'"),
        ("keywords:letter_frequency", "Q", "1 occurrence of 'q', at least 2 wanted"),
        ("punctuation:no_comma", "a, b, c", "2 commas, none wanted"),
        ("detectable_format:number_bullet_lists", "* a\n- b\n* c", "3 bullets, 2 wanted"),
        ("detectable_format:title", "Title", "there is no <<title>>"),
        ("startend:end_checker", "The end!", "ends with 'The end!', 'The end.' wanted"),
        ("combination:two_responses", "a", "1 response divided by ******, 2 wanted"),
        (
            "change_case:capital_word_frequency",
            "A b",
            "1 word in capital letters, at least 2 wanted",
        ),
        ("detectable_format:json_format", "", "the answer is blank"),
    ],
)
def test_a_reason_says_what_was_found_and_what_was_wanted(
    name: str, text: str, reason: str
) -> None:
    assert instruction(name, ARGUMENTS.get(name, {})).check(text) == reason


def test_arguments_are_checked_and_nulls_do_not_count() -> None:
    words = "length_constraints:number_words"
    asked = instruction(words, {"num_words": 3.0, "relation": "at least", "keyword": None})
    assert asked.arguments == {"num_words": 3, "relation": "at least"}
    assert asked.family == "length_constraints"
    for arguments, said in [
        ({"num_words": 3}, "relation"),
        ({"num_words": 3.5, "relation": "at least"}, "num_words"),
        ({"num_words": 3, "relation": "about"}, "relation"),
        ({"num_words": 3, "relation": "at least", "words": 1}, "'words'"),
    ]:
        with pytest.raises(DataInvalid, match=said):
            instruction(words, arguments)
    with pytest.raises(DataInvalid, match="number_words"):
        instruction("length_constraints:number_word", {})
    with pytest.raises(ConfigError, match="not a regular expression"):
        instruction("keywords:existence", {"keywords": ["("]}).check("text")


def test_a_text_passes_loosely_without_its_first_or_last_line_or_asterisks() -> None:
    whole = ["a\n*b*\nc", "*b*\nc", "a\n*b*", "*b*"]
    assert list(variants(whole[0])) == [*whole, "a\nb\nc", "b\nc", "a\nb", "b"]
    asked = [instruction("startend:quotation", {}), instruction("punctuation:no_comma", {})]
    quoted, no_comma = judge(asked, 'Sure, here:\n"A text."')
    assert (quoted.strict, quoted.loose) == (no_comma.strict, no_comma.loose) == (False, True)
    assert [one.loose for one in judge(asked, " \n ")] == [False, False]


@pytest.mark.parametrize(
    ("name", "arguments", "text", "official", "corrected"),
    [
        ("keywords:existence", {"keywords": ["M.A."]}, "a MEAD", True, False),
        (
            "keywords:frequency",
            {"keyword": ".", "frequency": 3, "relation": "at least"},
            "a b.",
            True,
            False,
        ),
        ("keywords:forbidden_words", {"forbidden_words": ["C#"]}, "I like C#.", True, False),
        (
            "length_constraints:number_words",
            {"num_words": 3, "relation": "less than"},
            "don't 3.5",
            False,
            True,
        ),
        (
            "length_constraints:number_paragraphs",
            {"num_paragraphs": 1},
            "a ***bold*** word",
            False,
            True,
        ),
        (
            "length_constraints:nth_paragraph_first_word",
            {"num_paragraphs": 2, "nth_paragraph": 2, "first_word": "b"},
            "a\n\n\n\nb",
            False,
            True,
        ),
        ("detectable_content:number_placeholders", {"num_placeholders": 1}, "[]", True, False),
        (
            "detectable_content:postscript",
            {"postscript_marker": "P.S."},
            "Dear all,\nP.P.S. x",
            True,
            False,
        ),
        (
            "detectable_content:postscript",
            {"postscript_marker": "P.S."},
            "Dear all,\nP. S. x",
            True,
            True,
        ),
        (
            "detectable_format:constrained_response",
            {},
            "My answer is yes. My answer is no.",
            True,
            False,
        ),
        ("detectable_format:number_bullet_lists", {"num_bullets": 1}, "- a\n---", False, True),
        (
            "detectable_format:number_highlighted_sections",
            {"num_highlights": 2},
            "***x***",
            True,
            False,
        ),
        ("detectable_format:json_format", {}, "[NaN]", True, False),
        ("startend:end_checker", {"end_phrase": 'He said "no"'}, 'He said "no"', False, True),
        ("startend:quotation", {}, CURLY, False, True),
        (
            "change_case:english_capital",
            {},
            "OUR LIBRARY OPENS ON MONDAY MORNING. EVERYONE IS INVITED.",
            False,
            True,
        ),
        (
            "language:response_language",
            {"language": "zh"},
            "今天的天气很好，我们去公园散步。",
            False,
            True,
        ),
        ("keywords:existence", {"keywords": ["café"]}, "un cafe\u0301", False, True),
        ("keywords:existence", {"keywords": ["straße"]}, "STRASSE", False, True),
        ("keywords:forbidden_words", {"forbidden_words": ["café"]}, "cafe\u0301", True, False),
        (
            "keywords:forbidden_words",
            {"forbidden_words": ["Python"]},
            "我用Python写代码",
            True,
            False,
        ),
        (
            "keywords:letter_frequency",
            {"letter": "e", "let_frequency": 1, "let_relation": "less than"},
            "caf\u0065\u0301",
            False,
            True,
        ),
        (
            "length_constraints:number_sentences",
            {"num_sentences": 2, "relation": "at least"},
            "这是第一句。这是第二句！",
            False,
            True,
        ),
        (
            "length_constraints:number_sentences",
            {"num_sentences": 2, "relation": "at least"},
            "यह है। वह है।",
            False,
            True,
        ),
        (
            "length_constraints:number_paragraphs",
            {"num_paragraphs": 2},
            "a\r\n***\r\nb",
            True,
            True,
        ),
        (
            "length_constraints:nth_paragraph_first_word",
            {"num_paragraphs": 2, "nth_paragraph": 2, "first_word": "b"},
            "a\r\n\r\nb",
            False,
            True,
        ),
        (
            "length_constraints:nth_paragraph_first_word",
            {"num_paragraphs": 1, "nth_paragraph": 1, "first_word": "第1"},
            "第1章。",
            False,
            True,
        ),
        ("startend:end_checker", {"end_phrase": "café"}, "un cafe\u0301", False, True),
        ("startend:end_checker", {"end_phrase": "That's all."}, "That’s all.”", False, True),
        ("startend:end_checker", {"end_phrase": "That’s all."}, "That's all.", False, True),
        *(
            ("length_constraints:number_sentences", THREE, quoted.format(*SENTENCES), False, True)
            for quoted in ("“{}” “{}” “{}”", "‘{}’ ‘{}’ ‘{}’", "«{}» «{}» «{}»", "„{}“ „{}“ „{}“")
        ),
        (
            "length_constraints:number_sentences",
            THREE,
            "“He ‘left.’” (“She stayed.”) ‹We slept!›",
            False,
            True,
        ),
    ],
)
def test_corrected_verdicts_read_what_official_ones_misread(
    name: str, arguments: dict[str, Any], text: str, official: bool, corrected: bool
) -> None:
    assert (instruction(name, arguments).check(text) == "") is official
    assert (instruction(name, arguments, "corrected").check(text) == "") is corrected


def test_a_corrected_check_for_english_gives_no_verdict_on_other_scripts() -> None:
    name, arguments = "words:repeats", {"small_n": 1}
    text = "这是第一句。这是第二句。"
    assert instruction(name, arguments).check(text) == ""
    with pytest.raises(Uncountable, match="English only"):
        instruction(name, arguments, "corrected").check(text)
    assert instruction(name, arguments, "corrected").check("one, two") == ""


def test_offsets_in_a_prompt_are_those_of_the_prompt_as_written() -> None:
    arguments = {"prompt_to_repeat": "e\u0301e\u0301 ab", "n_start": 5, "n_end": 6}
    assert instruction("new:copy_span_idx", arguments, "corrected").check("ab") == ""


HOSTILE = [
    "*" * 100_000,
    "* " * 50_000,
    "\n" * 100_000,
    " \n" * 50_000,
    "[" * 100_000,
    "<" * 100_000,
    "<<" + ">" * 99_998,
    "-" * 100_000,
    "." * 100_000,
    ". " * 50_000,
    "A.B" * 33_333,
    '"' * 100_000,
    "'" * 100_000,
    "p.s" * 33_333,
    "x" * 100_000,
    "a@" * 50_000,
    "Part 1" * 16_000,
    "[" * 50_000 + "]" * 50_000,
    "\N{LEFT DOUBLE QUOTATION MARK}." * 50_000,
    "{" * 100_000,
    "9" * 100_000,
    "The oak is old. " * 6_000,
]


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("verdicts", "name"),
    [("official", name) for name in table_of_each()]
    + [
        ("corrected", name)
        for name, table in table_of_each().items()
        if "corrected" in signature(table.checks[name]).parameters
    ],
)
def test_no_text_takes_long(name: str, verdicts: Any) -> None:
    asked = instruction(name, ALL_ARGUMENTS.get(name, {}), verdicts)
    try:
        asked.check("Load what is needed.")
    except DataMissing as error:
        pytest.skip(error.message)
    for text in HOSTILE:
        started = time.process_time()
        asked.check(text)
        assert time.process_time() - started < 1, (name, text[:10])


def test_a_keyword_that_is_a_slow_pattern_gives_no_verdict() -> None:
    asked = instruction("keywords:existence", {"keywords": ["(a|a)*$"]})
    with pytest.raises(PatternTooSlow):
        asked.check("a" * 60 + "b")


MIXED = "Das ist a mixed text, wirklich. C'est la vie."


def test_languages_are_identified_alike_in_threads_and_in_fresh_processes() -> None:
    ifeval._languages.cache_clear()
    ifeval.identified.cache_clear()
    with ThreadPoolExecutor(4) as pool:
        found = set(pool.map(lambda n: ifeval.identified(MIXED + " " * n), range(40)))
    assert len(found) == 1
    code = (
        "from harness.plugins.benchmarks.ifeval.instructions import ifeval; "
        f"print(ifeval.identified({MIXED!r}))"
    )
    for seed in ("1", "2"):
        command, environment = [sys.executable, "-c", code], os.environ | {"PYTHONHASHSEED": seed}
        ended = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
        assert ended.stdout.strip() in found
