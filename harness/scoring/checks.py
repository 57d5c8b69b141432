"""The checks of an answer, as defined by the run file and by the rows of the data.

A check names a checker, with options from the run file or the row (docs/jsonl.md). A row may have
its own ``checks``. A list replaces the run file's checks. A mapping changes the options of the
checks that it names, or drops those whose value is null, as in ``{"short": {"at_most": 9},
"contains": null}``.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from difflib import get_close_matches
from functools import lru_cache, partial
from inspect import Parameter
from pathlib import Path
from typing import Any, Literal

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from harness.errors import ConfigError, DataInvalid, reraise_as, suggest_name
from harness.plugin_interface import option_parameters
from harness.plugin_loader import PYTHON_SUFFIX, kind
from harness.ports import Checker
from harness.records import Instance, Score
from harness.scoring import is_blank
from harness.scoring.checkers import JsonSchemaChecker
from harness.user_code import run_check

JUDGE = "judge"  # key of a check that one of the run's judges decides, in place of a checker's name
FROM_ROW = ("target", "targets")
"""Options that need not be written. If a checker requires one of them, its default is the row's
field ``target``, or ``targets`` if the row has no ``target``."""
EXPECTED = (*FROM_ROW, "pattern")  # options with an expected text
BLANK_REFUSED = ("contains", "exact_match", "numeric_match", "regex_match")
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
    checks: list[Check] = []
    for number, entry in enumerate(raw, start=1):
        with reraise_as(ConfigError, f"{where}.{number}"):
            checks.append(_entry(entry, [check.name for check in checks], judges))
    return checks


def checks_of(
    row: Mapping[str, Any], shared: Sequence[Check], judges: Collection[str] = ()
) -> Sequence[Check]:
    """Return a row's checks: its own, or the run file's (``shared``) with the row's changes.

    ``judges`` names the run's judges, for the message if there are no checks.
    """
    raw = row.get("checks")
    if isinstance(raw, list):
        with reraise_as(DataInvalid):
            checks: Sequence[Check] = read_checks(raw, "'checks'")
        for check in checks:
            if is_file(check.checker):
                problem = f"'checks' names a Python file, {check.checker!r:.60}."
                raise DataInvalid(problem, "Name it in the run file: rows may be untrusted.")
    elif raw is None or isinstance(raw, Mapping):
        checks = _changed(shared, raw) if raw else shared
    else:
        raise DataInvalid("'checks' must be a list, or a mapping of check names.")
    if not checks:
        remedy = "Write 'checks' in the row, or task.checks, such as -o task.checks=exact_match."
        if judges:
            entry = f"checks: [{{judge: {next(iter(judges))}}}]"
            remedy = f"If only a judge decides, name it in task.checks or in the row: {entry}."
        raise DataInvalid("there are no checks.", remedy)
    return checks


def field_of(value: object) -> str | None:
    """Return NAME if an option's value is ``{field: NAME}``, or else None."""
    if isinstance(value, Mapping) and value.keys() == {"field"} and isinstance(value["field"], str):
        return value["field"]
    return None


def located(checks: object, locate: Callable[[str], str]) -> object:
    """Return a list of checks, with the paths of checkers and schemas converted by ``locate``.

    Anything but a list is returned unchanged.
    """
    if not isinstance(checks, list):
        return checks
    return [_located(entry, locate) for entry in checks]


def _located(entry: Any, locate: Callable[[str], str]) -> Any:
    if not isinstance(entry, Mapping):
        return locate(entry) if is_file(entry) else entry
    located_entry = {}
    for checker, options in entry.items():
        if isinstance(options, Mapping) and (path := _schema_file(checker, options)) is not None:
            options = {**options, "schema": locate(path)}
        located_entry[locate(checker) if is_file(checker) else checker] = options
    return located_entry


def _schema_file(checker: object, options: Mapping[str, Any]) -> str | None:
    """Return the path of the file that a check reads, if any, instead of the schema itself."""
    schema = options.get("schema") if checker == "json_schema" else None
    return schema if isinstance(schema, str) else None


def is_file(checker: object) -> bool:
    """Return whether a checker is the path of a Python file."""
    return isinstance(checker, str) and checker.endswith(PYTHON_SUFFIX)


def from_row(row: Mapping[str, Any], name: str, check: str) -> Any:
    """Return a row's field. Raise DataInvalid if it is missing."""
    if name not in row:
        problem = f"the check {check!r} needs the field {name!r:.60}, which the row does not have."
        remedy = suggest_name(name, map(str, row))
        if name == "target":
            remedy += f" For another field: {{{check}: {{target: {{field: NAME}}}}}}."
        raise DataInvalid(problem, remedy)
    return row[name]


