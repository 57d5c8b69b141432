"""The checks of an answer, as defined by the run file and by the rows of the data.

A check names a checker, with options from the run file or the row (docs/jsonl.md). A row may have
its own ``checks``. A list replaces the run file's checks. A mapping changes the options of the
checks that it names, or drops those whose value is null, as in ``{"short": {"at_most": 9},
"contains": null}``.
"""

from __future__ import annotations

import contextlib
import inspect
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from difflib import get_close_matches
from functools import lru_cache, partial
from itertools import chain, count
from pathlib import Path
from typing import Any, Literal

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from harness.errors import ConfigError, DataInvalid, nearest, raised_as
from harness.plugin_loader import FILE, kind
from harness.ports import Checker
from harness.records import Instance, Score
from harness.scoring import is_blank
from harness.scoring.checkers.json_schema import JsonSchemaChecker
from harness.user_code import checked

JUDGE = "judge"  # key of a check that one of the run's judges decides, in place of a checker's name
FROM_ROW = ("target", "targets")
"""Options that need not be written. If a checker requires one of them, its default is the row's
field ``target``, or ``targets`` if the row has no ``target``."""
EXPECTED = (*FROM_ROW, "pattern")  # options with an expected text
BLANK_REFUSED = ("contains", "exact_match", "regex_match")
MAY_NAME_A_FILE = {"json_schema": "schema"}
"""Maps a checker to the option that can name a file. A string is taken for the file's path."""
_DROP = 'Write the answer, or drop the check in this row: "checks": {{"{}": null}}.'
_FIELD = " For another field: {{{}: {{target: {{field: NAME}}}}}}."
MOST_CACHED = 4_096  # maximum number of cached checkers, which feedback needs again


class Check(Struct, frozen=True):
    """A check of a reply: the name of a checker, its options, and the text to check.

    ``of`` is ``answer`` to check the extracted answer, or ``text`` to check the whole reply.
    ``name`` is also the name of the score. If a judge decides, ``checker`` is ``judge`` and
    ``name`` is the name of the judge.
    """

    name: str
    checker: str
    of: Literal["answer", "text"]
    options: Mapping[str, Any]


def read_checks(raw: object, where: str, judges: Collection[str] = ()) -> list[Check]:
    """Parse a list of checks from a run file or a row. Error messages begin with ``where``.

    ``judges`` names the run's judges, for the message if a judge is written as a check.
    """
    if not isinstance(raw, list):
        raise ConfigError(f"{where} must be a list.", "Write '- exact_match', one per line.")
    found: list[Check] = []
    for number, entry in enumerate(raw, start=1):
        with raised_as(ConfigError, f"{where}.{number}"):
            found.append(_entry(entry, [check.name for check in found], judges))
    return found


def checks_of(
    row: Mapping[str, Any], shared: Sequence[Check], judges: Collection[str] = ()
) -> Sequence[Check]:
    """Return a row's checks: its own, or the run file's (``shared``) with the row's changes.

    ``judges`` names the run's judges, for the message if there are no checks.
    """
    raw = row.get("checks")
    if isinstance(raw, list):
        with raised_as(DataInvalid):
            found: Sequence[Check] = read_checks(raw, "'checks'")
        if files := [one.checker for one in found if is_file(one.checker)]:
            problem = f"'checks' names a Python file, {files[0]!r:.60}."
            raise DataInvalid(problem, "Name it in the run file: rows may be untrusted.")
    elif raw is None or isinstance(raw, Mapping):
        found = _changed(shared, raw) if raw else shared
    else:
        raise DataInvalid("'checks' must be a list, or a mapping of check names.")
    if not found:
        remedy = "Write 'checks' in the row, or task.checks, such as -o task.checks=exact_match."
        if judges:
            check = f"checks: [{{judge: {next(iter(judges))}}}]"
            remedy = f"If only a judge decides, name it in task.checks or in the row: {check}."
        raise DataInvalid("there are no checks.", remedy)
    return found


def field_of(value: object) -> str | None:
    """Return NAME if an option's value is ``{field: NAME}``, or else None."""
    if isinstance(value, Mapping) and value.keys() == {"field"} and isinstance(value["field"], str):
        return value["field"]
    return None


