"""Reads targets, groups and criteria for judges from rows, and defines the presets.

A row is judged by the judges named in its checks (``- judge: NAME``; a panel's name stands for all
of its judges), and by judges that no check of any row names. A judge that is named in a check gets
that check's criteria or, without any, the row's field ``criteria``. A judge that no check names
gets all criteria of the row.

The presets are for GSM8K (Cobbe et al. 2021, arXiv 2110.14168) and BIG-bench Hard (Suzgun et al.
2022, arXiv 2210.09261).
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any, TypeAlias

import yaml
from msgspec import Struct
from msgspec.structs import replace

from harness.datasets.rows import Row
from harness.errors import ConfigError, DataInvalid, nearest, raised_as
from harness.records import DecodingConstraint, Message, UserRole, encodable
from harness.scoring.checks import FROM_ROW, JUDGE, Check, field_of, from_row
from harness.scoring.extraction import Extraction, garbled
from harness.scoring.numbers import only_number

ByJudge: TypeAlias = Mapping[str, tuple[str, ...]]  # maps judges to the criteria of their checks

CRITERIA = "criteria"  # name of a row's field, and of an option of a judge's check


class JsonlItem(Struct, frozen=True):
    """A row with its messages, rules and criteria by judge.

    In a conversation, an item is for one turn, and ``later`` has the items of the turns after it.
    If a model plays the user, the item is for the last turn, and ``before`` is the item for earlier
    turns.
    """

    row: Row
    messages: tuple[Message, ...]
    rules: tuple[Check, ...] = ()
    judges: ByJudge = {}
    options: Any = None  # of its `QuestionForm`
    later: tuple[JsonlItem, ...] = ()
    role: UserRole | None = None  # of the user whom a model plays
    before: JsonlItem | None = None

    def after(self, answers: Sequence[str]) -> JsonlItem:
        """Return the item of the turn after ``answers``, with the conversation so far.

        Raises:
            ValueError: If there are as many answers as turns, or more.
        """
        item = self
        for answer in answers:
            following, *_ = item.later
            messages = (*item.messages, Message("assistant", answer), *following.messages)
            item = replace(following, messages=messages)
        return item


def written_checks(row: Row) -> Iterator[Any]:
    """Yield the entries in the ``checks`` of a row, its user and its turns."""
    turns = row.get("turns")
    for part in (row, row.get("user"), *(turns if isinstance(turns, list) else ())):
        checks = part.get("checks") if isinstance(part, Mapping) else None
        yield from checks if isinstance(checks, list) else ()


def target_warnings(row: Row, parser: Extraction | None) -> Iterator[str]:
    """Yield warnings about targets that look like lists, or that the parser would misread."""
    for field in FROM_ROW:
        text = row.get(field)
        if not isinstance(text, str):
            continue
        is_json = text.startswith("[") and text.endswith("]")
        if is_json or (field == "targets" and ("|" in text or ", " in text)):
            problem = f"{field} {text!r:.40} is a single text."
            yield f'{problem} Write several in \'targets\' as a JSON list: ["…", "…"].'
    if parser is None:
        return
    targets = next((row[field] for field in FROM_ROW if field in row), None)
    for target in targets if isinstance(targets, list) else [targets]:
        read = garbled(parser, target) if isinstance(target, str) else None
        if read is not None:
            yield f"From the target {target!r:.40} the parser would read {read!r:.40}."


def target_forms(row: Row, fields: Iterable[str], extraction: Extraction | None) -> Iterator[str]:
    """Yield the forms in which an answer may give the targets in a row's fields."""
    for field in dict.fromkeys(fields):
        value = row.get(field)
        first = first_of(value)
        if not isinstance(first, str | int | float):
            continue
        target = json.dumps(first) if isinstance(first, bool) else str(first)
        yield target
        if extraction and (written := extraction.write(target)) is not None:
            yield written
        if isinstance(value, list):  # the first alone may not pass every check
            yield " ".join(map(str, value))


def first_of(value: Any) -> Any:
    """Return the first item of a non-empty list, or any other value unchanged."""
    return value[0] if isinstance(value, list) and value else value


