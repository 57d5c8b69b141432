"""Verdicts on constraints of every level; measures of the example package are tested with it."""

from pathlib import Path
from typing import Any

import nltk
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from harness.errors import ConfigError, DataInvalid
from harness.plugins.benchmarks import punkt
from harness.plugins.benchmarks.collie.constraints.check import (
    MEMORABLE,
    Splitter,
    bare,
    check,
    fingerprints,
    holds,
    plain_words,
)
from harness.plugins.benchmarks.collie.constraints.grammar import (
    Specification,
    measure,
    read,
    write,
)
from harness.plugins.benchmarks.collie.constraints.render import instruction
from scripts.bench_collie import official_check
from tests.installed import install_plugin
from tests.plugins.benchmarks.collie.constraints.specifications import every_fitting, specifications
from tests.plugins.benchmarks.collie.nltk_reference import english, own, stock_words
from tests.plugins.benchmarks.punkt_reference import BESIDE, english_parameters

COUNT = {"op": "count"}
EACH = {"op": "for_each", "do": COUNT}
TEXT = "The bird sang. The cat, who heard it, crept near! It flew."
#       3 words        7 words                              2 words


def passes(targets: Any, text: str = TEXT, level: str = "passage", **base: Any) -> bool:
    constraint = {"target_level": "word", "transformation": COUNT, "relation": "=="} | base
    form = {"level": level, "constraint": constraint, "targets": targets}
    return check(read(form), text, own()).passed


def test_transformations() -> None:
    assert passes(12)
    assert passes(3, target_level="sentence")
    assert passes(2, transformation={"op": "count", "of": "The"})
    assert passes("bird", transformation={"op": "position", "index": 1})
    assert passes(["bird", "flew"], transformation={"op": "position", "index": [1, -1]})
    assert not passes("bird", transformation={"op": "position", "index": 12})
    assert not passes("bird", transformation={"op": "position", "index": -13})
    assert passes("crept", transformation={"op": "identity"}, relation="in")
    assert passes([3, 7, 2], input_level="sentence", transformation=EACH, reduction="all")
    assert passes(7, input_level="sentence", transformation={"op": "max", "do": EACH})
    assert passes(2, input_level="sentence", transformation={"op": "min", "do": EACH})
    assert not passes(0, "", transformation={"op": "max", "do": EACH}, relation=">=")


@pytest.mark.parametrize(
    ("reduction", "n", "expected"),
    [
        ("all", None, False),
        ("any", None, True),
        ("none", None, False),
        ("at least", 2, True),
        ("at least", 3, False),
        ("at most", 2, True),
        ("at most", 1, False),
        ("exactly", 2, True),
        ("exactly", 1, False),
    ],
)
def test_reductions(reduction: str, n: int | None, expected: bool) -> None:
    """Two of the three sentences have at least three words."""
    assert (
        passes(
            3,
            input_level="sentence",
            transformation=EACH,
            relation=">=",
            reduction=reduction,
            reduction_value=n,
        )
        is expected
    )


@pytest.mark.parametrize(
    ("reduction", "n", "expected"),
    [
        ("all", None, False),
        ("any", None, False),
        ("none", None, True),
        ("at least", 1, False),
        ("at most", 0, True),
        ("exactly", 0, True),
    ],
)
def test_reductions_where_no_unit_meets_the_target(
    reduction: str, n: int | None, expected: bool
) -> None:
    fields = {"relation": ">=", "reduction": reduction, "reduction_value": n}
    assert passes(99, input_level="sentence", transformation=EACH, **fields) is expected


def test_a_list_of_targets_needs_as_many_values() -> None:
    last = {"op": "for_each", "do": {"op": "position", "index": -1}}
    where: dict[str, Any] = {"input_level": "sentence", "transformation": last, "reduction": "all"}
    assert passes(["sang", "near", "flew"], **where)
    assert not passes(["sang", "near"], **where)
    assert not passes(["sang", "flew", "near"], **where)
    assert not passes(["sang", "near"], **where | {"reduction": "any"})


