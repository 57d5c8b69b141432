r"""``checks:`` checkers by name, with options from the run file, from the row, or both.

    checks:
      - exact_match                                       # its target is the row's ``target``
      - exact_match: {field: answer, ignore_case: true}   # its target is the row's ``answer``
      - contains: {target: {field: must}, mode: any}      # any option may be taken from the row
      - word_count: {at_most: 50}
        as: short                                         # the score's name
        of: text                                          # the whole answer, not what was extracted
      - judge: polite                                     # a judge of the run (`judge_checks`)

A row may hold ``checks`` of its own: a list in the same form takes the place of these; a mapping
of a check's name changes its options, or drops it: ``{"short": {"at_most": 9}, "contains": null}``.

>>> checks = Checks([{"word_count": {"at_most": {"field": "most"}}}])
>>> [bound] = checks.of({"most": 2}).rules
>>> checks.checker(bound).check("one two three", instance).reason  # doctest: +SKIP
'3 words, not at most 2'
"""

from __future__ import annotations

import inspect
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Struct
from pydantic import BaseModel, ValidationError

from harness.datasets.folder import DataFolder
from harness.errors import ConfigError, DataInvalid, nearest
from harness.plugins import kind
from harness.ports import Checker
from harness.tasks.jsonl.judge_checks import JudgeCheck, JudgeChecks
from harness.tasks.jsonl.written_checks import (
    JUDGE,
    Check,
    Of,
    checks_of,
    field_of,
    read_checks,
)

MOST_CACHED = 4_096
"""Checkers with options from rows that are kept: an answer's are needed again for its feedback."""
FROM_ROW = ("target", "targets")
"""Options that are the row's field of that name where nothing else is said."""

MAY_NAME_A_FILE = {"json_schema": "schema"}
"""The option of a checker that, as a text, is a path."""


class Bound(Struct, frozen=True):
    """A check of one row.

    name: of its score.
    options: as they are for this row.
    """

    name: str
    checker: str
    of: Of
    options: Mapping[str, Any]


class RowChecks(Struct, frozen=True):
    """The checks of one row: those by rules, and those by judges."""

    rules: tuple[Bound, ...] = ()
    judges: tuple[JudgeCheck, ...] = ()