def located(checks: object, own: Callable[[str], str]) -> object:
    """Return a list of checks, with the paths of checkers and schemas converted by ``own``.

    Anything but a list is returned unchanged.
    """
    if not isinstance(checks, list):
        return checks

    def placed(checker: Any) -> Any:
        return own(checker) if is_file(checker) else checker

    def with_file(checker: Any, options: Any) -> Any:
        option = MAY_NAME_A_FILE.get(checker)
        named = options.get(option) if option and isinstance(options, Mapping) else None
        return {**options, option: own(named)} if isinstance(named, str) else options

    return [
        {placed(key): with_file(key, options) for key, options in entry.items()}
        if isinstance(entry, Mapping)
        else placed(entry)
        for entry in checks
    ]


def is_file(checker: object) -> bool:
    """Return whether a checker is the path of a Python file."""
    return isinstance(checker, str) and checker.endswith(FILE)


def from_row(row: Mapping[str, Any], name: str, check: str) -> Any:
    """Return a row's field. Raise DataInvalid if it is missing."""
    if name not in row:
        raise DataInvalid(
            f"the check {check!r} needs the field {name!r:.60}, which the row does not have.",
            f"{nearest(name, map(str, row))}{_FIELD.format(check) if name == 'target' else ''}",
        )
    return row[name]


def _default_field(row: Mapping[str, Any], check: Check) -> str | None:
    """Return the field of `FROM_ROW` that a row has, if any: in tables, the one that is filled in.

    Raises:
        DataInvalid: If both are.
    """
    names = [name for name in FROM_ROW if name in row]
    filled = [name for name in names if row[name] is not None and not _blank(row[name])]
    if len(filled) > 1:
        field = f"{{{check.checker}: {{target: {{field: NAME}}}}}}"
        problem = f"the row has both 'target' and 'targets' for the check {check.name!r}."
        raise DataInvalid(problem, f"Keep one, or name the field that counts: {field}.")
    return next(iter(filled or names), None)


def _refuse_blank(check: Check, option: str, value: object, field: str | None) -> None:
    """Refuse an expected text that all answers have, or none. It may come from a row's ``field``.

    In a run file, white space may be what ``contains`` and ``regex_match`` look for.
    """
    if field is not None and value is None:
        problem = f"the check {check.name!r} needs a target, but {field!r} is null or NaN."
        raise DataInvalid(problem, _DROP.format(check.name))
    if check.checker not in BLANK_REFUSED or not (what := _blank(value)):
        return
    if field is not None:
        problem = f"the check {check.name!r} needs a target, but {field!r} is {what}."
        raise DataInvalid(problem, _DROP.format(check.name))
    refused = check.checker == "exact_match" or value == ""
    if check.checker == "contains":  # which itself refuses an empty text
        in_list = isinstance(value, list) and "" not in value
        refused = in_list and check.options.get("mode") != "none"
    if refused:
        raise ConfigError(f"the {option} of the check {check.name!r} is {what}.", "Write a text.")


def _blank(value: object) -> str:
    """Return how an expected text, or one in a list, is blank ("" if it is not)."""
    if isinstance(value, list):
        if None in value:
            return "a list with null"
        return next(filter(None, map(_blank, value)), "") if value else "an empty list"
    return "blank" if isinstance(value, str) and is_blank(value) else ""


def _entry(raw: object, taken: Sequence[str], judges: Collection[str]) -> Check:
    entry = {raw: {}} if isinstance(raw, str) else raw
    if not isinstance(entry, Mapping):
        raise ConfigError(" must be a checker's name, or the name with its options.")
    if JUDGE in entry:
        return _judge_entry(entry, taken)
    named = [key for key in entry if key not in ("as", "of")]
    if len(named) != 1:
        remedy = "Begin each check with a dash, and indent its options below its name."
        raise ConfigError(f" must name one checker, not {len(named)}.", remedy)
    (checker,), names = named, kind("checkers").names()
    if not (checker in names or is_file(checker)):
        _refuse_unknown(str(checker), names, {*judges, *kind("judges").names()})
    options = {} if entry[checker] is None else entry[checker]
    if not isinstance(options, Mapping) or not all(isinstance(key, str) for key in options):
        raise ConfigError(f": the options of {checker!r} must be a mapping.")
    if (of := entry.get("of", "answer")) not in ("answer", "text"):
        raise ConfigError(f": of must be answer or text, not {of!r:.40}.")
    first = Path(checker).stem if is_file(checker) else checker
    numbered = (f"{first}_{number}" for number in count(2))
    name = entry.get("as", next(one for one in chain([first], numbered) if one not in taken))
    if not isinstance(name, str) or not name or name in taken:
        raise ConfigError(": as must be a name that no other check has.")
    return Check(name, checker, of, dict(options))