def _default_field(row: Mapping[str, Any], check: Check) -> str | None:
    """Return the field of `FROM_ROW` that a row has, if any: in tables, the one that is filled in.

    Raises:
        DataInvalid: If both are.
    """
    names = [name for name in FROM_ROW if name in row]
    filled = [name for name in names if not (row[name] is None or _blank(row[name]))]
    if len(filled) > 1:
        option = f"{{{check.checker}: {{target: {{field: NAME}}}}}}"
        problem = f"the row has both 'target' and 'targets' for the check {check.name!r}."
        raise DataInvalid(problem, f"Keep one, or name the field that counts: {option}.")
    return next(iter(filled or names), None)


def _refuse_blank(check: Check, option: str, value: object, field: str | None) -> None:
    """Refuse an expected text that all answers have, or none. It may come from a row's ``field``.

    In a run file, white space may be what ``contains`` and ``regex_match`` look for.
    """
    blank = _blank(value) if check.checker in BLANK_REFUSED else ""
    if field is not None and value is None:
        blank = "null or NaN"
    if not blank:
        return
    if field is not None:
        problem = f"the check {check.name!r} needs a target, but {field!r} is {blank}."
        raise DataInvalid(
            problem,
            f'Write the answer, or drop the check in this row: "checks": {{"{check.name}": null}}.',
        )
    refused = check.checker == "exact_match" or value == ""
    if check.checker == "contains":  # which itself refuses an empty text
        in_list = isinstance(value, list) and "" not in value
        refused = in_list and check.options.get("mode") != "none"
    if refused:
        raise ConfigError(f"the {option} of the check {check.name!r} is {blank}.", "Write a text.")


def _blank(value: object) -> str:
    """Return how an expected text, or one in a list, is blank ("" if it is not)."""
    if isinstance(value, list):
        if None in value:
            return "a list with null"
        return next(filter(None, map(_blank, value)), "") if value else "an empty list"
    return "blank" if isinstance(value, str) and is_blank(value) else ""


def _entry(raw: object, earlier: Sequence[str], judges: Collection[str]) -> Check:
    """Return the check in an entry of a list, given the names of the checks before it."""
    entry = {raw: {}} if isinstance(raw, str) else raw
    if not isinstance(entry, Mapping):
        raise ConfigError(" must be a checker's name, or the name with its options.")
    if JUDGE in entry:
        return _judge_entry(entry, earlier)
    checkers = [key for key in entry if key not in ("as", "of")]
    if len(checkers) != 1:
        remedy = "Begin each check with a dash, and indent its options below its name."
        raise ConfigError(f" must name one checker, not {len(checkers)}.", remedy)
    [checker] = checkers
    if not is_file(checker) and checker not in kind("checkers").names():
        _refuse_unknown(str(checker), judges)
    options = {} if entry[checker] is None else entry[checker]
    if not isinstance(options, Mapping) or not all(isinstance(key, str) for key in options):
        raise ConfigError(f": the options of {checker!r} must be a mapping.")
    part = entry.get("of", "answer")
    if part not in ("answer", "text"):
        raise ConfigError(f": of must be answer or text, not {part!r:.40}.")
    name = entry.get("as", _unused_name(checker, earlier))
    if not isinstance(name, str) or not name or name in earlier:
        raise ConfigError(": as must be a name that no other check has.")
    return Check(name, checker, part, dict(options))


def _unused_name(checker: str, names: Sequence[str]) -> str:
    first = Path(checker).stem if is_file(checker) else checker
    name = first
    number = 1
    while name in names:
        number += 1
        name = f"{first}_{number}"
    return name


def _refuse_unknown(checker: str, judges: Collection[str]) -> None:
    if checker in judges or checker in kind("judges").names():
        remedy = f"Put it under judges: (harness docs judges); for some rows: '- judge: {checker}'."
        raise ConfigError(f": {checker!r} is a judge, not a checker.", remedy)
    if "," in checker:
        raise ConfigError(f": {checker!r:.60} is not one name.", f"Write [{checker}].")
    names = kind("checkers").names()
    is_close = bool(get_close_matches(checker, names, n=1))
    if not is_close:
        names = [name for name in names if ":" not in name]
    remedy = suggest_name(checker, {*names, "as", "of", JUDGE})
    if not is_close:
        remedy += " 'harness checkers' lists all."
    raise ConfigError(f": there is no checker {checker!r:.60}.", remedy)


