"""IFEval's instructions: keywords, lengths, formats, language, letter case, beginnings and endings.

Official checks use keywords as regular expressions. Corrected checks take them literally, so that
``C++`` and ``Mr.`` match themselves. The published code searches with patterns that can take
quadratic time; the checks here scan the text once.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection
from functools import cache, lru_cache
from importlib.metadata import version
from threading import Lock
from typing import Any

from harness.plugins.benchmarks.ifeval.instructions import (
    CURLY_TO_STRAIGHT,
    Checks,
    InstructionTable,
    NotFollowed,
    Relation,
    expression,
    folding,
    instruction_plugins,
    present,
    require,
    require_count,
    require_none,
    require_parts,
    require_relation,
    sentences,
    tokens,
    words,
)
from harness.scoring.text import (
    TextComparison,
    count_occurrences,
    count_words,
    fold_case,
    has_other_scripts,
    is_whole_word,
)
from harness.scoring.text import sentences as sentences_in_any_script
from harness.wording import truncate

CHECKS = Checks()

ANSWERS = ("My answer is yes.", "My answer is no.", "My answer is maybe.")
"""The answers that `constrained_response` accepts."""

DIVIDER = "******"
FENCES = ("```json", "```Json", "```JSON", "```")  # prefixes that are removed from JSON, once each

QUOTES = ('""', "\N{LEFT DOUBLE QUOTATION MARK}\N{RIGHT DOUBLE QUOTATION MARK}", "「」")
COMMAS = (  # ASCII, Arabic, Ethiopic, Armenian, ideographic, and their forms
    ",\u060c\u1363\u055d\u3001\uff0c\uff64\ufe50\ufe51\ufe10\ufe11"
)
SEED = 0  # of every identification of a language, which draws at random from a text's parts
CHINESE_OR_JAPANESE = ("zh-cn", "zh-tw", "ja")  # langdetect's codes

# As in Multi-IF's published code: in Chinese and Japanese, each ideograph, kana or Hangul syllable
# is a word, and so is each run of other characters without these symbols.
_CHARACTER = re.compile("[\u4e00-\u9fff\u3400-\u4dbf\u3040-\u30ff\uac00-\ud7af]")
_NO_WORDS = str.maketrans(
    "",
    "",
    "\\.!?_,{}<>:;$%^&*()+\"'`~@#[]-/．—！，。？、￥…（）：；《》“”»〔〕「」",  # noqa: RUF001 (full-width forms)
)
_SENTENCE = re.compile(r"[^!?.。！？．]+")  # noqa: RUF001
_AFTER_HINDI_SENTENCE = re.compile(r"(?<=[।!?])")
_loading = Lock()
_STARS = re.compile(r"\s?\*\*\*\s?")
_RULE = re.compile(r"^[ \t]*\*\*\*[ \t]*$", re.MULTILINE)
_ENDS_FIRST_WORD = re.compile(r"[.,?!'\"]")
_EMPHASIS = re.compile(r"\*[^\n*]*\*")
_STRONG = re.compile(r"\*\*[^\n*]*\*\*")
_HIGHLIGHT = re.compile(r"(?<!\*)(\*{1,3})(?![\s*])[^*\n]*(?<!\s)\1(?!\*)")
_BULLET = re.compile(r"^[^\S\n]*(?:\*(?!\*)|-(?!-))(?=.*\w)", re.MULTILINE)
_STAR = re.compile(r"^\*[^*].*$", re.MULTILINE)
_POSTSCRIPTS = {"P.P.S": re.compile(r"p\.\s?p\.\s?s"), "P.S.": re.compile(r"p\.\s?s\.")}


@lru_cache(256)  # two instructions of a prompt, and its loose variants, often share a text
def identified(text: str) -> str | None:
    """Return langdetect's code for a text's language, or None if it cannot identify any."""
    from langdetect.lang_detect_exception import LangDetectException

    with _loading:  # two threads must not both build the factory
        detector = _languages().create()
    detector.append(text)
    try:
        return str(detector.detect())
    except LangDetectException:
        return None


@cache
def _languages() -> Any:
    from langdetect.detector_factory import PROFILES_DIRECTORY, DetectorFactory

    factory = DetectorFactory()
    factory.load_profile(PROFILES_DIRECTORY)
    factory.set_seed(SEED)
    return factory


def _language(text: str) -> str:
    """Return langdetect's code for the language of a text, or "en" if it has no letters."""
    return identified(text) or "en"