def schema_constraint(checkers: Sequence[Any], instance: str) -> DecodingConstraint:
    """Return the schema of an instance's only check ``json_schema`` as a decoding constraint."""
    if len(checkers) != 1:
        n = f"{len(checkers)} checks" if checkers else "no check"
        problem = f"decoding.constraint: task: {instance!r:.60} has {n} json_schema."
        raise DataInvalid(problem, "Give every row exactly one, or write the constraint itself.")
    if not checkers[0].constrains:
        problem = f"decoding.constraint: task: the schema of {instance!r:.60} is not for"
        remedy = "Remove 'format' and 'extraction' from the check json_schema."
        raise DataInvalid(f"{problem} the whole reply as JSON.", remedy)
    schema = checkers[0].schema
    if isinstance(schema, bool):
        schema = {} if schema else {"not": {}}
    return DecodingConstraint(json_schema=schema)


def groups_of(row: Row, labels: Sequence[str]) -> dict[str, str]:
    """Return a row's groups by label.

    The mapping in the row's field ``groups`` takes precedence over the fields that ``labels`` name.
    """
    row_groups = row.get("groups", {})
    if not isinstance(row_groups, Mapping):
        raise DataInvalid("'groups' must be a mapping of labels to names.")
    for label in labels:
        if label not in row:
            problem = f"task.groups names {label!r:.60}, which the row does not have."
            raise DataInvalid(problem, nearest(label, map(str, row)))
    groups = {}
    for label, value in {**{label: row[label] for label in labels}, **row_groups}.items():
        if not isinstance(value, str | int | float):
            raise DataInvalid(f"the group {label!r:.60} must be text, a number, true or false.")
        text = str(value).lower() if isinstance(value, bool) else str(value)
        groups[str(label)] = encodable(text)
    return groups


def _gsm8k(row: Row) -> Row:
    answer = row.get("answer", row.get("target"))
    conclusion = re.search(r"####\s*(.+?)\s*$", answer) if isinstance(answer, str) else None
    target = only_number(conclusion[1]) if conclusion else None
    if target is None:
        raise DataInvalid("'answer' must end in '#### ' and a number.")
    return {**row, "target": format(target, "f")}


def _shuffled_objects(row: Row) -> Row:
    target = row.get("target", row.get("answer"))
    letter = re.fullmatch(r"\(?([A-Za-z])\)?", target.strip()) if isinstance(target, str) else None
    if letter is None:
        raise DataInvalid("'target' must be a letter in brackets, like '(B)'.")
    return {**row, "target": f"({letter[1].upper()})"}


# By preset: the function that adds the ``target`` to a row.
ADAPT: Mapping[str, Callable[[Row], Row]] = {"gsm8k": _gsm8k, "shuffled_objects": _shuffled_objects}

_PRESETS = Path(__file__).with_name("presets.yaml").read_text("utf-8")
PRESETS: Mapping[str, Mapping[str, Any]] = yaml.safe_load(_PRESETS)  # by preset: its task options