def _judge_entry(entry: Mapping[Any, Any], earlier: Sequence[str]) -> Check:
    judge = entry[JUDGE]
    if not isinstance(judge, str) or not judge:
        raise ConfigError(": judge must be the name of a judge in the run file.")
    if judge in earlier:
        remedy = "Write all criteria of a judge into one check, and give every check a unique name."
        raise ConfigError(f": there is already a check named {judge!r:.60}.", remedy)
    options = {key: entry[key] for key in entry if key != JUDGE}
    for key in options:
        if key != "criteria":
            remedy = suggest_name(str(key), [JUDGE, "criteria"])
            raise ConfigError(f": a check by a judge has no key {key!r:.60}.", remedy)
    return Check(judge, JUDGE, "text", options)


def _changed(checks: Sequence[Check], changes: Mapping[Any, Any]) -> list[Check]:
    """Return the checks with a row's ``changes``, by name (None drops a check)."""
    by_name = {check.name: check for check in checks}
    for name, change in changes.items():
        if name not in by_name:
            problem = f"'checks' changes {name!r:.60}, but there is no such check."
            raise DataInvalid(problem, suggest_name(str(name), by_name))
        if change is None:
            del by_name[name]
        elif isinstance(change, Mapping):
            by_name[name] = replace(by_name[name], options={**by_name[name].options, **change})
        else:
            raise DataInvalid(f"'checks', {name}: must be options, or null to drop it.")
    return list(by_name.values())


def files(checks: Sequence[Check]) -> set[str]:
    """Return the paths of the files that the options of checks name."""
    paths = [_schema_file(check.checker, check.options) for check in checks]
    return set(filter(None, paths))


class Rules:
    """Resolves the checks of rows, and scores texts by them, with a cache of checkers.

    The constructor builds the checkers of the run file's checks (``shared``) unless a row supplies
    their options.
    """

    def __init__(self, shared: Sequence[Check]) -> None:
        self._checkers: dict[tuple[str, bytes], Checker] = {}
        self._files = files(shared)
        for check in shared:
            if check.checker == JUDGE:
                continue
            with reraise_as(ConfigError, f"task.checks, {check.name}: "):
                _refuse_templates(check)
            with contextlib.suppress(DataInvalid):  # its options come from the row
                rule = _resolved(check, {})
                with reraise_as(ConfigError, f"task.checks, {check.name}: "):
                    checker = self.checker(rule)
                    if isinstance(checker, JsonSchemaChecker) and checker.misspelt:
                        remedy = "Correct it, or begin the name of a keyword of your own with 'x-'."
                        raise ConfigError(checker.misspelt, remedy)

    def of(self, checks: Sequence[Check], row: Mapping[str, Any]) -> tuple[Check, ...]:
        """Return the checks that need no judge, with the row's values in their options."""
        rules = []
        for check in checks:
            if check.checker == JUDGE:
                continue
            rule = _resolved(check, row)
            if not files([rule]) <= self._files:  # rows may be untrusted
                problem = f"the check {rule.name!r} would read a file that the row names."
                remedy = "Write the schema itself into the row, or the path into the run file."
                raise DataInvalid(problem, remedy)
            with reraise_as(DataInvalid, f"{check.name}: "):
                self.checker(rule)
            rules.append(rule)
        return tuple(rules)

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
        return run_check(check, rule.checker, text, instance)


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
    for option in EXPECTED:
        value = check.options.get(option)
        for text in value if isinstance(value, list) else [value]:
            if isinstance(text, str) and (template := _TEMPLATE.search(text)):
                form = f"{{{check.checker}: {{{option}: {{field: {template[1]}}}}}}}"
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


def target_fields(check: Check) -> list[str]:
    """Return the fields of a row that a check's options name as its target."""
    if check.checker == JUDGE:
        return []
    names, principal, _ = _parameters(check.checker)
    fields = [field_of(check.options.get(option)) for option in FROM_ROW]
    if "field" not in names and principal in FROM_ROW:
        fields.append(check.options.get("field"))
    return [field for field in fields if isinstance(field, str)]


@lru_cache
def _parameters(checker: str) -> tuple[list[str], str, list[str]]:
    """Return a checker's options, its main option, and its required ones in `FROM_ROW`."""
    options = option_parameters(kind("checkers").load(checker))
    principal = next((name for name in (*FROM_ROW, *options) if name in options), "")
    required = [
        name for name in FROM_ROW if name in options and options[name].default is Parameter.empty
    ]
    return list(options), principal, required