@CHECKS("keywords:existence")
def existence(text: str, keywords: list[str], *, corrected: bool = False) -> None:
    """Check that all keywords occur, ignoring case, possibly within words.

    Keywords are regular expressions; in the corrected check, they are taken literally.
    """
    if corrected:
        folded_text = fold_case(text)
        missing = [keyword for keyword in keywords if fold_case(keyword) not in folded_text]
    else:
        missing = [keyword for keyword in keywords if not expression(keyword).search(text)]
    require_none(missing, "{} missing")


@CHECKS("keywords:frequency")
def frequency(
    text: str, keyword: str, frequency: int, relation: Relation, *, corrected: bool = False
) -> None:
    """Check that a keyword occurs "at least" or "less than" ``frequency`` times, ignoring case.

    The keyword is a regular expression; in the corrected check, it is taken literally. It is also
    found within words.
    """
    keyword = keyword.strip()
    if corrected:
        count = fold_case(text).count(fold_case(keyword))
    else:
        count = len(expression(keyword).findall(text))
    require_relation(count, relation, frequency, f"occurrences of {keyword!r:.60}")


@CHECKS("keywords:forbidden_words")
def forbidden(text: str, forbidden_words: list[str], *, corrected: bool = False) -> None:
    """Check that no forbidden word occurs as a whole word, ignoring case.

    Forbidden words are regular expressions; in the corrected check, they are taken literally.
    """
    if corrected:
        folded_text = fold_case(text)
        present_words = []
        for word in forbidden_words:
            if count_occurrences(fold_case(word), folded_text, apart=True):
                present_words.append(word)
    else:
        present_words = [w for w in forbidden_words if expression(w, r"\b{}\b").search(text)]
    require_none(present_words, "contains {}")


@CHECKS("keywords:letter_frequency")
def letters(text: str, letter: str, let_frequency: int, let_relation: Relation) -> None:
    """Check that a letter occurs "at least" or "less than" ``let_frequency`` times, in any case."""
    # Officially, a symbol is replaced by a random letter; here it is counted itself.
    letter = letter.strip().lower()
    count = 0
    if letter:
        count = text.lower().count(letter)
    require_relation(count, let_relation, let_frequency, f"occurrences of {letter!r:.60}")


@CHECKS("change_case:capital_word_frequency")
def capital_words(text: str, capital_frequency: int, capital_relation: Relation) -> None:
    """Check for "at least" or "less than" ``capital_frequency`` words in capitals.

    ``U.S.A.`` counts as one word.
    """
    count = sum(token.isupper() for token in tokens(text))
    require_relation(count, capital_relation, capital_frequency, "words in capital letters")


@CHECKS("length_constraints:number_words")
def number_words(
    text: str,
    num_words: int,
    relation: Relation,
    *,
    corrected: bool = False,
    multilingual: bool = False,
) -> None:
    """Check for "at least" or "less than" ``num_words`` words.

    ``3.5`` counts as two words; in the corrected check, as one. In the multilingual check, each
    ideograph, kana or Hangul syllable is a word if the text is Chinese or Japanese. In the
    corrected check, ICU divides scripts without spaces into words.
    """
    # In the corrected check, ``don't`` and words with combining marks are one word, too.
    count = count_words(text) if corrected else len(words(text))
    if multilingual and _language(text) in CHINESE_OR_JAPANESE:
        characters = text.translate(_NO_WORDS)
        count = len(_CHARACTER.findall(characters)) + len(_CHARACTER.sub(" ", characters).split())
    require_relation(count, relation, num_words, "words")