@pytest.mark.parametrize(
    ("logic", "verdicts"), [("and", (0, 0, 0, 1)), ("all", (0, 0, 0, 1)), ("or", (0, 1, 1, 1))]
)
def test_logic(logic: str, verdicts: tuple[int, ...]) -> None:
    base = {"target_level": "word", "transformation": COUNT, "relation": "=="}
    for expected, (first, second) in zip(
        verdicts, [(1, 1), (1, 12), (12, 1), (12, 12)], strict=True
    ):
        tree = {"logic": logic, "constraints": [base, base]}
        nested = {"logic": "all", "constraints": [base, tree]}
        form = {"level": "passage", "constraint": nested, "targets": [12, [first, second]]}
        verdict = check(read(form), TEXT, own())
        assert verdict.passed == bool(expected)
        assert [finding.passed for finding in verdict.findings] == [True, first == 12, second == 12]


texts = st.lists(
    st.sampled_from(
        ["The bird", "a", "it's", "x.", ". ", "\n\n", "! ", " ", "Bird,", "é", "“", ""]
    ),
    max_size=10,
).map("".join)


@settings(max_examples=50)
@given(specifications(), texts | st.text(max_size=40))
def test_any_specification_checks_any_text(specification: Specification, text: str) -> None:
    verdict = check(specification, text, own())
    assert len(verdict.findings) == len(list(specification.bases()))


@settings(max_examples=60)
@given(st.deferred(lambda: st.sampled_from(every_fitting())), texts)
def test_verdicts_are_those_of_the_official_method(fitting: tuple[Any, Any], text: str) -> None:
    """Wherever it has one, save that a list of one position is met by a list of one target.

    A count of given units ignores case, which the official one does not.
    """
    constraint, target = fitting
    units: Splitter = english()
    index = str(constraint["transformation"])
    assume(not (target_of_one(target) and constraint["reduction"] is None and "[" in index))
    assume("'min'" not in index)
    assume("'of'" not in index or text == text.lower())
    specification = read({"level": "passage", "constraint": constraint, "targets": target})
    (finding,) = check(specification, text, units).findings
    assume(not (target_of_one(target) and isinstance(finding.observed, tuple)))
    try:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(nltk.data, "path", [*nltk.data.path, str(BESIDE)])
            expected = official_check(constraint, text, target)
    except (TypeError, ValueError):  # it compares None with a number, or takes the max of nothing
        return
    assert finding.passed == expected


def target_of_one(target: Any) -> bool:
    return isinstance(target, list) and len(target) == 1


@pytest.mark.parametrize("text", ["", " ", "\n\n", ".", "\x00", "a" * 50_000, "word " * 10_000])
def test_odd_texts(text: str) -> None:
    for constraint, target in every_fitting()[::97]:
        form = {"level": "passage", "constraint": constraint, "targets": target}
        assert check(read(form), text, own()).passed in (True, False)


@pytest.mark.parametrize(
    ("relation", "observed", "target", "expected"),
    [
        ("==", 5, 5, True),
        ("==", 5, (5,), True),  # published targets come in a list of one
        ("!=", 5, 5, False),
        ("<", 4, 5, True),
        ("<", 5, 5, False),
        (">", 6, 5, True),
        ("<=", 5, 5, True),
        (">=", 5, 6, False),
        (">=", None, 0, False),
        ("==", None, "a", False),
        ("!=", None, "a", True),
        ("==", "Bird,", "bird", True),
        ("==", "'BIRD!' ", "bird", True),
        ("==", "...", "", False),  # marks alone are kept
        ("==", "?", "!", False),
        ("==", ("A", "b."), ("a", "b"), True),
        ("==", ("a", None), ("a", "b"), False),
        ("==", ("a",), ("a",), True),
        ("in", ("The", "bird"), "BIRD", True),
        ("in", ("The", "bird"), ("bird", "the"), True),
        ("in", ("The", "bird"), ("bird", "egg"), False),
        ("not in", ("The", "bird"), ("bird", "egg"), False),
        ("not in", ("The", "bird"), ("eggs", "egg"), True),
        ("in", "songbird", "bird", True),
        ("in", None, "bird", False),
        ("not in", None, "bird", True),
        ("in", (3, 4), 4, True),
        ("in", (), "a", False),
    ],
)
def test_relations(relation: Any, observed: Any, target: Any, expected: bool) -> None:
    assert holds(relation, observed, target) is expected


def test_bare() -> None:
    assert bare("“Ärger”") == "“ärger”"  # only ASCII marks are taken off
    assert bare(("A.", 3, None)) == ("a", 3, None)
    assert bare(7) == 7


