"""Verifiable instructions: their ids, arguments, checks and verdicts.

Plug-ins bring kinds by their extensions ``verifiable_instructions``, which are `InstructionTable`s.
A check is a function of the text and the instruction's arguments. It raises NotFollowed if the text
does not follow the instruction.

``official`` verdicts agree with the published code; ``corrected`` verdicts avoid its known
misreadings (docs/ifeval.md, docs/ifbench.md). A check's docstring describes the official verdict,
and says where the corrected check differs. The checker ``ifeval:length_constraints/number_words``
applies the instruction ``length_constraints:number_words``, whose arguments are its options.

All functions take bounded time for any text. The official checkers count with NLTK 3.9. Its
splitters have changed since, so the earlier ones are used here: words are ``\\w+`` of Python's
``re``, and `harness.plugins.benchmarks.punkt` splits sentences and tokens.

>>> asked = instruction("length_constraints:number_words", {"num_words": 3, "relation": "at least"})
>>> asked.check("Two words.")
'2 words, at least 3 wanted'
>>> judge([asked], "Here are *three words*.")[0].strict
True
"""

from __future__ import annotations

import contextlib
import inspect
import re
import string
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from itertools import chain
from types import ModuleType
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, cast

import msgspec
from msgspec import Struct

from harness.config.settings import Settings
from harness.declarations import declared_members
from harness.errors import ConfigError, DataInvalid, reraise_as, suggest_name
from harness.records import Instance, Score
from harness.scoring import quoted_list
from harness.scoring.patterns import Pattern, PatternTooSlow
from harness.scoring.text import (
    MayCountWords,
    Uncountable,
    english_rules_details,
    fold_case,
    has_other_scripts,
    normalize_text,
)
from harness.wording import truncate

if TYPE_CHECKING:
    from harness.plugins.benchmarks.punkt import Punkt

Check: TypeAlias = Callable[..., None]
"""A function of the text and an instruction's arguments. It raises NotFollowed if the text does not
follow the instruction.

If the published code misreads some texts, the function has a keyword argument ``corrected``. If
False (the default), the verdict is the published one; if True, it is the right one.
"""


class NotFollowed(Exception):
    """The text does not follow an instruction. The message says why."""


@dataclass(frozen=True)
class InstructionTable:
    """The kinds of instructions of a benchmark.

    Attributes:
        checks: Their checks, by id.
        versions: Returns, for the ids of some instructions, the versions of packages and hashes of
            data on which their verdicts depend, by name.
        english: Ids of those that are only for text divided into words or sentences as in English.
        english_officially: Ids of further ones of which this holds for the official check.
        counts_words: Ids of those whose corrected checks count words in any script.
    """

    checks: Mapping[str, Check]
    versions: Callable[[Collection[str]], dict[str, str]]
    english: Collection[str] = ()
    english_officially: Collection[str] = ()
    counts_words: Collection[str] = ()


class Checks(dict[str, Check]):
    """Checks by the ids of instructions. ``@CHECKS(ID)`` enters a function as that of an id."""

    def __call__(self, name: str) -> Callable[[Check], Check]:
        """Return a decorator that enters a function as the check of the instruction ``name``."""
        return lambda check: self.setdefault(name, check)


Relation = Literal["less than", "at least"]  # the published comparisons of a count with a number

_PUNCTUATION = str.maketrans("", "", string.punctuation)
CURLY_TO_STRAIGHT = str.maketrans(
    "\N{LEFT DOUBLE QUOTATION MARK}\N{RIGHT DOUBLE QUOTATION MARK}", '""'
)
_CLOSING = re.compile(r"""(?<=[.!?])["')\]}‘’“”«»‹›]+""")  # noqa: RUF001
_TO_STRAIGHT = str.maketrans("‘’‹›“”«»", "'" * 4 + '"' * 4)  # noqa: RUF001
_QUANTIFIERS = frozenset("*+?{")


def words(text: str) -> list[str]:
    """Return the words of the text: runs of letters, digits and underscores."""
    return re.findall(r"\w+", text)