@CHECKS("length_constraints:number_sentences")
def number_sentences(
    text: str,
    num_sentences: int,
    relation: Relation,
    *,
    corrected: bool = False,
    multilingual: bool = False,
) -> None:
    """Check for "at least" or "less than" ``num_sentences`` sentences; ``1. One`` counts as two.

    In the multilingual check, the punctuation of Chinese, Japanese and Hindi texts ends sentences.
    In the corrected check, so does that of all scripts in texts that are not English.
    """
    language = _language(text) if multilingual else ""
    if language == "hi":
        count = len(present(_AFTER_HINDI_SENTENCE.split(text)))
    elif language in CHINESE_OR_JAPANESE:
        count = sum(len(_SENTENCE.findall(line.strip())) for line in text.splitlines())
    elif corrected:
        count = len(sentences_in_any_script(text, sentences))
    else:
        count = len(sentences(text))
    require_relation(count, relation, num_sentences, "sentences")


@CHECKS("length_constraints:number_paragraphs")
def number_paragraphs(text: str, num_paragraphs: int, *, corrected: bool = False) -> None:
    """Check for ``num_paragraphs`` paragraphs separated by ``***``.

    An empty paragraph fails, except at the beginning and at the end. In the corrected check,
    ``***`` must be alone on its line.
    """
    divider = _RULE if corrected else _STARS
    problem = "an empty paragraph between two dividers"
    require_parts(divider.split(text), num_paragraphs, "paragraphs divided by ***", problem)


@CHECKS("length_constraints:nth_paragraph_first_word")
def nth_paragraph_first_word(
    text: str, num_paragraphs: int, nth_paragraph: int, first_word: str, *, corrected: bool = False
) -> None:
    """Check for ``num_paragraphs`` paragraphs, one of which must begin with ``first_word``.

    This is paragraph ``nth_paragraph``, counted from 1. Empty lines separate paragraphs; in the
    corrected check, blank lines do. A blank paragraph does not count towards ``num_paragraphs``,
    but it does towards ``nth_paragraph``; in the corrected check, it counts towards neither.
    """
    parts = re.split(r"\n[^\S\n]*\n", text) if corrected else text.split("\n\n")
    present_parts = present(parts)
    require_count(len(present_parts), num_paragraphs, "paragraphs")
    if corrected:
        parts = present_parts
    paragraph: list[str] = []
    if nth_paragraph <= len(present_parts):
        paragraph = parts[nth_paragraph - 1].split()
    require(paragraph, f"there is no paragraph {nth_paragraph}")
    word = paragraph[0].lstrip("'").lstrip('"')
    fold = folding(corrected)
    actual = fold(_ENDS_FIRST_WORD.split(word, maxsplit=1)[0])
    expected = fold(first_word)
    if corrected and expected and has_other_scripts(word):
        begins = fold(word).startswith(expected) and is_whole_word(expected, fold(word), 0)
        actual = expected if begins else actual
    problem = f"paragraph {nth_paragraph} begins with {actual!r:.60}, {expected!r:.60} wanted"
    require(actual == expected, problem)


@CHECKS("combination:repeat_prompt")
def repeat_prompt(text: str, prompt_to_repeat: str) -> None:
    """Check that the text begins with ``prompt_to_repeat``, ignoring case."""
    text = text.strip()
    repeated = text.lower().startswith(prompt_to_repeat.strip().lower())
    require(repeated, f"begins with {truncate(text, 60)!r}, not with the request")


@CHECKS("combination:two_responses")
def two_responses(text: str) -> None:
    """Check for two different responses separated by six asterisks."""
    problem = f"an empty response between two {DIVIDER}"
    parts = text.split(DIVIDER)
    first, second = require_parts(parts, 2, f"responses divided by {DIVIDER}", problem)
    require(first.strip() != second.strip(), "the two responses are equal")


