"""Verifiable instructions: their ids, arguments, checks and verdicts.

IFEval has 25 kinds (Zhou et al. 2023, arXiv 2311.07911). IFBench has 58 others, and 29 for training
(Pyatkin et al. 2025, arXiv 2507.02833). A check is a function of the text and the instruction's
arguments. It raises NotFollowed if the text does not follow the instruction.

``official`` verdicts agree with the published code; ``corrected`` verdicts avoid its known
misreadings (docs/ifeval.md, docs/ifbench.md). A check's docstring describes the official verdict,
and says where the corrected check differs.

>>> asked = instruction("length_constraints:number_words", {"num_words": 3, "relation": "at least"})
>>> asked.check("Two words.")
'2 words, at least 3 wanted'
>>> judge([asked], "Here are *three words*.")[0].strict
True
"""

from __future__ import annotations

import inspect
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import cache
from importlib.metadata import version
from typing import Any, Literal

import msgspec
from msgspec import Struct

from harness.errors import DataInvalid, nearest
from harness.plugins.benchmarks.ifeval.instructions import (  # noqa: F401 (the modules fill the tables)
    ifbench_custom,
    ifbench_formats,
    ifbench_training,
    ifbench_words,
    ifeval,
    language_data,
)
from harness.plugins.benchmarks.ifeval.instructions.texts import (
    IFBENCH,
    IFEVAL,
    TRAINING,
    Check,
    NotFollowed,
)
from harness.scoring.text import Uncountable, comparable, has_other_scripts

Verdicts = Literal["official", "corrected"]

CHECKS: Mapping[str, Check] = IFEVAL | IFBENCH | TRAINING

LIBRARIES = {
    "language:response_language": "langdetect",
    "change_case:english_capital": "langdetect",
    "change_case:english_lowercase": "langdetect",
    "words:odd_even_syllables": "syllapy",
}
DATA = {
    "ratio:stop_words": ("stopwords", language_data.STOPWORDS),
    "words:start_verb": ("tagger", language_data.TAGGER.format("weights")),
}
"""`LIBRARIES` and `DATA` map instruction ids to what the verdicts need: a library, or the
name and the path of a file of NLTK's data."""

_ENGLISH = """
count:conjunctions count:counting_composition count:person_names count:pronouns
detectable_format:bigram_wrapping detectable_format:sentence_hyphens
detectable_format:square_brackets first_word:first_word_answer first_word:first_word_sent
format:emoji format:newline format:no_bullets_bullets format:title_case
keywords:keyword_specific_position keywords:no_adjacent_consecutive keywords:palindrome
keywords:start_end last_word:last_word_answer last_word:last_word_sent ratio:sentence_balance
ratio:sentence_type ratio:sentence_words ratio:stop_words sentence:alliteration_increment
sentence:increment sentence:keyword words:consonants words:keywords_specific_position
words:last_first words:no_consecutive words:odd_even_syllables words:palindrome
words:paragraph_last_first words:prime_lengths words:repeats words:start_verb words:words_position
"""
_ENGLISH_OFFICIALLY = """
count:count_unique count:unique_word_count count:word_count_range keywords:exclude_word_harder
keywords:forbidden_words length_constraints:nth_paragraph_first_word
length_constraints:number_sentences length_constraints:number_words
"""
ENGLISH = frozenset(_ENGLISH.split())
"""Ids of the instructions that are only for text divided into words or sentences as in English."""
ENGLISH_OFFICIALLY = ENGLISH | frozenset(_ENGLISH_OFFICIALLY.split())
"""The same for official checks. Some corrected checks are for text in any script."""

COUNTS_WORDS = frozenset(
    {
        "count:count_unique",
        "count:unique_word_count",
        "count:word_count_range",
        "length_constraints:number_words",
    }
)
"""Ids of the instructions whose corrected checks count words in any script."""

VERSION = "1"  # changes whenever a verdict on English text does

BLANK = "the answer is blank"


