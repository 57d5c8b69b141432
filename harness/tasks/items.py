"""The items of the task ``jsonl``: what a row asks, its targets, groups and criteria for judges.

A row is judged by the judges named in its checks (``- judge: NAME``; a panel's name stands for all
of its judges), and by judges that no check of any row names. A judge that is named in a check gets
that check's criteria or, without any, the row's field ``criteria``. A judge that no check names
gets all criteria of the row.

Questions of a form, such as multiple choice, are made by a `QuestionForm` (the option ``choices``).
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, TypeAlias

from msgspec import Struct
from msgspec.structs import replace
from typing_extensions import override

from harness.datasets.rows import Row, converted, refuse_tool_calls
from harness.errors import ConfigError, DataInvalid, reraise_as, suggest_name
from harness.plugin_loader import Kind
from harness.ports import Task
from harness.prompts import Template
from harness.records import (
    DecodingConstraint,
    Instance,
    Message,
    Request,
    Score,
    UserRole,
    replace_surrogates,
)
from harness.scoring.checks import FROM_ROW, JUDGE, Check, field_of, from_row
from harness.scoring.extraction import Extraction, faults, garbled

FIELD = "choices"  # of a row: the texts of its options
_SECTION = f"task.{FIELD}"


class QuestionForm(ABC):
    """The form of the questions that rows ask, and how answers to them are scored.

    A plug-in brings a subclass, whose constructor has the settings, as ``task.choices`` of its
    `section_builders`. What it makes of a row, its options, is passed to the other methods.
    """

    score_names: ClassVar[Sequence[str]]
    """The names of all scores. The first is the verdict."""

    example: ClassVar[Path]
    """A file of rows to try the form with."""

    by: str
    """How an answer is chosen."""

    @property
    @abstractmethod
    def by_likelihood(self) -> bool:
        """Whether given answers are compared by their log-likelihoods."""

    @abstractmethod
    def settings(self) -> Sequence[Any]:
        """Return the values of all settings, which the manifest has a hash of."""

    @abstractmethod
    def template(self) -> Template:
        """Return the built-in template of the prompt."""

    @abstractmethod
    def lettered(self, row: Row, name: str) -> tuple[Row, Any]:
        """Return a row with the fields that templates use, and its options.

        Args:
            row: The row.
            name: The id of its instance.
        """

    @abstractmethod
    def asked(self, options: Any, prompt: str) -> Any:
        """Return the options of a row, given the prompt that asks for one of them."""

    @abstractmethod
    def wrong_answer(self, options: Any, name: str) -> str:
        """Return a wrong answer, chosen by the instance's name."""

    @abstractmethod
    def request(self, options: Any, request: Request) -> Request:
        """Return a request for the log-likelihoods of all answers."""

    @abstractmethod
    def problems(self, options: Any, messages: Sequence[Message]) -> Iterator[str]:
        """Yield warnings about a prompt."""

    @abstractmethod
    def chosen(self, options: Any, text: str) -> str:
        """Return the answer that a reply chooses.

        Raises:
            Unparseable: If the reply chooses no answer.
        """

    @abstractmethod
    def scores(self, options: Any, text: str) -> dict[str, Score]:
        """Return the scores of a reply.

        Raises:
            Unparseable: If the reply chooses no answer.
        """

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: Any) -> Any:
        """Validate settings as those of the form that a plug-in brings. Without one, none fit."""
        if cls is not QuestionForm:
            return handler(source)
        return handler.generate_schema(_form())


def _form() -> Any:
    forms = Kind("section_builders")
    return forms.load(_SECTION) if _SECTION in forms.names() else None


def default_form(row: Mapping[str, Any]) -> QuestionForm | None:
    """Return the form of a file whose first row is ``row``, if nothing else sets a prompt."""
    form = _form()
    if form is None or FIELD not in row or {"prompt", "messages", "turns"} & row.keys():
        return None
    default: QuestionForm = form()
    return default


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
    parts = [row, row.get("user")]
    if isinstance(row.get("turns"), list):
        parts += row["turns"]
    for part in parts:
        checks = part.get("checks") if isinstance(part, Mapping) else None
        if isinstance(checks, list):
            yield from checks


def parser_warnings(item: JsonlItem, parser: Extraction | None) -> Iterator[str]:
    """Yield warnings about a row's targets, and about a prompt that its parser does not fit."""
    yield from _target_warnings(item.row, parser)
    if parser is not None:
        requests = [turn.content for turn in item.messages if turn.role != "assistant"]
        answers = [turn.content for turn in item.messages if turn.role == "assistant"]
        yield from faults(requests, answers, parser)