class Checks:
    """The checks of a task.

    raw: as the run file has them.
    data: is handed over to checkers that ask for it.
    judges: of the run, each with whether it decides on criteria; None where nobody knows.
    rows: of the task, as `JudgeChecks` reads them.
    panels: of the run, each with its judges.

    Raises: ConfigError, naming the place.
    """

    def __init__(
        self,
        raw: object,
        data: DataFolder | None = None,
        judges: Mapping[str, bool] | None = None,
        rows: Callable[[], Iterable[Mapping[str, Any]]] = tuple,
        panels: Mapping[str, Sequence[str]] | None = None,
    ) -> None:
        self._data = data
        self._kinds: dict[str, _Kind] = {}
        self._built: OrderedDict[bytes, Checker] = OrderedDict()
        self._own = read_checks(raw, "task.checks")
        self.judges = JudgeChecks(self._own, judges, rows, panels)
        for check in self._own:
            if check.checker == JUDGE:
                continue
            self._kind(check.checker)
            if not self._takes_from_row(check):
                self._build(check.checker, check.options, f"task.checks, {check.name}")

    def of(self, row: Mapping[str, Any]) -> RowChecks:
        """A row's checks, their options known and valid.

        Raises: DataInvalid.
        """
        checks = checks_of(row, self._own)
        return RowChecks(self._rules(checks, row), self.judges.of(checks, row))

    def _rules(self, checks: Sequence[Check], row: Mapping[str, Any]) -> tuple[Bound, ...]:
        bound = []
        for check in checks:
            if check.checker == JUDGE:
                continue
            try:
                options = self._resolved(check, row)
                self._refuse_file(check, options)
                self._build(check.checker, options, check.name)
            except ConfigError as error:
                raise DataInvalid(error.message, error.remedy) from None
            bound.append(Bound(check.name, check.checker, check.of, options))
        return tuple(bound)

    def _refuse_file(self, check: Check, options: Mapping[str, Any]) -> None:
        """Refuse a file that the row names, and not the run file: rows are data of others."""
        option = MAY_NAME_A_FILE.get(check.checker, "")
        named = options.get(option)
        ours = [own.options.get(option) for own in self._own if own.checker == check.checker]
        if isinstance(named, str) and named not in ours:
            raise DataInvalid(
                f"the check {check.name!r} would read a file that the row names.",
                f"Write the {option} itself into the row, or the path into the run file.",
            )

    def checker(self, bound: Bound) -> Checker:
        """The checker of a row's check."""
        return self._build(bound.checker, bound.options, bound.name)

    def _kind(self, name: str) -> _Kind:
        if name not in self._kinds:
            self._kinds[name] = _Kind(name)
        return self._kinds[name]

    def _takes_from_row(self, check: Check) -> bool:
        found = self._kind(check.checker)
        return (
            found.shorthand(check.options) is not None
            or any(field_of(value) is not None for value in check.options.values())
            or any(option not in check.options for option in found.from_row)
        )

    def _resolved(self, check: Check, row: Mapping[str, Any]) -> dict[str, Any]:
        """A check's options, with those that a row holds in their places."""
        found = self._kind(check.checker)
        options = dict(check.options)
        field = found.shorthand(options)
        if field is not None:
            del options["field"]
            options[found.principal] = {"field": field}
        for option in found.from_row:
            if option not in options:
                options[option] = {"field": next((f for f in FROM_ROW if f in row), option)}
        for option, value in options.items():
            field = field_of(value)
            if field is None:
                continue
            if field not in row:
                raise DataInvalid(
                    f"the check {check.name!r} needs the field {field!r:.60}, which is not there.",
                    nearest(field, map(str, row)),
                )
            options[option] = row[field]
        return options

    def _build(self, name: str, options: Mapping[str, Any], where: str) -> Checker:
        """The checker with these options; that of the same ones, where it was needed before."""
        key = msgspec.json.encode([name, options], order="sorted", enc_hook=repr)
        if key in self._built:
            self._built.move_to_end(key)
            return self._built[key]
        try:
            built = self._kind(name).build(options, self._data)
        except ConfigError as error:
            raise ConfigError(f"{where}: {error.message}", error.remedy) from None
        self._built[key] = built
        if len(self._built) > MOST_CACHED:
            self._built.popitem(last=False)
        return built


class _Kind:
    """A checker's class, what it takes, and a validator of options that is made once.

    principal: the option that ``field:`` stands for.
    from_row: required options that are the row's field of their name.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.plugin = kind("checkers").load(name)
        parameters = inspect.signature(self.plugin, eval_str=True).parameters
        own = {n: p for n, p in parameters.items() if p.kind is p.POSITIONAL_OR_KEYWORD}
        self.given = frozenset(n for n, p in parameters.items() if p.kind is p.KEYWORD_ONLY)
        self.names = tuple(own)
        self.from_row = tuple(n for n in FROM_ROW if n in own and own[n].default is inspect._empty)
        self.principal = next((n for n in FROM_ROW if n in own), next(iter(own), ""))
        self._model: type[BaseModel] | None = None
        self._checked: frozenset[str] = frozenset()

    def shorthand(self, options: Mapping[str, Any]) -> str | None:
        """The row's field that ``field:`` names, unless that is an option of the checker's own."""
        field = options.get("field")
        return field if isinstance(field, str) and "field" not in self.names else None

    def build(self, options: Mapping[str, Any], data: DataFolder | None) -> Checker:
        """Raises: ConfigError."""
        checked = self._validated(options)
        chosen = {key: getattr(checked, key) for key in type(checked).model_fields}
        offered = {"data": data} if data is not None and "data" in self.given else {}
        built: Checker = self.plugin(**chosen, **offered)
        return built

    def _validated(self, options: Mapping[str, Any]) -> BaseModel:
        # Making the model takes a millisecond, and rows may be hundreds of thousands.
        if self._model is not None and self._checked == options.keys():
            try:
                return self._model(**options)
            except ValidationError:
                pass  # said in the user's words below
        checked = kind("checkers").options(self.name, options)
        self._model, self._checked = type(checked), frozenset(options)
        return checked