class VerifiableInstruction(Struct, frozen=True):
    """An instruction's id and arguments, and whether its verdicts are official or corrected.

    If ``multilingual``, words, sentences and quotes are those of the text's language, as in
    Multi-IF.
    """

    id: str
    arguments: Mapping[str, Any]
    verdicts: Verdicts = "official"
    multilingual: bool = False

    @property
    def family(self) -> str:
        """The part of the id before the colon, such as ``keywords``."""
        return self.id.partition(":")[0]

    def check(self, text: str) -> str:
        """Return why the text does not follow the instruction, or "" if it does.

        Raises:
            PatternTooSlow: If a keyword is a pattern whose search takes too long.
            Uncountable: If a corrected check cannot divide the text, because of its script.
            ConfigError: If a keyword is not a valid pattern, or has been too slow too often.
            DataMissing: If the check needs data that is not installed.
        """
        if not text.strip():
            return BLANK
        check = CHECKS[self.id]
        arguments = self.arguments
        if self.verdicts == "corrected":
            text = comparable(text)
            if self.id in ENGLISH and has_other_scripts(text):
                raise Uncountable(f"The check {self.id} is for text in English only.")
            if "n_start" not in arguments:  # an offset in the prompt
                arguments = {name: _composed(value) for name, value in arguments.items()}
        wanted = {"corrected": self.verdicts == "corrected", "multilingual": self.multilingual}
        own = {name: True for name, on in wanted.items() if on and _accepts(check, name)}
        try:
            check(text, **arguments, **own)
        except NotFollowed as error:
            return str(error)
        return ""

    @property
    def counts_words(self) -> bool:
        """Whether the check is a corrected one that divides text of any script into words."""
        return self.verdicts == "corrected" and self.id in COUNTS_WORDS

    def warning(self, text: str) -> str:
        """Return why the verdict on a text may be wrong, or "" if nothing speaks against it."""
        if self.verdicts == "corrected" or self.multilingual:
            return ""
        if self.id not in ENGLISH_OFFICIALLY or not has_other_scripts(text):
            return ""
        remedy = "" if self.id in ENGLISH else "; verdicts: corrected counts by Unicode's rules"
        return f"the official check divides text into words and sentences as in English{remedy}"


def _composed(value: Any) -> Any:
    if isinstance(value, str):
        return comparable(value)
    return [_composed(item) for item in value] if isinstance(value, list) else value


class Verdict(Struct, frozen=True):
    """Whether the text (``strict``) or one of its `variants` (``loose``) follows an instruction."""

    id: str
    strict: bool
    loose: bool
    reason: str  # why the text itself does not; empty if it does


@cache
def _accepts(check: Check, name: str) -> bool:
    return name in inspect.signature(check).parameters


def parameters(check: Check) -> list[inspect.Parameter]:
    """Return the parameters of a check that are arguments of the instruction, with their types."""
    _, *own = inspect.signature(check, eval_str=True).parameters.values()
    return [one for one in own if one.kind is one.POSITIONAL_OR_KEYWORD]


def instruction(
    name: str,
    arguments: Mapping[str, Any],
    verdicts: Verdicts = "official",
    multilingual: bool = False,
) -> VerifiableInstruction:
    """Build an instruction from its id, such as ``keywords:existence``, and its arguments.

    Instructions without a corrected check always use the official one.
    """
    if name not in CHECKS:
        raise DataInvalid(f"there is no instruction {name!r:.80}.", nearest(name, CHECKS))
    wanted = _arguments(CHECKS[name])
    given = {  # in the published files, null means no argument, and numbers may be 3.0
        key: int(value) if isinstance(value, float) and value.is_integer() else value
        for key, value in arguments.items()
        if value is not None
    }
    for key in given:
        if key not in wanted.__struct_fields__:
            remedy = nearest(key, wanted.__struct_fields__)
            raise DataInvalid(f"{name}: there is no argument {key!r:.60}.", remedy)
    try:
        checked = msgspec.convert(given, wanted)
    except msgspec.ValidationError as error:
        raise DataInvalid(f"{name}: {error}.") from None
    return VerifiableInstruction(name, msgspec.structs.asdict(checked), verdicts, multilingual)


@cache
def _arguments(check: Check) -> type[Struct]:
    fields = [(one.name, one.annotation) for one in parameters(check)]
    return msgspec.defstruct("Arguments", fields, kw_only=True)


def versions(ids: Collection[str]) -> dict[str, str]:
    """Return the versions of packages and hashes of data on which instructions depend, by name."""
    found = {}
    for library in sorted({LIBRARIES[name] for name in LIBRARIES.keys() & ids}):
        if library == "syllapy":
            language_data.syllable_counter()
        found[library] = version(library)
    for name, (data, file) in DATA.items():
        if name in ids:
            found[f"{data}_sha256"] = language_data.sha256(file)
    return found


def judge(asked: Sequence[VerifiableInstruction], text: str) -> list[Verdict]:
    """Return a verdict on the text for each of a prompt's instructions.

    Raises:
        PatternTooSlow, Uncountable, ConfigError, DataMissing: As in `VerifiableInstruction.check`.
    """
    loosened = list(variants(text))[1:]
    found = []
    for one in asked:
        reason = one.check(text)
        loose = not reason or any(not one.check(variant) for variant in loosened)
        found.append(Verdict(one.id, not reason, loose, reason))
    return found


def variants(text: str) -> Iterator[str]:
    """Yield the text as it is, without its first line, without its last line, and without both.

    The same four follow without asterisks. Repeated variants are omitted.
    """
    lines = text.split("\n")
    cut = ("\n".join(part).strip() for part in (lines[1:], lines[:-1], lines[1:-1]))
    whole = [text, *cut]
    yield from dict.fromkeys([*whole, *(one.replace("*", "") for one in whole)])
