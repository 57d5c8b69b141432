"""exact_match, contains, regex_match and word_count."""

import time
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from harness.errors import ConfigError
from harness.plugin_loader import kind
from harness.records import Instance, Score
from harness.scoring.patterns import TIMEOUT_S
from harness.scoring.text import Uncountable, count_words

INSTANCE: Instance[Any] = Instance("1", None)


def score(name: str, text: str, **options: Any) -> Score:
    found: Score = kind("checkers").build(name, options).check(text, INSTANCE)
    return found


PASSING: list[tuple[str, str, dict[str, Any]]] = [
    ("exact_match", " Paris\n", {"target": "Paris"}),
    ("exact_match", "PARIS", {"target": "Paris", "ignore_case": True}),
    ("exact_match", "“Paris.”", {"target": "Paris", "ignore_punctuation": True}),
    ("exact_match", "`Paris`", {"target": "Paris", "ignore_punctuation": True}),
    ("exact_match", "New\n York", {"target": "New York", "ignore_space": True}),
    ("exact_match", "cool", {"target": ["cold", "cool"]}),
    ("exact_match", "42", {"target": 42}),
    ("exact_match", "true", {"target": True}),
    ("exact_match", "cafe\u0301", {"target": "café"}),
    ("exact_match", "Par\u200bis", {"target": "Paris"}),
    ("exact_match", "STRASSE", {"target": "straße", "ignore_case": True}),
    ("exact_match", "１２", {"target": 12, "normalize": "NFKC"}),
    ("contains", "An oak and an elm", {"target": ["oak", "elm"]}),
    ("contains", "An oak", {"target": ["oak", "elm"], "mode": "any"}),
    ("contains", "A fir", {"target": ["oak", "elm"], "mode": "none"}),
    ("contains", "An OAK", {"target": "oak", "ignore_case": True}),
    ("contains", "oak-tree", {"target": "oak", "whole_words": True}),
    ("contains", "un cafe\u0301 noir", {"target": "café"}),
    ("contains", "un café noir", {"target": ["cafe\u0301", "noir"]}),
    ("contains", "STRASSE", {"target": "straße", "ignore_case": True}),
    ("contains", "İSTANBUL'da", {"target": "istanbul", "ignore_case": True}),
    ("contains", "我用Python写代码", {"target": "Python", "whole_words": True}),
    ("contains", "don’t", {"target": "don't", "straight_quotes": True}),
    ("contains", "Ｐｙｔｈｏｎ", {"target": "Python", "normalize": "NFKC"}),
    ("contains", "a\r\nb", {"target": "a\nb"}),
    ("contains", "a\u200bb", {"target": "\u200b"}),
    ("contains", "ab", {"target": "\u200b", "mode": "none"}),
    ("regex_match", "un cafe\u0301", {"pattern": "caf[eé]$"}),
    ("regex_match", "un café", {"pattern": "cafe\u0301$"}),
    ("regex_match", "cafe\u0301", {"pattern": "....", "full": True}),
    ("regex_match", "e\u0301", {"pattern": "\u0301"}),
    ("regex_match", "STRASSE", {"pattern": "straße", "ignore_case": True}),
    ("regex_match", "Snow", {"pattern": "^[A-Z]"}),
    ("regex_match", "snow", {"pattern": "^[A-Z]", "ignore_case": True}),
    ("regex_match", "ab", {"pattern": "a.", "full": True}),
    ("regex_match", "ab", {"pattern": "c", "negate": True}),
    ("word_count", "One - two, don't!", {"exactly": 3}),
    ("word_count", "one two", {"at_most": 2, "at_least": 2}),
    ("word_count", "…", {"at_most": 0}),
]
FAILING: list[tuple[str, str, dict[str, Any], str]] = [
    ("exact_match", "paris", {"target": "Paris"}, "'paris' is not the expected answer"),
    ("exact_match", "Paris, France", {"target": "Paris"}, "'Paris, France' is not the expected"),
    ("contains", "An oak", {"target": ["oak", "elm"]}, "lacks 'elm'"),
    ("contains", "A fir", {"target": ["oak"], "mode": "any"}, "contains none of 'oak'"),
    ("contains", "An oak", {"target": ["oak"], "mode": "none"}, "contains 'oak'"),
    ("contains", "oaken", {"target": "oak", "whole_words": True}, "lacks 'oak'"),
    ("contains", "3-5", {"target": "-5", "whole_words": True}, "lacks '-5'"),
    ("contains", "un cafe\u0301", {"target": "café", "mode": "none"}, "contains 'café'"),
    ("contains", "ap\u200bp\u00adle", {"target": "apple", "mode": "none"}, "contains 'apple'"),
    ("contains", "don’t", {"target": "don't"}, 'lacks "don'),
    ("contains", "你好，", {"target": ","}, "lacks ','"),
    ("regex_match", "cafe\u0301", {"pattern": "é", "negate": True}, "must not match 'é'"),
    ("regex_match", "é", {"pattern": "e\u0301+x?", "full": True}, "must match"),
    ("regex_match", "snow", {"pattern": "^[A-Z]"}, "must match '^[A-Z]'"),
    ("regex_match", "abc", {"pattern": "a.", "full": True}, "must match 'a.'"),
    ("regex_match", "abc", {"pattern": r"\d{2}" "\n"}, r"must match '\d{2}\n'"),
    ("regex_match", "abc", {"pattern": "c", "negate": True}, "must not match 'c'"),
    ("word_count", "one", {"exactly": 2}, "exactly 2 words, has 1"),
    ("word_count", "one two three", {"at_most": 2}, "at most 2 words, has 3"),
    ("word_count", "", {"at_least": 1}, "at least 1 word, has 0"),
]