def folding(corrected: bool) -> Callable[[str], str]:
    """Return the function that removes differences of case, in an official or corrected check."""
    return fold_case if corrected else str.lower


def bare(word: str) -> str:
    """Return a word without ASCII punctuation and spaces at either end."""
    return word.strip(string.punctuation + " ")


def with_straight_closing_quotes(text: str) -> str:
    """Return the text with straight quotes after the ends of sentences, as NLTK 3.9 needs them."""
    return _CLOSING.sub(lambda closing: closing[0].translate(_TO_STRAIGHT), text)


def shown(text: str) -> str:
    """Return a text in quotes, cut to 40 characters, for a reason."""
    return repr(truncate(text, 40))


def unpunctuated(text: str) -> str:
    """Return the text without ASCII punctuation."""
    return text.translate(_PUNCTUATION)


def _punkt() -> ModuleType:
    from harness.plugins.benchmarks import punkt  # the import of NLTK takes 0.4 s

    return punkt


@cache
def splitter() -> Punkt:
    """Return the sentence splitter of NLTK 3.9."""
    earlier: Punkt = _punkt().earlier(Settings().data_dir / "nltk_data")
    return earlier


def sentences(text: str) -> list[str]:
    """Return the sentences of the text, split by Punkt as in NLTK 3.9."""
    parts: list[str] = splitter().tokenize(text)
    return parts


def tokens(text: str) -> list[str]:
    """Return the words and punctuation marks of the text, split as in NLTK 3.9."""
    return [token for sentence in sentences(text) for token in _sentence_tokens(sentence)]


@lru_cache(4_096)
def _sentence_tokens(sentence: str) -> list[str]:
    words: list[str] = _punkt().earlier_word_tokens(sentence)
    return words


def require(holds: object, reason: str) -> None:
    """Raise NotFollowed with a reason if a condition is false."""
    if not holds:
        raise NotFollowed(reason)


def present(parts: Iterable[str]) -> list[str]:
    """Return the parts that are not blank."""
    return [part for part in parts if part.strip()]


def require_parts(parts: Sequence[str], expected: int, what: str, problem: str) -> list[str]:
    """Return the parts that are not blank. Raise NotFollowed unless there are ``expected``.

    Only the first and the last part may be blank; else ``problem`` is the reason.
    """
    between = parts[1:-1]
    require(len(present(between)) == len(between), problem)
    remaining = present(parts)
    require_count(len(remaining), expected, what)
    return remaining


def require_none(items: Sequence[str], reason: str) -> None:
    """Raise NotFollowed if ``items`` is not empty. Its items replace ``{}`` in the reason."""
    if items:
        raise NotFollowed(reason.format(quoted_list(items)))


def require_count(
    count: int, expected: int, what: str, bound: str | None = None, where: str = ""
) -> None:
    """Raise NotFollowed ("1 word, 3 wanted") unless ``count`` equals ``expected``.

    ``what`` begins with a plural noun. In the reason, ``bound`` replaces the required number, and
    ``where`` is put at the beginning.
    """
    require(count == expected, where + count_reason(count, what, bound or expected))


def require_relation(
    count: int, relation: Relation, expected: int, what: str, where: str = ""
) -> None:
    """Raise NotFollowed unless ``count`` is "less than" or "at least" ``expected``.

    ``what`` and ``where`` are the same as in `require_count`.
    """
    holds = count < expected if relation == "less than" else count >= expected
    bound = f"{relation.replace('less', 'fewer')} {expected:,}"
    require(holds, where + count_reason(count, what, bound))


def count_reason(count: int, what: str, expected: str | int) -> str:
    """Return a reason such as "1 word, 3 wanted"; ``what`` begins with a plural noun."""
    noun, space, rest = what.partition(" ")
    if count == 1:
        noun = noun[:-1]
    return f"{count:,} {noun}{space}{rest}, {expected} wanted"


@lru_cache(4_096)
def expression(keyword: str, within: str = "{}") -> Any:
    """Compile a keyword as a pattern that ignores case.

    ``within`` is a pattern in which the keyword replaces ``{}``. A search may raise the errors of
    `Pattern.search`.
    """
    pattern = within.replace("{}", keyword)
    if _QUANTIFIERS.isdisjoint(keyword):  # such a pattern takes linear time
        with contextlib.suppress(re.error):  # reported below
            return re.compile(pattern, re.IGNORECASE)
    return Pattern(pattern, "The keyword", ignore_case=True)