def _refuse_unknown(checker: str, names: Sequence[str], judges: Collection[str]) -> None:
    if checker in judges:
        said = f"Put it under judges: (harness docs judges); for some rows: '- judge: {checker}'."
        raise ConfigError(f": {checker!r} is a judge, not a checker.", said)
    if "," in checker:
        raise ConfigError(f": {checker!r:.60} is not one name.", f"Write [{checker}].")
    short = {name for name in names if ":" not in name}
    known = names if get_close_matches(checker, names, n=1) else short
    said = nearest(checker, {*known, "as", "of", JUDGE})
    if known is short:
        said += " 'harness checkers' lists all."
    raise ConfigError(f": there is no checker {checker!r:.60}.", said)


def _judge_entry(entry: Mapping[Any, Any], taken: Sequence[str]) -> Check:
    judge = entry[JUDGE]
    if not isinstance(judge, str) or not judge:
        raise ConfigError(": judge must be the name of a judge in the run file.")
    if judge in taken:
        remedy = "Write all criteria of a judge into one check, and give every check a unique name."
        raise ConfigError(f": there is already a check named {judge!r:.60}.", remedy)
    options = {key: entry[key] for key in entry if key != JUDGE}
    if wrong := [key for key in options if key != "criteria"]:
        remedy = nearest(str(wrong[0]), [JUDGE, "criteria"])
        raise ConfigError(f": a check by a judge has no key {wrong[0]!r:.60}.", remedy)
    return Check(judge, JUDGE, "text", options)


def _changed(checks: Sequence[Check], changes: Mapping[Any, Any]) -> list[Check]:
    """Return the checks with a row's ``changes``, by name (None drops a check)."""
    found = {check.name: check for check in checks}
    for name, change in changes.items():
        if name not in found:
            problem = f"'checks' changes {name!r:.60}, but there is no such check."
            raise DataInvalid(problem, nearest(str(name), found))
        if change is None:
            del found[name]
        elif isinstance(change, Mapping):
            found[name] = replace(found[name], options={**found[name].options, **change})
        else:
            raise DataInvalid(f"'checks', {name}: must be options, or null to drop it.")
    return list(found.values())


def files(checks: Sequence[Check]) -> set[str]:
    """Return the paths of the files that the options of checks name."""
    return {path for check in checks if (path := _file(check))}


class Rules:
    """A cache of checkers.

    The constructor builds the checkers of the run file's checks (``shared``) unless a row supplies
    their options.
    """

    def __init__(self, shared: Sequence[Check]) -> None:
        self._checkers: dict[tuple[str, bytes], Checker] = {}
        self._files = [_file(check) for check in shared]
        for check in shared:
            if check.checker == JUDGE:
                continue
            with raised_as(ConfigError, f"task.checks, {check.name}: "):
                _refuse_templates(check)
            with contextlib.suppress(DataInvalid):  # its options come from the row
                rule = _resolved(check, {})
                with raised_as(ConfigError, f"task.checks, {check.name}: "):
                    checker = self.checker(rule)
                    if isinstance(checker, JsonSchemaChecker) and checker.misspelt:
                        remedy = "Correct it, or begin the name of a keyword of your own with 'x-'."
                        raise ConfigError(checker.misspelt, remedy)

    def of(self, checks: Sequence[Check], row: Mapping[str, Any]) -> tuple[Check, ...]:
        """Return the checks that need no judge, with the row's values in their options."""
        found = []
        for check in checks:
            if check.checker == JUDGE:
                continue
            rule = _resolved(check, row)
            if (named := _file(rule)) and named not in self._files:  # rows may be untrusted
                option = MAY_NAME_A_FILE[rule.checker]
                raise DataInvalid(
                    f"the check {rule.name!r} would read a file that the row names.",
                    f"Write the {option} itself into the row, or the path into the run file.",
                )
            with raised_as(DataInvalid, f"{check.name}: "):
                self.checker(rule)
            found.append(rule)
        return tuple(found)

    def checker(self, rule: Check) -> Checker:
        """Return the checker for a check. Checks with equal options share a checker."""
        key = rule.checker, msgspec.json.encode(rule.options, order="sorted", enc_hook=repr)
        if key not in self._checkers:
            if len(self._checkers) == MOST_CACHED:
                self._checkers.clear()
            self._checkers[key] = kind("checkers").build(rule.checker, rule.options)
        return self._checkers[key]

    def score(self, rule: Check, text: str, instance: Instance[Any]) -> Score:
        """Return the score of a text by a check.

        Raises:
            ConfigError: If the check fails or returns no score.
            Unparseable: If the checker cannot read the text.
        """
        check = partial(self.checker(rule).check, text, instance)
        return checked(check, rule.checker, text, instance)