@CHECKS("startend:end_checker")
def end_phrase(text: str, end_phrase: str, *, corrected: bool = False) -> None:
    """Check that the text ends with the phrase, ignoring case and a closing ``"``.

    In the corrected check, curly quotes and apostrophes are treated as straight ones.
    """
    fold = TextComparison(ignore_case=True, straight_quotes=True) if corrected else str.lower
    phrase = end_phrase.strip()
    stripped = text.strip()
    end = fold(stripped)
    ends = [end.strip('"')]
    if corrected:  # also finds a phrase that ends in a quote
        ends = [end, end.strip('"').strip()]
    holds = any(end.endswith(fold(phrase)) for end in ends)
    require(holds, f"ends with {stripped[-60:]!r}, {truncate(phrase, 80)!r} wanted")


@CHECKS("startend:quotation")
def quotation(text: str, *, corrected: bool = False, multilingual: bool = False) -> None:
    """Check that the whole text is in double quotes.

    The quotes must be straight. In the corrected check, they may also be curly; in the multilingual
    check, they may also be curly or corner brackets.
    """
    if corrected:
        text = text.translate(CURLY_TO_STRAIGHT)
    text = text.strip()
    pairs = QUOTES if multilingual else QUOTES[:1]
    quoted = len(text) > 1 and text[0] + text[-1] in pairs
    require(quoted, "not in double quotation marks")


@CHECKS("punctuation:no_comma")
def no_comma(text: str, *, corrected: bool = False) -> None:
    """Check that the text contains no comma.

    The corrected check also counts the commas of other scripts.
    """
    commas = COMMAS if corrected else ","
    require_count(sum(map(text.count, commas)), 0, "commas", "none")


@CHECKS("change_case:english_capital")
def english_capital(text: str, *, corrected: bool = False) -> None:
    """Check that the text is all in capitals, and is English according to langdetect.

    In the corrected check, the text is put in lower case for langdetect, which ignores words in
    capitals.
    """
    require(text.isupper(), "not all in capital letters")
    response_language(text.lower() if corrected else text, "en")


@CHECKS("change_case:english_lowercase")
def english_lowercase(text: str) -> None:
    """Check that the text has no capitals, and is English according to langdetect."""
    require(text.islower(), "not all in lower-case letters")
    response_language(text, "en")


@CHECKS("language:response_language")
def response_language(text: str, language: str, *, corrected: bool = False) -> None:
    """Check that langdetect identifies the given language. Text without letters passes.

    ``language`` is a code of langdetect's; in the corrected check, ``zh`` stands for both codes for
    Chinese.
    """
    identified_code = identified(text)
    matches = identified_code in (None, language)
    if corrected and identified_code:
        matches = matches or identified_code.partition("-")[0] == language
    require(matches, f"its language is {identified_code}, {language} wanted")


@CHECKS("detectable_content:number_placeholders")
def placeholders(text: str, num_placeholders: int, *, corrected: bool = False) -> None:
    """Check for at least ``num_placeholders`` placeholders in square brackets.

    Empty brackets count; in the corrected check, they do not.
    """
    count = 0
    for line in text.split("\n"):
        # Count from each "[" to the next "]" on its line, without overlaps.
        for piece in line.split("]")[:-1]:
            _, bracket, content = piece.partition("[")
            if bracket and (content.strip() or not corrected):
                count += 1
    require_relation(count, "at least", num_placeholders, "placeholders")


@CHECKS("detectable_content:postscript")
def postscript(text: str, postscript_marker: str, *, corrected: bool = False) -> None:
    """Check for a marker like ``P.S.``, ignoring case.

    The marker is also found within words; in the corrected check, it is not.
    """
    marker = postscript_marker.strip()
    if corrected:  # literal, and not part of a word or of ``P.P.S.``
        literal = r"\.\s?".join(map(re.escape, marker.split(".")))
        match = re.search(rf"(?<![\w.]){literal}", text, re.IGNORECASE)
    else:
        pattern = _POSTSCRIPTS.get(marker) or expression(marker.lower())
        match = pattern.search(text.lower())
    require(match, f"there is no {marker!r:.60}")