Verdicts = Literal["official", "corrected"]

VERSION = "1"  # changes whenever a verdict on English text does

BLANK = "the answer is blank"


@cache
def tables() -> tuple[InstructionTable, ...]:
    """Return the tables of instructions of all installed plug-ins."""
    members = chain.from_iterable(declared_members("verifiable_instructions").values())
    return tuple(cast("InstructionTable", member.load()) for member in members)


@cache
def table_of_each() -> Mapping[str, InstructionTable]:
    """Return the table of each instruction, by id."""
    return {name: table for table in tables() for name in table.checks}


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
        table = table_of_each()[self.id]
        check = table.checks[self.id]
        arguments = dict(self.arguments)
        if self.verdicts == "corrected":
            text = normalize_text(text)
            if self.id in table.english and has_other_scripts(text):
                raise Uncountable(f"The check {self.id} is for text in English only.")
            if self.id in table.english or self.id in table.english_officially:
                text = with_straight_closing_quotes(text)
            if "n_start" not in arguments:  # an offset in the prompt
                arguments = {name: _composed(value) for name, value in arguments.items()}
            if _accepts(check, "corrected"):
                arguments["corrected"] = True
        if self.multilingual and _accepts(check, "multilingual"):
            arguments["multilingual"] = True
        try:
            check(text, **arguments)
        except NotFollowed as error:
            return str(error)
        return ""

    @property
    def counts_words(self) -> bool:
        """Whether the check is a corrected one that divides text of any script into words."""
        return self.verdicts == "corrected" and self.id in table_of_each()[self.id].counts_words

    def warning(self, text: str) -> dict[str, str]:
        """Return the details of a score, with a warning if the verdict on a text may be wrong."""
        if self.verdicts == "corrected" or self.multilingual:
            return {}
        table = table_of_each()[self.id]
        if self.id in table.english:
            return english_rules_details(text, "")
        if self.id in table.english_officially:
            return english_rules_details(text, "; verdicts: corrected counts by Unicode's rules")
        return {}


def _composed(value: Any) -> Any:
    if isinstance(value, str):
        return normalize_text(value)
    if isinstance(value, list):
        return [_composed(item) for item in value]
    return value


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
    _, *others = inspect.signature(check, eval_str=True).parameters.values()
    return [parameter for parameter in others if parameter.kind is parameter.POSITIONAL_OR_KEYWORD]


def instruction(
    name: str,
    arguments: Mapping[str, Any],
    verdicts: Verdicts = "official",
    multilingual: bool = False,
) -> VerifiableInstruction:
    """Build an instruction from its id, such as ``keywords:existence``, and its arguments.

    Instructions without a corrected check always use the official one.
    """
    tables_by_id = table_of_each()
    if name not in tables_by_id:
        raise DataInvalid(
            f"there is no instruction {name!r:.80}.", suggest_name(name, tables_by_id)
        )
    fields = _arguments(tables_by_id[name].checks[name])
    values: dict[str, Any] = {}
    for key, value in arguments.items():
        if value is None:  # in the published files, null means no argument
            continue
        if key not in fields.__struct_fields__:
            remedy = suggest_name(key, fields.__struct_fields__)
            raise DataInvalid(f"{name}: there is no argument {key!r:.60}.", remedy)
        values[key] = value
        if isinstance(value, float) and value.is_integer():  # they also write 3.0 for 3
            values[key] = int(value)
    try:
        checked = msgspec.convert(values, fields)
    except msgspec.ValidationError as error:
        raise DataInvalid(f"{name}: {error}.") from None
    return VerifiableInstruction(name, msgspec.structs.asdict(checked), verdicts, multilingual)


@cache
def _arguments(check: Check) -> type[Struct]:
    fields = [(parameter.name, parameter.annotation) for parameter in parameters(check)]
    return msgspec.defstruct("Arguments", fields, kw_only=True)