CODE = """
from harness.plugin import Measure


class Longest(Measure):
    def number(self, units):
        return max(map(len, units), default=0)

    def phrase(self, units):
        return f"the length of the longest of the {units}"


class Broken(Longest):
    def number(self, units):
        return units[9]

    def phrase(self, units):
        return units["x"]
"""


@pytest.fixture(autouse=True)
def _installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A package as pip would have installed it."""
    members = {"measures": {"longest": "Longest", "broken": "Broken"}}
    install_plugin(tmp_path, CODE, members, "longest_measure")
    monkeypatch.syspath_prepend(tmp_path)
    measure.cache_clear()


def asked(transformation: dict[str, Any], targets: Any, **more: Any) -> Specification:
    base = {"target_level": "word", "transformation": transformation, "relation": "<=", **more}
    return read({"level": "paragraph", "constraint": base, "targets": targets})


LONGEST = {"op": "measure", "name": "longest"}


def test_a_measure_is_checked_rendered_and_written() -> None:
    whole = asked(LONGEST, 6)
    assert read(write(whole)) == whole
    assert check(whole, "Snow fell softly.", own()).passed
    verdict = check(whole, "Snow overwhelmed us.", own())
    assert not verdict.passed
    assert verdict.findings[0].observed == 11
    assert instruction(whole) == (
        "Please generate a paragraph with the length of the longest of the words to be at most 6."
    )
    assert [name for name, _ in fingerprints(whole)] == ["longest"]


def test_a_measure_that_fails_is_named() -> None:
    whole = asked({"op": "measure", "name": "broken"}, 6)
    with pytest.raises(ConfigError, match=r"The measure 'broken' fails \(IndexError"):
        check(whole, "Snow fell.", own())
    with pytest.raises(ConfigError, match=r"The measure 'broken' fails \(TypeError"):
        instruction(whole)


def test_a_measure_of_each_sentence() -> None:
    each = asked({"op": "for_each", "do": LONGEST}, 6, input_level="sentence", reduction="all")
    assert check(each, "Snow fell. It melted.", own()).findings[0].observed == (4, 6)
    assert check(asked(LONGEST, 0), "...", own()).findings[0].observed == 0
    [(name, digest)] = fingerprints(each)
    assert (name, len(digest)) == ("longest", 64)


@pytest.mark.parametrize(
    ("transformation", "more", "said"),
    [
        ({"op": "measure", "name": "longst"}, {}, "Did you mean 'longest'"),
        ({"op": "measure"}, {}, "name"),
        (LONGEST, {"input_level": "sentence"}, "needs single units"),
        ({"op": "for_each", "do": {"op": "for_each", "do": LONGEST}}, {}, "of a number|reduction"),
    ],
)
def test_mistakes_are_told(transformation: Any, more: dict[str, Any], said: str) -> None:
    with pytest.raises(DataInvalid) as told:
        asked(transformation, 3, **more)
    assert any(part in str(told.value) for part in said.split("|"))


@pytest.fixture(params=[english, own])
def units(request: pytest.FixtureRequest) -> Splitter:
    splitter: Splitter = request.param()
    return splitter


@pytest.mark.parametrize(
    ("unit", "text", "expected"),
    [
        ("character", "a b.", ("a", "", "b", "")),
        ("word", "Mr. Fox, it's 5,000!", ("Mr", "Fox", "it", "'s", "5,000")),
        ("word", "'Well,' she said...", ("Well", "she", "said", "")),
        ("sentence", " One. Two? Dr. Who. ", ("One", "Two?", "Dr. Who")),
        ("paragraph", "One.\n\nTwo\nlines.\n\n", ("One", "Two\nlines", "")),
        ("word", "", ()),
        ("sentence", "", ()),
        ("paragraph", "", ("",)),
        ("character", "", ()),
    ],
)
def test_units(units: Splitter, unit: str, text: str, expected: tuple[str, ...]) -> None:
    assert units.units(text, unit) == expected  # type: ignore[arg-type]


def test_long_texts_are_not_kept() -> None:
    splits: list[str] = []

    class Sentences:
        name = "counting"

        def tokenize(self, text: str) -> list[str]:
            splits.append(text)
            return [text]

    units = Splitter(Sentences(), str.split)
    for text in ("short", "x" * MEMORABLE + "y"):
        first, second = units.units(text, "sentence"), units.units(text, "sentence")
        assert first == second == (text,)
    assert [len(text) for text in splits] == [5, MEMORABLE + 1, MEMORABLE + 1]


@pytest.mark.parametrize(
    "piece",
    [
        "a",
        ".",
        "'",
        '"',
        "! ",
        "a.\n",
        "é. ",
        '..."',
        "(a. ",
        "a' ",
        ",:",
        "\n",
        ". . . .a",
        "n't ",
    ],
)
def test_hostile_texts_take_no_longer_than_their_length(piece: str) -> None:
    """No blow-up: each of these took minutes or was cut off if it were quadratic."""
    text = piece * (20_000 // len(piece))
    units = own()
    for unit in ("word", "sentence", "paragraph"):
        assert isinstance(units.units(text, unit), tuple)


WORDS = (
    "a I it Dr etc e.g U.S the There 5 1990 3.5 x-y B stewart don't John's they've can't he'd "
    "n't 's o'clock cannot gonna d'ye -"
)
MARKS = ".,:;?!@#$%&()[]\"'- \n"
words = st.sampled_from(WORDS.split())
marks = st.sampled_from([*MARKS, ". ", ". ", ", ", ", ", '." ', ' "', '" '])
plainish = st.lists(st.one_of(words, words, marks, st.just(" "), st.just(" ")), max_size=14).map(
    "".join
)
anything = st.lists(
    st.one_of(words, marks, st.characters(), st.sampled_from(["’", "“", "—", "``", "é", "\xa0"])),
    max_size=14,
).map("".join)


@pytest.mark.parametrize("parameters", [english_parameters, punkt.own])
@settings(max_examples=150)
@given(text=plainish | anything)
def test_plain_words_are_nltks_words(parameters: object, text: str) -> None:
    in_use = parameters() if callable(parameters) else None
    if in_use is None:
        pytest.skip("no English Punkt parameters: set NLTK_DATA")
    plain = plain_words(text)
    if plain is not None:
        assert tuple(plain) == stock_words(text, in_use)


@pytest.mark.parametrize(
    "text",
    [
        "The students' books aren't here.",  # an apostrophe at a word's end
        "It was John's. She knew.",  # a clitic before a period
        "He paid 5,000.",
        "“Yes,” he said.",
        "Well... no -- never.",
        "I cannot.",
        'He said "no."Then',
        '\n"Go" he said',
        "a\tb",
    ],
)
def test_what_is_not_plain_is_left_to_nltk(text: str) -> None:
    assert plain_words(text) is None


def test_a_part_of_the_text_at_any_depth() -> None:
    text = "One. Two two.\n\nThree three. Four four four: the end.\n\nFive."
    third = [{"level": "paragraph", "index": 1}, {"level": "sentence", "index": -1}]
    assert passes(5, text, within=third)
    assert not passes(4, text, within=third)
    assert passes("end", text, within=third, transformation={"op": "position", "index": -1})
    deep = [*third, {"level": "word", "index": -1}]
    assert passes(3, text, within=deep, target_level="character")
    assert passes(2, text, within=third[:1], target_level="sentence")
    each = {"transformation": EACH, "input_level": "sentence", "reduction": "all"}
    assert passes([2, 5], text, within=third[:1], **each)
    first = [{"level": "paragraph", "index": -3}, {"level": "sentence", "index": 0}]
    assert passes(1, text, within=[{"level": "paragraph", "index": 2}], target_level="sentence")
    assert passes("one", text, within=first, transformation={"op": "position", "index": -1})
    missing = [{"level": "paragraph", "index": -4}]
    assert not passes(1, text, within=missing)
    missing = [{"level": "paragraph", "index": 3}]
    assert not passes(0, text, within=missing, relation=">=")
    assert passes(1, text, within=missing, relation="!=")


def test_counted_units_ignore_case_and_punctuation_like_all_comparisons() -> None:
    assert passes(3, transformation={"op": "count", "of": "THE"}, text="The cat, the dog: the end")
    letters = {"target_level": "character", "transformation": {"op": "count", "of": "a"}}
    assert passes(2, "Anna", level="word", **letters)