@pytest.mark.parametrize(("name", "text", "options"), PASSING)
def test_what_passes(name: str, text: str, options: dict[str, Any]) -> None:
    found = score(name, text, **options)
    assert (found.value, found.passed, found.reason) == (True, True, "")


@pytest.mark.parametrize(("name", "text", "options", "reason"), FAILING)
def test_what_fails_and_why(name: str, text: str, options: dict[str, Any], reason: str) -> None:
    found = score(name, text, **options)
    assert (found.value, found.passed) == (False, False)
    assert found.reason.startswith(reason)


@pytest.mark.parametrize(
    ("text", "target", "equal"),
    [
        ("5", "-5", False),
        ("\N{MINUS SIGN}5", "-5", True),
        ("(-5).", "-5", True),
        ("- 5", "5", True),
        ("-$5", "$5", False),
        ("-.5", ".5", False),
        ("x=-5", "x=5", False),
        ("x-1", "x1", False),
        ("2-1", "21", False),
        ("10–12", "10-12", True),
        ("COVID-19", "COVID19", True),
        ("15", "1.5", False),
        ("1.5.", "1.5", True),
        ("5", ".5", False),
        ("1,5", "15", False),
        ("1,000", "1000", True),
        ("1,000,000.5", "1000000.5", True),
        ("1'000", "1000", True),
        ("1,2,3", "123", False),
        ("1, 2, 3", "1 2 3", True),
        ("3:30", "330", False),
        ("1/2", "12", False),
        ("2024-01-02", "20240102", False),
        ("٣٫٥", "٣٥", False),
        ("5%", "5", False),
        ("5 %", "5", False),
        ("#5", "5", True),
        ("C#", "C", False),
        ("C++", "C", False),
        ("(5)", "5", True),
        ("**5**!", "5", True),
        ("don’t", "dont", True),
        ("e-mail", "email", True),
        ("AT&T", "ATT", True),
        ("U.S.", "US", True),
        ("答案。", "答案", True),
        ("*", "/", False),
        ("?", "!", False),
        ("...", "!!!", False),
        ("*", "", False),
        (" * ", "*", True),
        ("A-", "A", False),
        ("A-.", "A-", True),
        ("Grade: A-", "Grade A-", True),
        ("plan A - yes", "plan A yes", False),
        ("\u20125", "5", False),
        ("\u20125", "-5", True),
        ("٪٥", "٥", False),
        ("%5", "5", False),
        ("50%-60", "5060", False),
    ],
)
def test_punctuation_that_changes_a_number_is_not_ignored(
    text: str, target: str, equal: bool
) -> None:
    found = score("exact_match", text, target=target, ignore_punctuation=True)
    assert found.passed is equal
    found = score("exact_match", target, target=text, ignore_punctuation=True)
    assert found.passed is equal


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("exact_match", {"target": []}, "empty list"),
        ("exact_match", {}, "'target'"),
        ("exact_match", {"target": "a", "ignorecase": True}, "Did you mean 'ignore_case'"),
        ("contains", {"target": ""}, "or an empty one"),
        ("contains", {"target": []}, "no target"),
        ("contains", {"target": "a", "mode": "some"}, "'mode'"),
        ("regex_match", {"pattern": "("}, "'regex_match': .* not a regular expression"),
        ("word_count", {}, "needs exactly"),
        ("word_count", {"exactly": 2, "at_most": 3}, "needs exactly"),
        ("word_count", {"at_most": -1}, "none below 0"),
        ("word_count", {"at_least": 3, "at_most": 2}, "no text has"),
    ],
)
def test_options_that_make_no_check_are_refused(
    name: str, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        kind("checkers").build(name, options)


def test_a_pattern_that_takes_too_long_gives_no_verdict() -> None:
    found = score("regex_match", "a" * 40 + "!", pattern="(a|a)*$(?<=b)")
    assert (found.value, found.passed) == (None, None)
    assert f"more than {TIMEOUT_S:g} s" in found.reason


@settings(max_examples=40)
@given(st.text(max_size=100))
@example("\u0f00")  # Tibetan
def test_no_text_is_too_odd(text: str) -> None:
    try:
        count_words(text)
        verdicts: set[bool | None] = {True, False}
    except Uncountable:
        verdicts = {True, False, None}
    for name, _, options in PASSING:
        assert score_with(name, options).check(text, INSTANCE).passed in verdicts


@settings(max_examples=40)
@given(st.text().filter(lambda text: text.strip()))
def test_any_target_matches_itself(text: str) -> None:
    assert score("exact_match", text, target=text).passed
    assert score("contains", f"x{text}y", target=text).passed


_BUILT: dict[str, Any] = {}


def score_with(name: str, options: dict[str, Any]) -> Any:
    key = f"{name}{options}"
    if key not in _BUILT:
        _BUILT[key] = kind("checkers").build(name, options)
    return _BUILT[key]


@pytest.mark.parametrize(
    ("text", "target", "whole"),
    [
        ("price 1.5", "5", False),
        ("price 1.5", "1", False),
        ("price 1.5", "1.5", True),
        ("price 1.5.", "1.5", True),
        ("price 5.", "5", True),
        ("price .5", "5", False),
        ("price $5", "5", True),
        ("price 1,500", "500", False),
        ("price 1,500", "1", False),
        ("price 1,500", "1,500", True),
        ("price 1,500.25", "1,500", False),
        ("price 1.500,25", "25", False),
        ("price 1\u202f500", "500", False),
        ("price 1'500", "500", False),
        ("price 1,5", "5", False),
        ("1,2,3", "2", True),
        ("[1,2]", "2", True),
        ("1, 2", "2", True),
        ("1-5", "5", True),
        ("it is -5", "5", False),
        ("it is -5", "-5", True),
        ("Version 1.2.3", "2", False),
        ("Version 1.2.3", "1.2", False),
        ("1.5, or 5", "5", True),
        ("C++ is", "C", False),
        ("C# is", "C", False),
        ("C++ is", "C++", True),
        ("C# is", "C#", True),
        ("C, C++", "C", True),
        ("C+C", "C", True),
        ("C: #1", "C", True),
        ("Grade: A+", "A", False),
        (".NET is", "NET", False),
        ("It ends.Paris", "Paris", True),
        ("don't", "don", False),
        ("don\u2019t", "don", False),
        ("don't", "t", False),
        ("don't", "don't", True),
        ("we'll", "ll", False),
        ("Paris's", "Paris", True),
        ("Paris's", "s", False),
        ("O'Neil", "Neil", False),
        ("O'Neil", "O'Neil", True),
        ("o'clock", "clock", False),
        ("l'eau", "eau", True),
        ("an 's'", "s", True),
        ("'Paris'", "Paris", True),
        ("_Paris_", "Paris", True),
        ("__Paris__", "Paris", True),
        ("**_Paris_**", "Paris", True),
        ("_Paris is big._", "Paris", True),
        ("It is _in Paris_.", "Paris", True),
        ("_Paris_", "_Paris_", True),
        ("_Paris", "Paris", False),
        ("in_Paris_now", "Paris", False),
        ("in_Paris", "Paris", False),
        ("_in\n\nParis_", "Paris", False),
    ],
)
def test_whole_words_are_no_parts_of_numbers_names_and_contractions(
    text: str, target: str, whole: bool
) -> None:
    options = {"target": target, "whole_words": True}
    assert kind("checkers").build("contains", options).check(text, INSTANCE).passed is whole


@pytest.mark.parametrize(
    "piece", ["1,", "1.", "1,000", "_a ", "a_ ", "_", "C++", "n't", ".5", "a'"]
)
def test_whole_words_are_found_in_linear_time(piece: str) -> None:
    checker = kind("checkers").build("contains", {"target": "1", "whole_words": True})
    started = time.process_time()
    checker.check(piece * (200_000 // len(piece)), INSTANCE)
    assert time.process_time() - started < 2


@pytest.mark.parametrize(
    ("text", "target"),
    [
        ("New\u00a0York", "New York"),
        ("state\u2011of\u2010the\u2011art", "state-of-the-art"),
        ("5\u202fkg", "5 kg"),
        ("5 kg", "5\u2009kg"),
    ],
)
def test_special_spaces_and_hyphens_equal_plain_ones_unless_told_otherwise(
    text: str, target: str
) -> None:
    for name in ("exact_match", "contains"):
        assert score(name, text, target=target).passed
        assert not score(name, text, target=target, normalize="none").passed
    assert score("exact_match", text, target=target, normalize="NFKC").passed
    assert not score("contains", text, target=target, mode="none").passed


def test_a_special_space_or_hyphen_can_be_looked_for() -> None:
    for target in ("\u00a0", "\u2011"):
        assert score("contains", "a plain-text line", target=target, mode="none").passed
        assert score("contains", f"a{target}b", target=target).passed