def _target_warnings(row: Row, parser: Extraction | None) -> Iterator[str]:
    """Yield warnings about targets that look like lists, or that the parser would misread."""
    for field in FROM_ROW:
        text = row.get(field)
        if not isinstance(text, str):
            continue
        is_json = text.startswith("[") and text.endswith("]")
        if is_json or (field == "targets" and any(mark in text for mark in ("|", ";", ", "))):
            problem = f"{field} {text!r:.40} is a single text."
            yield f'{problem} Write several in \'targets\' as a JSON list: ["…", "…"].'
    if parser is None:
        return
    fields = [field for field in FROM_ROW if field in row]
    targets = row[fields[0]] if fields else []
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
            raise DataInvalid(problem, suggest_name(label, map(str, row)))
    groups = {}
    for label, value in {**{label: row[label] for label in labels}, **row_groups}.items():
        if not isinstance(value, str | int | float):
            raise DataInvalid(f"the group {label!r:.60} must be text, a number, true or false.")
        text = str(value).lower() if isinstance(value, bool) else str(value)
        groups[str(label)] = replace_surrogates(text)
    return groups


class RowPreset(NamedTuple):
    """A preset of the task ``jsonl``.

    A plug-in declares such an object, by its name, among the ``row_presets`` of its ``extensions``.
    """

    options: Mapping[str, Any]  # of the task
    adapt: Callable[[Row], Row]  # adds the ``target`` to a row


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
        self._judges = judges
        self._panels = panels or {}
        self._rows = rows
        for check in self._shared:
            with reraise_as(ConfigError, "task.checks: "):
                self._refuse(check)

    def of(self, checks: Sequence[Check], row: Row) -> ByJudge:
        """Return the criteria of each judge that a row's checks name."""
        by_judge: dict[str, tuple[str, ...]] = {}
        for check in checks:
            if check.checker != JUDGE:
                continue
            self._refuse(check)
            criteria = _criteria(check, row)
            for judge in self._members(check.name):
                by_judge[judge] = by_judge.get(judge) or criteria
        return by_judge

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
        criteria: list[str] = []
        if judge not in by_judge:
            criteria.extend(chain.from_iterable(by_judge.values()))
        if CRITERIA in row:
            criteria += _texts(row[CRITERIA], f"the field {CRITERIA!r}")
        return tuple(dict.fromkeys(criteria))  # a repeated one would be paid for again

    def _members(self, name: str) -> Sequence[str]:
        return self._panels.get(name, (name,))

    @cached_property
    def _named(self) -> frozenset[str]:
        """The names of all judges that a check names."""
        judges = set[str]()
        for check in self._shared:
            judges.update(self._members(check.name))
        if self._judges is None or self._judges.keys() - judges:
            for entry in chain.from_iterable(map(written_checks, self._rows())):
                judge = entry.get(JUDGE) if isinstance(entry, Mapping) else None
                if isinstance(judge, str):
                    judges.update(self._members(judge))
        return frozenset(judges)

    def _refuse(self, check: Check) -> None:
        for option in check.options:
            if option != CRITERIA:
                problem = f"the check {check.name!r} by a judge has no option {option!r:.60}."
                raise DataInvalid(problem, suggest_name(option, [CRITERIA]))
        if self._judges is None:
            return
        members = self._members(check.name)
        if not self._judges.keys() >= set(members):
            remedy = suggest_name(check.name, [*self._judges, *self._panels])
            problem = f"a check names the judge {check.name!r:.60}, which is not in the run file."
            raise DataInvalid(problem, remedy or "Add it to judges: (harness docs judges).")
        without = [judge for judge in members if not self._judges[judge]]
        if CRITERIA in check.options and without:
            problem = f"the judge {without[0]!r} does not decide on criteria, but a check has some."
            raise DataInvalid(problem, "Remove them, or use a judge that does, such as yes_no.")


def _criteria(check: Check, row: Row) -> tuple[str, ...]:
    """Return the criteria that a check lists, with texts from the row."""
    if CRITERIA not in check.options:
        return ()
    stated = check.options[CRITERIA]
    of_check = f"of the check {check.name!r}"
    criteria: list[str] = []
    for item in stated if isinstance(stated, list) else [stated]:
        field = field_of(item)
        if field is None:
            criteria += _texts(item, f"criteria {of_check}")
        else:
            texts = from_row(row, field, check.name)
            criteria += _texts(texts, f"the field {field!r:.60}, {of_check},")
    if not criteria:
        raise DataInvalid(f"criteria {of_check} must not be empty.")
    return tuple(dict.fromkeys(criteria))


def _texts(value: object, what: str) -> list[str]:
    texts = value if isinstance(value, list) else [value]
    if not texts or not all(isinstance(text, str) and text.strip() for text in texts):
        raise DataInvalid(f"{what} must be text or a list of texts, none of them empty.")
    return list(texts)


# Conversations: the user's written turns, and users whom a model plays

One: TypeAlias = Instance[JsonlItem]

# Fields of a row with several turns that belong to the last one.
OF_LAST = ("checks", CRITERIA, "gold", *FROM_ROW)
_OF_USER = UserRole.__struct_fields__
_TEMPLATES = ("goal", "persona")  # options of a task's user


