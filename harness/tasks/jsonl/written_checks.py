"""Checks as they are written down: in the run file, in a row, or both.

A checker's name with its options, or a judge's (``- judge: polite``). What the options mean is
decided where they are needed (`harness.tasks.jsonl.checks`, `harness.tasks.jsonl.judge_checks`).

>>> read_checks(["exact_match", {"judge": "polite", "criteria": "It is polite."}], "task.checks")
... # doctest: +SKIP
[Check(name='exact_match', …), Check(name='polite', checker='judge', …)]
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

from msgspec import Struct

from harness.errors import ConfigError, DataInvalid, nearest
from harness.plugins import kind

Of = Literal["answer", "text"]

KEYS = ("as", "of")
JUDGE = "judge"
"""In the place of a checker's name: a judge of the run."""
OF_JUDGES = (JUDGE, "criteria")
"""The keys of a check by a judge."""


class Check(Struct, frozen=True):
    """A check as it is written down.

    name: of its score; of a check by a judge, the judge's in the run.
    checker: ``judge`` for that.
    """

    name: str
    checker: str
    of: Of
    options: Mapping[str, Any]


def read_checks(raw: object, where: str) -> list[Check]:
    """A list of checks. Raises: ConfigError, naming the place."""
    if not isinstance(raw, list):
        raise ConfigError(f"{where} must be a list.", "Write - exact_match, one to a line.")
    found: list[Check] = []
    for number, entry in enumerate(raw, start=1):
        found.append(_entry(entry, f"{where}.{number}", [check.name for check in found]))
    return found


def checks_of(row: Mapping[str, Any], own: Sequence[Check]) -> Sequence[Check]:
    """A row's checks: those of the run file, in their place others, or changed.

    own: the run file's.

    Raises: DataInvalid, also where there are none.
    """
    raw = row.get("checks")
    try:
        if raw is None:
            found = own
        elif isinstance(raw, list):
            found = read_checks(raw, "'checks'")
        elif isinstance(raw, Mapping):
            found = list(_changed(own, raw))
        else:
            raise DataInvalid("'checks' must be a list, or a mapping of the names of checks.")
    except ConfigError as error:
        raise DataInvalid(error.message, error.remedy) from None
    if not found:
        raise DataInvalid("there are no checks.", "Write task.checks, or 'checks' in the row.")
    return found


def field_of(value: object) -> str | None:
    """The row's field that an option's value stands for: ``{field: …}``."""
    if isinstance(value, Mapping) and value.keys() == {"field"} and isinstance(value["field"], str):
        return value["field"]
    return None


def _entry(raw: object, where: str, taken: Sequence[str]) -> Check:
    entry: Mapping[Any, Any] = {raw: {}} if isinstance(raw, str) else raw  # type: ignore[assignment]
    if not isinstance(entry, Mapping):
        raise ConfigError(f"{where} must be a checker's name, or the name with its options.")
    if JUDGE in entry:
        return _judge_entry(entry, where, taken)
    names = [key for key in entry if key not in KEYS]
    if len(names) != 1:
        raise ConfigError(
            f"{where} must name one checker, not {len(names)}.",
            "Begin each check with a dash; its options are indented below its name.",
        )
    checker, options = names[0], entry[names[0]]
    if not isinstance(checker, str) or checker not in kind("checkers").names():
        raise ConfigError(
            f"{where}: there is no checker {checker!r:.60}.",
            nearest(str(checker), {*kind("checkers").names(), *KEYS, JUDGE}),
        )
    options = {} if options is None else options
    if not isinstance(options, Mapping) or not all(isinstance(key, str) for key in options):
        raise ConfigError(f"{where}: the options of {checker!r} must be a mapping.")
    of = entry.get("of", "answer")
    if of not in ("answer", "text"):
        raise ConfigError(f"{where}: of must be answer or text, not {of!r:.40}.")
    name = entry.get("as", _numbered(checker, taken))
    if not isinstance(name, str) or not name or name in taken:
        raise ConfigError(f"{where}: as must be a name that no other check has.")
    return Check(name, checker, of, dict(options))


def _judge_entry(entry: Mapping[Any, Any], where: str, taken: Sequence[str]) -> Check:
    judge = entry[JUDGE]
    if not isinstance(judge, str) or not judge:
        raise ConfigError(f"{where}: judge must be the name of a judge of the run file.")
    if judge in taken:
        raise ConfigError(
            f"{where}: there is a check {judge!r:.60} already.",
            "Write all criteria of a judge into one check; checks have names of their own.",
        )
    for key in entry:
        if key not in OF_JUDGES:
            raise ConfigError(
                f"{where}: a check by a judge has no key {key!r:.60}.",
                nearest(str(key), OF_JUDGES),
            )
    return Check(judge, JUDGE, "text", {key: entry[key] for key in entry if key != JUDGE})


def _numbered(name: str, taken: Sequence[str]) -> str:
    """The name, or with a number where it is taken."""
    number, own = 1, name
    while own in taken:
        number += 1
        own = f"{name}_{number}"
    return own


def _changed(checks: Sequence[Check], changes: Mapping[Any, Any]) -> Iterator[Check]:
    names = [check.name for check in checks]
    for name in changes:
        if name not in names:
            raise ConfigError(
                f"'checks' changes {name!r:.60}, which is no check.", nearest(str(name), names)
            )
    for check in checks:
        change = changes.get(check.name, {})
        if change is None:
            continue
        if not isinstance(change, Mapping):
            raise ConfigError(f"'checks', {check.name}: must be options, or null to drop it.")
        yield Check(check.name, check.checker, check.of, {**check.options, **change})
