"""Verifiable instructions: their ids, arguments, checks and verdicts.

IFEval has 25 kinds (Zhou et al. 2023, arXiv 2311.07911), IFBench has 58 others and 29 to train
models with (Pyatkin et al. 2025, arXiv 2507.02833). A check is a function of a text and the
instruction's arguments that returns what is wrong. With ``official`` verdicts it agrees with the
published code; ``corrected`` ones replace the checks that misread some texts (docs/ifeval.md,
docs/ifbench.md).

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
from typing import Any, Literal, get_type_hints

import msgspec
from msgspec import Struct

from harness.errors import DataInvalid, nearest
from harness.plugins import import_extra
from harness.scoring.instructions import (
    formats,
    ifbench_counts,
    ifbench_custom,
    ifbench_formats,
    ifbench_training,
    ifbench_words,
    keywords,
    language_data,
    lengths,
    wordings,
)
from harness.scoring.instructions.ifbench_words import COUNTS_SYLLABLES
from harness.scoring.instructions.texts import Check
from harness.scoring.instructions.wordings import IDENTIFIES_LANGUAGE

Verdicts = Literal["official", "corrected"]

IFEVAL = (keywords, wordings, lengths, formats)
IFBENCH = (ifbench_counts, ifbench_words, ifbench_formats, ifbench_custom)
MODULES = (*IFEVAL, *IFBENCH, ifbench_training)

OFFICIAL: Mapping[str, Check] = {name: one for m in MODULES for name, one in m.OFFICIAL.items()}
CORRECTED: Mapping[str, Check] = {name: one for m in MODULES for name, one in m.CORRECTED.items()}
"""By instruction id: the check, and the one that replaces it for corrected verdicts."""

VERSION = "1"
"""Changes whenever a verdict does."""

BLANK = "the answer is blank"


class VerifiableInstruction(Struct, frozen=True):
    """An instruction with its arguments."""

    id: str
    arguments: Mapping[str, Any]
    verdicts: Verdicts = "official"

    @property
    def family(self) -> str:
        """The part of the id before the colon, such as ``keywords``."""
        return self.id.partition(":")[0]

    def check(self, text: str) -> str:
        """Return what is wrong with a text; empty if it follows the instruction.

        Raises `harness.scoring.patterns.PatternTooSlow` if a keyword is a pattern that takes too
        long.
        """
        return check_of(self.id, self.verdicts)(text, **self.arguments) if text.strip() else BLANK


class Verdict(Struct, frozen=True):
    """Whether a text follows an instruction; ``reason`` says why it does not, strictly."""

    id: str
    strict: bool
    loose: bool
    reason: str


def check_of(name: str, verdicts: Verdicts = "official") -> Check:
    """Return the check of the instruction with an id; raises DataInvalid if there is none."""
    if name not in OFFICIAL:
        raise DataInvalid(f"there is no instruction {name!r:.80}.", nearest(name, OFFICIAL))
    return (CORRECTED.get(name) if verdicts == "corrected" else None) or OFFICIAL[name]


def instruction(
    name: str, arguments: Mapping[str, Any], verdicts: Verdicts = "official"
) -> VerifiableInstruction:
    """Return an instruction; raises DataInvalid if its id or an argument is unknown or wrong.

    Arguments that are null do not count, as in the published files; whole floats become integers.
    """
    wanted = _arguments(check_of(name))
    given = {key: _whole(value) for key, value in arguments.items() if value is not None}
    for key in given:
        if key not in wanted.__struct_fields__:
            remedy = nearest(key, wanted.__struct_fields__)
            raise DataInvalid(f"{name}: there is no argument {key!r:.60}.", remedy)
    try:
        checked = msgspec.convert(given, wanted)
    except msgspec.ValidationError as error:
        raise DataInvalid(f"{name}: {error}.") from None
    return VerifiableInstruction(name, msgspec.structs.asdict(checked), verdicts)


def _whole(value: Any) -> Any:
    return int(value) if isinstance(value, float) and value.is_integer() else value


@cache
def _arguments(check: Check) -> type[Struct]:
    """Return a check's arguments as a struct, from its signature."""
    hints = get_type_hints(check)
    fields: list[tuple[str, Any] | tuple[str, Any, Any]] = []
    for name, parameter in list(inspect.signature(check).parameters.items())[1:]:
        if parameter.default is parameter.empty:
            fields.append((name, hints[name]))
        else:
            fields.append((name, hints[name], parameter.default))
    return msgspec.defstruct("Arguments", fields, kw_only=True)


def versions(ids: Collection[str]) -> dict[str, str]:
    """Return the versions or hashes of the libraries and data that instructions depend on.

    Raises ConfigError if a library is missing, and DataMissing if data is.
    """
    found = {}
    for library, names in (("langdetect", IDENTIFIES_LANGUAGE), ("syllapy", COUNTS_SYLLABLES)):
        if not names.isdisjoint(ids):
            import_extra(library, "ifeval")
            found[library] = version(library)
    for data, sha256, names in (
        ("stopwords", language_data.stopwords_sha256, ifbench_counts.NEEDS_STOPWORDS),
        ("tagger", language_data.tagger_sha256, ifbench_words.NEEDS_TAGGER),
    ):
        if not names.isdisjoint(ids):
            found[f"{data}_sha256"] = sha256()
    return found


def judge(asked: Sequence[VerifiableInstruction], text: str) -> list[Verdict]:
    """Return the verdict on each of a prompt's instructions."""
    loosened = list(variants(text))[1:]
    found = []
    for one in asked:
        reason = one.check(text)
        loose = not reason or any(not one.check(variant) for variant in loosened)
        found.append(Verdict(one.id, not reason, loose, reason))
    return found


def variants(text: str) -> Iterator[str]:
    """Yield the distinct texts of which one must follow an instruction for a loose pass.

    The text itself; without its first line, its last, and both; and all of these without ``*``.
    """
    lines = text.split("\n")
    cut = ("\n".join(part).strip() for part in (lines[1:], lines[:-1], lines[1:-1]))
    whole = [text, *cut]
    yield from dict.fromkeys([*whole, *(one.replace("*", "") for one in whole)])
