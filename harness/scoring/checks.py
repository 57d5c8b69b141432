"""The checks of an answer, as defined by the run file and by the rows of the data.

A check names a checker, with options from the run file or the row (docs/jsonl.md). A row may have
its own ``checks``. A list replaces the run file's checks. A mapping changes the options of the
checks that it names, or drops those whose value is null, as in ``{"short": {"at_most": 9},
"contains": null}``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from difflib import get_close_matches
from functools import lru_cache, partial
from inspect import Parameter
from pathlib import Path
from typing import Any, Literal, NamedTuple

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

JUDGE_KEY = "judge"  # replaces the checker's name in a check that a judge of the run decides
ROW_OPTIONS = ("target", "targets")
"""Options that need not be written. If a checker requires one of them, its default is the row's
field ``target``, or ``targets`` if the row has no ``target``."""
EXPECTED_OPTIONS = (*ROW_OPTIONS, "pattern")  # options with an expected text
NON_BLANK_CHECKERS = ("contains", "exact_match", "numeric_match", "regex_match")
MAX_CACHED_CHECKERS = 4_096  # rounds of feedback need a checker again


class Check(Struct, frozen=True):
    """A check of a reply.

    Attributes:
        name: The name of the check and of its score; the judge's name if a judge decides.
        checker: The name of the checker, or ``judge``.
        of: What to check: ``answer``, the extracted answer, or ``text``, the whole reply.
        options: The options of the checker.
    """

    name: str
    checker: str
    of: Literal["answer", "text"]
    options: Mapping[str, Any]


def read_checks(raw: object, where: str, judges: Collection[str] = ()) -> list[Check]:
    """Parse a list of checks from a run file or a row.

    Args:
        raw: The list.
        where: The beginning of error messages.
        judges: The names of the run's judges, for the error message if one is written as a check.

    Raises:
        ConfigError: If a check is invalid.
    """
    if not isinstance(raw, list):
        raise ConfigError(f"{where} must be a list.", "Write '- exact_match', one per line.")
    checks: list[Check] = []
    for number, entry in enumerate(raw, start=1):
        with reraise_as(ConfigError, f"{where}.{number}"):
            names = [check.name for check in checks]
            checks.append(_parse_entry(entry, names, judges))
    return checks


def row_checks(
    row: Mapping[str, Any], shared: Sequence[Check], judges: Collection[str] = ()
) -> Sequence[Check]:
    """Return a row's checks: those in its list, or the run file's with the row's changes.

    Args:
        row: The row.
        shared: The checks of the run file.
        judges: The names of the run's judges, for the error message if there are no checks.

    Raises:
        DataInvalid: If a check of the row is invalid, or there are no checks.
    """
    raw = row.get("checks")
    if isinstance(raw, list):
        with reraise_as(DataInvalid):
            checks: Sequence[Check] = read_checks(raw, "'checks'")
        for check in checks:
            if is_python_file(check.checker):
                problem = f"'checks' names a Python file, {check.checker!r:.60}."
                raise DataInvalid(problem, "Name it in the run file: rows may be untrusted.")
    elif raw is None or isinstance(raw, Mapping):
        checks = _apply_changes(shared, raw) if raw else shared
    else:
        raise DataInvalid("'checks' must be a list, or a mapping of check names.")
    if not checks:
        remedy = "Write 'checks' in the row, or task.checks, such as -o task.checks=exact_match."
        if judges:
            entry = f"checks: [{{judge: {next(iter(judges))}}}]"
            remedy = f"If only a judge decides, name it in task.checks or in the row: {entry}."
        raise DataInvalid("there are no checks.", remedy)
    return checks


def turn_checks(
    turns: Sequence[Mapping[str, Any]],
    shared: Sequence[Check],
    judges: Collection[str],
    *,
    required: bool,
) -> list[Sequence[Check]]:
    """Return the checks of each turn of a conversation.

    Those of the run file apply to the last turn, and to others only with a turn's changes.

    Args:
        turns: The rows of the turns.
        shared: The checks of the run file.
        judges: As in `row_checks`.
        required: Whether a conversation without checks is invalid.

    Raises:
        DataInvalid: As in `row_checks`, if a turn's list is empty or none of the turns has checks.
    """
    *before, last = turns
    checks = [row_checks(turn, shared) if "checks" in turn else () for turn in before]
    if "checks" in last or shared or (required and not any(checks)):
        checks.append(row_checks(last, shared, judges))  # raises an error if no turn has checks
    else:
        checks.append(())
    return checks


def field_reference(value: object) -> str | None:
    """Return NAME if an option's value is ``{field: NAME}``, or else None."""
    if isinstance(value, Mapping) and value.keys() == {"field"} and isinstance(value["field"], str):
        return value["field"]
    return None