@CHECKS("detectable_format:number_bullet_lists")
def bullets(text: str, num_bullets: int, *, corrected: bool = False) -> None:
    """Check for ``num_bullets`` lines that begin with ``-``, or with ``*`` but not ``**``.

    In the corrected check, a word must follow on the line, so a rule such as ``---`` does not
    count.
    """
    if corrected:  # a rule such as ``---`` has none
        count = len(_BULLET.findall(text))
    else:
        lines = [line.lstrip() for line in text.split("\n")]
        stars = _STAR.findall("\n".join(lines))  # a lone ``*`` and the next line are one bullet
        count = len(stars) + sum(line.startswith("-") for line in lines)
    require_count(count, num_bullets, "bullets")


@CHECKS("detectable_format:constrained_response")
def constrained_response(text: str, *, corrected: bool = False) -> None:
    """Check for the answer "My answer is yes.", "My answer is no." or "My answer is maybe.".

    At least one of these must occur; in the corrected check, exactly one.
    """
    count = sum(answer in text for answer in ANSWERS)
    if corrected:
        require_count(count, 1, "of the three answers", "one")
    require(count, "none of the three answers")


@CHECKS("detectable_format:number_highlighted_sections")
def highlights(text: str, num_highlights: int, *, corrected: bool = False) -> None:
    """Check for at least ``num_highlights`` highlighted parts, such as ``*this*``.

    ``***this***`` counts as two parts; in the corrected check, as one.
    """
    if corrected:  # emphasis as in Markdown, each once, and no bullets
        count = len(_HIGHLIGHT.findall(text))
    else:
        emphasised = [span.strip("*") for span in _EMPHASIS.findall(text)]
        strong = [span.removeprefix("**").removesuffix("**") for span in _STRONG.findall(text)]
        count = len(present(emphasised + strong))
    require_relation(count, "at least", num_highlights, "highlights")


@CHECKS("detectable_format:multiple_sections")
def sections(text: str, section_spliter: str, num_sections: int) -> None:
    """Check for at least ``num_sections`` headings: ``section_spliter`` followed by a number."""
    word = section_spliter.strip()
    count = len(expression(word, r"(?-i:\s?{}\s?\d+\s?)").findall(text))
    require_relation(count, "at least", num_sections, f"sections {word!r:.60}")


@CHECKS("detectable_format:json_format")
def json_format(text: str, *, corrected: bool = False) -> None:
    """Check that the text is JSON, possibly in a code fence.

    NaN and Infinity pass; in the corrected check, they fail.
    """

    def refuse(name: str) -> Any:
        raise ValueError(f"{name} is not JSON")

    text = text.strip()
    for fence in FENCES:
        text = text.removeprefix(fence)
    try:
        constant = refuse if corrected else None  # NaN and infinities
        json.loads(text.removesuffix("```").strip(), parse_constant=constant)
    except RecursionError:
        raise NotFollowed("not JSON (nested too deep)") from None
    except ValueError as error:
        raise NotFollowed(f"not JSON ({error!s:.120})") from None


@CHECKS("detectable_format:title")
def title(text: str) -> None:
    """Check for a ``<<title>>`` that is not blank."""
    for line in text.split("\n"):
        start = line.find("<<")
        end = line.rfind(">>")
        content = line[start : end + 2].lstrip("<").rstrip(">")
        if 0 <= start < end - 2 and content.strip():
            return
    raise NotFollowed("there is no <<title>>")


LANGUAGE = frozenset(
    {"language:response_language", "change_case:english_capital", "change_case:english_lowercase"}
)
"""Ids of the instructions whose verdicts depend on langdetect."""


def versions(ids: Collection[str]) -> dict[str, str]:
    """Return langdetect's version if an instruction depends on it."""
    return {"langdetect": version("langdetect")} if LANGUAGE & set(ids) else {}


TABLE = InstructionTable(
    CHECKS,
    versions,
    english_officially=frozenset(
        {
            "keywords:forbidden_words",
            "length_constraints:nth_paragraph_first_word",
            "length_constraints:number_sentences",
            "length_constraints:number_words",
        }
    ),
    counts_words=frozenset({"length_constraints:number_words"}),
)

PLUGINS = instruction_plugins(CHECKS)
