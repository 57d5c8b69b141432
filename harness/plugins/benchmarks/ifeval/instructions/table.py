"""Tables of verifiable instructions: their checks, and what their verdicts depend on."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import TypeAlias

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


def decides(checks: dict[str, Check], name: str) -> Callable[[Check], Check]:
    """Return a decorator that enters a function in ``checks`` as the check of an instruction."""

    def enter(check: Check) -> Check:
        checks[name] = check
        return check

    return enter