def locate_files(checks: object, locate: Callable[[str], str]) -> object:
    """Replace the paths of checkers and schemas in the checks of a run file.

    Args:
        checks: The list of checks. Anything but a list is returned unchanged.
        locate: Returns the path that replaces a path.
    """
    if not isinstance(checks, list):
        return checks
    return [_locate_entry_files(entry, locate) for entry in checks]


def _locate_entry_files(entry: Any, locate: Callable[[str], str]) -> Any:
    if not isinstance(entry, Mapping):
        return locate(entry) if is_python_file(entry) else entry
    located_entry = {}
    for checker, options in entry.items():
        if isinstance(options, Mapping) and (path := _schema_file(checker, options)) is not None:
            options = {**options, "schema": locate(path)}
        located_entry[locate(checker) if is_python_file(checker) else checker] = options
    return located_entry


def _schema_file(checker: object, options: Mapping[str, Any]) -> str | None:
    """Return the path of the file that a check reads, if any, instead of the schema itself."""
    schema = options.get("schema") if checker == "json_schema" else None
    return schema if isinstance(schema, str) else None


def is_python_file(checker: object) -> bool:
    """Return whether a checker is the path of a Python file."""
    return isinstance(checker, str) and checker.endswith(PYTHON_SUFFIX)


def require_field(row: Mapping[str, Any], name: str, check: str) -> Any:
    """Return the value of a row's field for a check, or raise DataInvalid if it is missing."""
    if name not in row:
        problem = f"the check {check!r} needs the field {name!r:.60}, which the row does not have."
        remedy = suggest_name(name, map(str, row))
        if name == "target":
            remedy += f" For another field: {{{check}: {{target: {{field: NAME}}}}}}."
        raise DataInvalid(problem, remedy)
    return row[name]


def _default_field(row: Mapping[str, Any], check: Check) -> str | None:
    """Return which of the fields `ROW_OPTIONS` a row has, preferring one that is filled in.

    Raises:
        DataInvalid: If both are filled in.
    """
    names = [name for name in ROW_OPTIONS if name in row]
    filled = [name for name in names if not (row[name] is None or _blankness(row[name]))]
    if len(filled) > 1:
        option = f"{{{check.checker}: {{target: {{field: NAME}}}}}}"
        problem = f"the row has both 'target' and 'targets' for the check {check.name!r}."
        raise DataInvalid(problem, f"Keep one, or name the field that counts: {option}.")
    return next(iter(filled or names), None)


def _check_not_blank(check: Check, option: str, value: object, field: str | None) -> None:
    """Check that an expected text is not blank, so that all answers have it, or none.

    In a run file, white space may be what ``contains`` and ``regex_match`` look for.

    Args:
        check: The check.
        option: The option with the expected text.
        value: The expected text, or a list of them.
        field: The row's field that it comes from; None if it is in the run file.

    Raises:
        ConfigError: If it is blank in the run file.
        DataInvalid: If it is blank in the row.
    """
    blankness = _blankness(value) if check.checker in NON_BLANK_CHECKERS else ""
    if field is not None and value is None:
        blankness = "null or NaN"
    if not blankness:
        return
    if field is not None:
        problem = f"the check {check.name!r} needs a target, but {field!r} is {blankness}."
        raise DataInvalid(
            problem,
            f'Write the answer, or drop the check in this row: "checks": {{"{check.name}": null}}.',
        )
    is_refused = check.checker == "exact_match" or value == ""
    if check.checker == "contains":  # which itself refuses an empty text
        in_list = isinstance(value, list) and "" not in value
        is_refused = in_list and check.options.get("mode") != "none"
    if is_refused:
        problem = f"the {option} of the check {check.name!r} is {blankness}."
        raise ConfigError(problem, "Write a text.")


def _blankness(value: object) -> str:
    """Return in which way an expected text, or one in a list, is blank ("" if it is not)."""
    if isinstance(value, list):
        if None in value:
            return "a list with null"
        return next(filter(None, map(_blankness, value)), "") if value else "an empty list"
    return "blank" if isinstance(value, str) and is_blank(value) else ""