def turn_rows(row: Row) -> list[Row]:
    """Return one row for each of a row's ``turns``, or just the row if it has none.

    Each has the fields of the turn and of the row, but only the last has the row's `OF_LAST`.
    """
    if "turns" not in row:
        return [row]
    turns = row["turns"]
    if not isinstance(turns, list) or not turns:
        raise DataInvalid("'turns' must be a list of the user's turns.", "Begin with one.")
    for key in ("messages", "prompt"):
        if row.get(key) not in (None, ""):
            raise DataInvalid(f"the row has 'turns' and {key!r}.", "Keep one.")
    of_row = {key: value for key, value in row.items() if key != "turns"}
    common = {key: value for key, value in of_row.items() if key not in OF_LAST}
    rows = []
    for number, turn in enumerate(turns, start=1):
        refuse_tool_calls(turn, f"'turns', {number}")
        fields = {"content": turn} if isinstance(turn, str) else turn
        content = fields.get("content") if isinstance(fields, Mapping) else None
        if not isinstance(content, str) or not content.strip():
            remedy = "Write a text, or a mapping with the text as its 'content'."
            raise DataInvalid(f"'turns', {number}: the user's turn has no text.", remedy)
        role = fields.get("role", "user")
        if role != "user":
            problem = f"'turns', {number}: the role is {role!r:.40}, and all turns are the user's."
            raise DataInvalid(problem, "The model answers each: leave its answers out.")
        rows.append({**common, **fields})
    for key in OF_LAST:
        if key in of_row and key in fields:
            problem = f"'turns', {len(turns)}: the last turn and the row both have {key!r}."
            raise DataInvalid(problem, "Keep one: the row's own are those of the last turn.")
    rows[-1] = {**of_row, **fields}
    return rows


def chained(turns: Sequence[JsonlItem]) -> JsonlItem:
    """Return the item of a conversation's first turn, with the other turns' items in ``later``."""
    *before, item = turns
    for turn in reversed(before):
        item = replace(turn, later=(item, *item.later))
    return item


class Users:
    """The users that a model plays: those that rows describe, with defaults from ``task.user``."""

    def __init__(self, shared: Mapping[str, Any] | None) -> None:
        self._shared = dict(shared or {})
        if self._shared:
            with reraise_as(ConfigError):
                _role({"goal": "-", **self._shared}, "task.user")
        self._templates: dict[str, Template] = {}
        for name in _TEMPLATES:
            text = self._shared.get(name)
            if text is not None:
                self._templates[name] = Template(text, f"task.user.{name}")

    def of(self, row: Row) -> tuple[UserRole, Row] | None:
        """Return a row's user and the row to use before the last answer, or None without a user.

        A field ``user`` without any key of a played user is a field like any other.
        """
        description = row.get("user")
        if not isinstance(description, Mapping) or description.keys().isdisjoint(_OF_USER):
            description = {}
        if not self._shared and not description:
            return None
        for key in ("turns", "choices"):
            if key in row:
                raise DataInvalid(f"the row has 'user' and {key!r}.", "Keep one.")
        user = {**self._shared, **description}
        for key, template in self._templates.items():
            if key not in description:
                user[key] = template.render(row)
        before = {key: value for key, value in row.items() if key not in (*OF_LAST, "user")}
        before |= {key: user[key] for key in OF_LAST if key in user}
        return _role(user, "'user'"), before


def _role(user: Mapping[str, Any], where: str) -> UserRole:
    return converted(dict(user), UserRole, where, ignored=OF_LAST)


class Conversations(Task[JsonlItem]):
    """The members of a task that concern turns (`Scripted`, `Played` and `NamesScores`)."""

    @override
    def turns(self, instance: One) -> int:
        """Return the number of the user's turns in a row's ``turns``, or 1 if it has none."""
        return 1 + len(instance.data.later)

    @override
    def at_turn(self, instance: One, answers: Sequence[str]) -> One:
        """Return a row as of the turn after ``answers``: the conversation and the turn's checks."""
        return replace(instance, data=instance.data.after(answers))

    @override
    def score_names(self, instance: One) -> Collection[str]:
        """Return the names of a row's checks in all turns."""
        item = instance.data
        names: set[str] = set()
        for turn in (item, item.before, *item.later):
            if turn is not None:
                names.update(rule.name for rule in turn.rules)
        return names

    @override
    def user_role(self, instance: One) -> UserRole | None:
        """Return the user that a model plays in a row, or None if no model plays the user."""
        return instance.data.role

    @override
    def at_played_turn(self, instance: One, messages: Sequence[Message], last: bool) -> One:
        """Return a row as of a turn: the conversation so far, and the checks of the next answer."""
        item = instance.data if last else instance.data.before or instance.data
        return replace(instance, data=replace(item, messages=tuple(messages)))


def optional_template(text: str | None, option: str) -> Template | None:
    """Return the template in an option of the task, or None if it is not set."""
    return None if text is None else Template(text, f"task.{option}")


def refuse_options(template: Template, row: Row) -> None:
    """Raise DataInvalid if a prompt shows options that only ``task.choices`` makes."""
    if "options" in template.names - row.keys() and "choices" in row:
        problem = "task.prompt has {{ options }}, and task.choices is not set."
        raise DataInvalid(problem, "Write task.choices: {by: letter}.")