def _file(check: Check) -> str | None:
    """Return the path of the file that a check reads, if any."""
    named = check.options.get(MAY_NAME_A_FILE.get(check.checker, ""))
    return named if isinstance(named, str) else None


def _resolved(check: Check, row: Mapping[str, Any]) -> Check:
    """Return a check with references to the row's fields replaced by their values."""
    names, principal, required = _parameters(check.checker)
    options = dict(check.options)
    if isinstance(options.get("field"), str) and "field" not in names:
        options[principal] = {"field": options.pop("field")}
    for option in required:
        if option not in options:
            options[option] = {"field": _default_field(row, check) or option}
    for option, value in options.items():
        if (name := field_of(value)) is not None:
            options[option] = from_row(row, name, check.name)
        if option in EXPECTED or name == "target":
            _refuse_blank(check, option, options[option], name)
    return replace(check, options=options)


_TEMPLATE = re.compile(r"{{\s*(\w+)[^{}]*}}")


def _refuse_templates(check: Check) -> None:
    """Raise ConfigError if the expected text of a run file's check is a template."""
    for option in (*FROM_ROW, "pattern"):
        for text in _as_list(check.options.get(option)):
            if isinstance(text, str) and (found := _TEMPLATE.search(text)):
                form = f"{{{check.checker}: {{{option}: {{field: {found[1]}}}}}}}"
                problem = f"{option} is {text!r:.60}, but the options of checks are not templates."
                raise ConfigError(problem, f"For a field of the row: {form}.")


def named_like_fields(checks: Sequence[Check], row: Mapping[str, Any]) -> Iterator[str]:
    """Yield a sentence for each expected text in the run file that is the name of a row's field."""
    for check in checks:
        for option in FROM_ROW:
            text = check.options.get(option)
            if isinstance(text, str) and text in row:
                form = f"{{{check.checker}: {{{option}: {{field: {text}}}}}}}"
                yield (
                    f"{check.name}: the {option} of each row is the word {text!r:.60}. For the "
                    f"field of this name: {form}."
                )


def _as_list(value: object) -> list[Any]:
    return value if isinstance(value, list) else [value]


def target_fields(check: Check) -> list[str]:
    """Return the fields of a row that a check's options name as its target."""
    if check.checker == JUDGE:
        return []
    names, principal, _ = _parameters(check.checker)
    named = [field_of(check.options.get(option)) for option in FROM_ROW]
    if "field" not in names and principal in FROM_ROW:
        named.append(check.options.get("field"))
    return [name for name in named if isinstance(name, str)]


@lru_cache
def _parameters(checker: str) -> tuple[list[str], str, list[str]]:
    """Return a checker's options, its main option, and its required ones in `FROM_ROW`."""
    parameters = inspect.signature(kind("checkers").load(checker)).parameters.values()
    own = {one.name: one.default for one in parameters if one.kind is one.POSITIONAL_OR_KEYWORD}
    principal = next((name for name in (*FROM_ROW, *own) if name in own), "")
    required = [name for name in FROM_ROW if own.get(name, 0) is inspect.Parameter.empty]
    return list(own), principal, required