def _parse_entry(raw: object, taken_names: Sequence[str], judges: Collection[str]) -> Check:
    """Return the check in an entry of a list of checks."""
    entry = {raw: {}} if isinstance(raw, str) else raw
    if not isinstance(entry, Mapping):
        raise ConfigError(" must be a checker's name, or the name with its options.")
    if JUDGE_KEY in entry:
        return _parse_judge_entry(entry, taken_names)
    checkers = [key for key in entry if key not in ("as", "of")]
    if len(checkers) != 1:
        remedy = "Begin each check with a dash, and indent its options below its name."
        raise ConfigError(f" must name one checker, not {len(checkers)}.", remedy)
    [checker] = checkers
    if not is_python_file(checker) and checker not in kind("checkers").names():
        raise _unknown_checker_error(str(checker), judges)
    options = {} if entry[checker] is None else entry[checker]
    if not isinstance(options, Mapping) or not all(isinstance(key, str) for key in options):
        raise ConfigError(f": the options of {checker!r} must be a mapping.")
    checked_text = entry.get("of", "answer")
    if checked_text not in ("answer", "text"):
        raise ConfigError(f": of must be answer or text, not {checked_text!r:.40}.")
    name = entry.get("as", _unused_name(checker, taken_names))
    if not isinstance(name, str) or not name or name in taken_names:
        raise ConfigError(": as must be a name that no other check has.")
    return Check(name, checker, checked_text, dict(options))


def _unused_name(checker: str, taken_names: Sequence[str]) -> str:
    stem = Path(checker).stem if is_python_file(checker) else checker
    name = stem
    number = 1
    while name in taken_names:
        number += 1
        name = f"{stem}_{number}"
    return name


def _unknown_checker_error(checker: str, judges: Collection[str]) -> ConfigError:
    if checker in judges or checker in kind("judges").names():
        remedy = f"Put it under judges: (harness docs judges); for some rows: '- judge: {checker}'."
        return ConfigError(f": {checker!r} is a judge, not a checker.", remedy)
    if "," in checker:
        return ConfigError(f": {checker!r:.60} is not one name.", f"Write [{checker}].")
    names = kind("checkers").names()
    is_close = bool(get_close_matches(checker, names, n=1))
    if not is_close:
        names = [name for name in names if ":" not in name]
    remedy = suggest_name(checker, {*names, "as", "of", JUDGE_KEY})
    if not is_close:
        remedy += " 'harness checkers' lists all."
    return ConfigError(f": there is no checker {checker!r:.60}.", remedy)


def _parse_judge_entry(entry: Mapping[Any, Any], taken_names: Sequence[str]) -> Check:
    judge = entry[JUDGE_KEY]
    if not isinstance(judge, str) or not judge:
        raise ConfigError(": judge must be the name of a judge in the run file.")
    if judge in taken_names:
        remedy = "Write all criteria of a judge into one check, and give every check a unique name."
        raise ConfigError(f": there is already a check named {judge!r:.60}.", remedy)
    options = {key: entry[key] for key in entry if key != JUDGE_KEY}
    for key in options:
        if key != "criteria":
            remedy = suggest_name(str(key), [JUDGE_KEY, "criteria"])
            raise ConfigError(f": a check by a judge has no key {key!r:.60}.", remedy)
    return Check(judge, JUDGE_KEY, "text", options)


def _apply_changes(checks: Sequence[Check], changes: Mapping[Any, Any]) -> list[Check]:
    """Return the checks with a row's changes to their options, by name (None drops a check)."""
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


def schema_files(checks: Sequence[Check]) -> set[str]:
    """Return the paths of the schema files that checks name in their options."""
    paths = [_schema_file(check.checker, check.options) for check in checks]
    return set(filter(None, paths))