def versions(ids: Collection[str]) -> dict[str, str]:
    """Return the versions of packages and hashes of data on which instructions depend, by name."""
    versions_by_name: dict[str, str] = {}
    for table in tables():
        versions_by_name |= table.versions(ids)
    return versions_by_name


def judge(instructions: Sequence[VerifiableInstruction], text: str) -> list[Verdict]:
    """Return a verdict on the text for each of a prompt's instructions.

    Raises:
        PatternTooSlow, Uncountable, ConfigError, DataMissing: As in `VerifiableInstruction.check`.
    """
    loosened = list(variants(text))[1:]
    verdicts = []
    for instruction in instructions:
        reason = instruction.check(text)
        loose = not reason or any(not instruction.check(variant) for variant in loosened)
        verdicts.append(Verdict(instruction.id, not reason, loose, reason))
    return verdicts


def variants(text: str) -> Iterator[str]:
    """Yield the text as it is, without its first line, without its last line, and without both.

    The same four follow without asterisks. Repeated variants are omitted.
    """
    lines = text.split("\n")
    texts = [text]
    for part in (lines[1:], lines[:-1], lines[1:-1]):
        texts.append("\n".join(part).strip())
    without_asterisks = [variant.replace("*", "") for variant in texts]
    yield from dict.fromkeys(texts + without_asterisks)


class InstructionChecker(MayCountWords):
    """Passes text that follows a verifiable instruction, given by its id and arguments.

    ``verdicts`` is ``official`` to agree with the published code, or ``corrected`` to fix its known
    misreadings. With ``loose``, it is enough that the text passes without its first line, last line
    or asterisks.
    """

    def __init__(
        self, name: str, arguments: Mapping[str, Any], verdicts: Verdicts, loose: bool
    ) -> None:
        with reraise_as(ConfigError):
            self._instruction = instruction(name, arguments, verdicts)
        self._loose = loose

    @property
    def counts_words(self) -> bool:
        """Whether the check divides text of any script into words."""
        return self._instruction.counts_words

    def check(self, text: str, instance: Instance[Any]) -> Score:
        """Return a score of True or False. If False, its reason says what is wrong.

        The score has no value if searching for a pattern takes too long, or if a corrected check
        cannot divide the text into words or sentences. An official verdict on such a text has a
        ``warning`` in its details.
        """
        try:
            [verdict] = judge([self._instruction], text)
        except PatternTooSlow as error:
            return Score(None, None, error.message)
        except Uncountable as error:
            return error.score()
        passed = verdict.loose if self._loose else verdict.strict
        reason = "" if passed else verdict.reason
        return Score(passed, passed, reason, self._instruction.warning(text))


OPTIONS = """

verdicts: Agree with the published code, or correct its known misreadings.
loose: Also accept a text that passes without its first line, last line or asterisks.
"""


def instruction_plugin(name: str, check: Check) -> Callable[..., InstructionChecker]:
    """Return a function that builds the checker of the instruction ``name``.

    Its parameters are the instruction's arguments, ``verdicts`` and ``loose``. Its docstring is
    that of the instruction's check, followed by `OPTIONS`.
    """
    keyword = inspect.Parameter.POSITIONAL_OR_KEYWORD
    signature = [
        *parameters(check),
        inspect.Parameter("verdicts", keyword, default="official", annotation=Verdicts),
        inspect.Parameter("loose", keyword, default=False, annotation=bool),
    ]

    def build(verdicts: Verdicts, loose: bool, **arguments: Any) -> InstructionChecker:
        return InstructionChecker(name, arguments, verdicts, loose)

    build.__doc__ = (inspect.getdoc(check) or "") + OPTIONS
    build.__signature__ = inspect.Signature(signature)  # type: ignore[attr-defined]
    return build


def instruction_plugins(
    checks: Mapping[str, Check],
) -> dict[str, Callable[..., InstructionChecker]]:
    """Return functions that build the checkers of instructions, by names with a slash."""
    plugins = {}
    for name, check in checks.items():
        plugins[name.replace(":", "/")] = instruction_plugin(name, check)
    return plugins