class JudgeChecks:
    """The assignment of a run's judges and their criteria to rows.

    ``judges`` (None if unknown) maps each of the run's judges to whether it judges criteria.
    ``panels`` maps each panel to its judges. ``rows`` returns all rows of the file.
    """

    def __init__(
        self,
        shared: Sequence[Check],
        judges: Mapping[str, bool] | None,
        panels: Mapping[str, Sequence[str]] | None = None,
        rows: Callable[[], Iterable[Row]] = tuple,
    ) -> None:
        self._shared = [check for check in shared if check.checker == JUDGE]
        self._judges, self._panels, self._rows = judges, panels or {}, rows
        for check in self._shared:
            with raised_as(ConfigError, "task.checks: "):
                self._refuse(check)

    def of(self, checks: Sequence[Check], row: Row) -> ByJudge:
        """Return the criteria of each judge that a row's checks name."""
        found: dict[str, tuple[str, ...]] = {}
        for check in (one for one in checks if one.checker == JUDGE):
            self._refuse(check)
            criteria = _criteria(check, row)
            found |= {judge: found.get(judge) or criteria for judge in self._members(check.name)}
        return found

    def refuse_without_criteria(self, turns: Sequence[JsonlItem]) -> None:
        """Raise DataInvalid if a judge of these turns needs criteria but has none."""
        for judge, by_criteria in (self._judges or {}).items():
            judged = [item for item in turns if self._scores(item, judge)]
            if by_criteria and judged and not any(self.judged_by(item, judge) for item in judged):
                remedy = "Write criteria into its check or into the row."
                raise DataInvalid(f"the judge {judge!r} has no criteria to decide on.", remedy)

    def judged_by(self, item: JsonlItem, judge: str) -> bool:
        """Return whether ``judge`` scores the answers to an item."""
        if not self._scores(item, judge):
            return False
        by_criteria = (self._judges or {}).get(judge, False)
        return not by_criteria or bool(self.criteria(item.row, item.judges, judge))

    def _scores(self, item: JsonlItem, judge: str) -> bool:
        return judge in item.judges or judge not in self._named

    def criteria(self, row: Row, by_judge: ByJudge, judge: str | None) -> tuple[str, ...]:
        """Return the criteria of a row for one judge, or for all judges (None).

        ``by_judge`` has the criteria in the row's checks, by judge.
        """
        if judge_criteria := by_judge.get(judge or ""):
            return judge_criteria
        others = (
            []
            if judge in by_judge
            else [text for judge_criteria in by_judge.values() for text in judge_criteria]
        )
        of_row = _texts(row[CRITERIA], f"the field {CRITERIA!r}") if CRITERIA in row else []
        # A repeated criterion would be paid for again.
        return tuple(dict.fromkeys([*others, *of_row]))

    def _members(self, name: str) -> Sequence[str]:
        return self._panels.get(name, (name,))

    @cached_property
    def _named(self) -> frozenset[str]:
        """The names of all judges that a check names."""
        judges = {judge for check in self._shared for judge in self._members(check.name)}
        if self._judges is None or self._judges.keys() - judges:
            for entry in chain.from_iterable(map(written_checks, self._rows())):
                judge = entry.get(JUDGE) if isinstance(entry, Mapping) else None
                if isinstance(judge, str):
                    judges.update(self._members(judge))
        return frozenset(judges)

    def _refuse(self, check: Check) -> None:
        for option in check.options:
            if option != CRITERIA:
                said = f"the check {check.name!r} by a judge has no option {option!r:.60}."
                raise DataInvalid(said, nearest(option, [CRITERIA]))
        if self._judges is None:
            return
        members = self._members(check.name)
        if not self._judges.keys() >= set(members):
            remedy = nearest(check.name, [*self._judges, *self._panels])
            said = f"a check names the judge {check.name!r:.60}, which is not in the run file."
            raise DataInvalid(said, remedy or "Add it to judges: (harness docs judges).")
        without = [judge for judge in members if not self._judges[judge]]
        if CRITERIA in check.options and without:
            said = f"the judge {without[0]!r} does not decide on criteria, but a check has some."
            raise DataInvalid(said, "Remove them, or use a judge that does, such as yes_no.")


def _criteria(check: Check, row: Row) -> tuple[str, ...]:
    """Return the criteria that a check lists, with texts from the row."""
    if CRITERIA not in check.options:
        return ()
    written, of = check.options[CRITERIA], f"of the check {check.name!r}"
    found: list[str] = []
    for one in written if isinstance(written, list) else [written]:
        if (field := field_of(one)) is None:
            found += _texts(one, f"criteria {of}")
        else:
            found += _texts(from_row(row, field, check.name), f"the field {field!r:.60}, {of},")
    if not found:
        raise DataInvalid(f"criteria {of} must not be empty.")
    return tuple(dict.fromkeys(found))


def _texts(value: object, what: str) -> list[str]:
    texts = value if isinstance(value, list) else [value]
    if not texts or not all(isinstance(text, str) and text.strip() for text in texts):
        raise DataInvalid(f"{what} must be text or a list of texts, none of them empty.")
    return list(texts)