class Rules:
    """Resolves the checks of rows, and scores texts by them, with a cache of checkers.

    Args:
        shared: The checks of the run file. Their checkers are built at once, unless a row supplies
            options.

    Raises:
        ConfigError: If the options of a check are invalid.
    """

    def __init__(self, shared: Sequence[Check]) -> None:
        self._checkers: dict[tuple[str, bytes], Checker] = {}
        self._schema_files = schema_files(shared)
        for check in shared:
            if check.checker != JUDGE_KEY:
                self._validate(check)

    def _validate(self, check: Check) -> None:
        with reraise_as(ConfigError, f"task.checks, {check.name}: "):
            _check_no_templates(check)
        try:
            rule = _resolve_check(check, {})
        except DataInvalid:  # its options come from the row
            return
        with reraise_as(ConfigError, f"task.checks, {check.name}: "):
            checker = self.checker(rule)
            if isinstance(checker, JsonSchemaChecker) and checker.misspelt:
                remedy = "Correct it, or begin the name of a keyword of your own with 'x-'."
                raise ConfigError(checker.misspelt, remedy)

    def resolve(self, checks: Sequence[Check], row: Mapping[str, Any]) -> tuple[Check, ...]:
        """Return the checks that need no judge, with the row's values in their options.

        Raises:
            DataInvalid: If a field is missing or blank, or an option is invalid.
        """
        rules = []
        for check in checks:
            if check.checker == JUDGE_KEY:
                continue
            rule = _resolve_check(check, row)
            if not schema_files([rule]) <= self._schema_files:  # rows may be untrusted
                problem = f"the check {rule.name!r} would read a file that the row names."
                remedy = "Write the schema itself into the row, or the path into the run file."
                raise DataInvalid(problem, remedy)
            with reraise_as(DataInvalid, f"{check.name}: "):
                self.checker(rule)
            rules.append(rule)
        return tuple(rules)

    def checker(self, rule: Check) -> Checker:
        """Return the checker of a resolved check. Checks with equal options share it."""
        key = rule.checker, msgspec.json.encode(rule.options, order="sorted", enc_hook=repr)
        if key not in self._checkers:
            if len(self._checkers) == MAX_CACHED_CHECKERS:
                self._checkers.clear()
            self._checkers[key] = kind("checkers").build(rule.checker, rule.options)
        return self._checkers[key]

    def score(self, rule: Check, text: str, instance: Instance[Any]) -> Score:
        """Return the score of a text by a resolved check.

        Raises:
            ConfigError: If the checker fails or returns no score.
            Unparseable: If the checker cannot read the text.
        """
        check = partial(self.checker(rule).check, text, instance)
        return run_check(check, rule.checker, text, instance)


def _resolve_check(check: Check, row: Mapping[str, Any]) -> Check:
    """Return a check with references to the row's fields replaced by their values."""
    accepted = _checker_options(check.checker)
    options = dict(check.options)
    if isinstance(options.get("field"), str) and "field" not in accepted.names:
        options[accepted.main] = {"field": options.pop("field")}
    for option in accepted.required:
        if option not in options:
            options[option] = {"field": _default_field(row, check) or option}
    for option, value in options.items():
        if (field := field_reference(value)) is not None:
            options[option] = require_field(row, field, check.name)
        if option in EXPECTED_OPTIONS or field == "target":
            _check_not_blank(check, option, options[option], field)
    return replace(check, options=options)


_TEMPLATE = re.compile(r"{{\s*(\w+)[^{}]*}}")  # its group is the name of a field


def _check_no_templates(check: Check) -> None:
    """Raise ConfigError if the expected text of a run file's check is a template."""
    for option in EXPECTED_OPTIONS:
        value = check.options.get(option)
        for text in value if isinstance(value, list) else [value]:
            if isinstance(text, str) and (template := _TEMPLATE.search(text)):
                form = f"{{{check.checker}: {{{option}: {{field: {template[1]}}}}}}}"
                problem = f"{option} is {text!r:.60}, but the options of checks are not templates."
                raise ConfigError(problem, f"For a field of the row: {form}.")


def iter_field_name_warnings(checks: Sequence[Check], row: Mapping[str, Any]) -> Iterator[str]:
    """Yield a warning for each expected text in the run file that is the name of a row's field."""
    for check in checks:
        for option in ROW_OPTIONS:
            text = check.options.get(option)
            if isinstance(text, str) and text in row:
                form = f"{{{check.checker}: {{{option}: {{field: {text}}}}}}}"
                yield (
                    f"{check.name}: the {option} of each row is the word {text!r:.60}. For the "
                    f"field of this name: {form}."
                )


def target_fields(check: Check) -> list[str]:
    """Return the names of the fields that a check's options state as its target."""
    if check.checker == JUDGE_KEY:
        return []
    accepted = _checker_options(check.checker)
    fields = [field_reference(check.options.get(option)) for option in ROW_OPTIONS]
    if "field" not in accepted.names and accepted.main in ROW_OPTIONS:
        fields.append(check.options.get("field"))
    return [field for field in fields if isinstance(field, str)]


class _CheckerOptions(NamedTuple):
    names: list[str]
    main: str  # the option that is meant if only a field is stated
    required: list[str]  # those of `ROW_OPTIONS` without a default


@lru_cache
def _checker_options(checker: str) -> _CheckerOptions:
    options = option_parameters(kind("checkers").load(checker))
    main = next((name for name in (*ROW_OPTIONS, *options) if name in options), "")
    required = [
        name for name in ROW_OPTIONS if name in options and options[name].default is Parameter.empty
    ]
    return _CheckerOptions(list(options), main, required)
