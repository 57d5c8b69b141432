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

from harness.datasets.rows import Row, check_no_tool_calls, convert_row
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
    content_hash,
    replace_surrogates,
)
from harness.scoring.checks import JUDGE_KEY, ROW_OPTIONS, Check, field_reference, require_field
from harness.scoring.extraction import Extraction, misread_answer, prompt_mismatches

CHOICES_FIELD = "choices"  # the field with the texts of a row's options
_SECTION = f"task.{CHOICES_FIELD}"


class QuestionForm(ABC):
    """The form of the questions in rows, and the reading and scoring of answers to them.

    A plug-in brings a subclass, whose constructor has the settings, as ``task.choices`` of its
    `section_builders`. The options that `add_options` builds are passed to the other methods.
    """

    score_names: ClassVar[Sequence[str]]
    """The names of all scores. The first is the verdict."""

    example: ClassVar[Path]
    """A file of rows to try the form with."""

    by: str
    """How an answer is chosen."""

    @property
    @abstractmethod
    def uses_likelihoods(self) -> bool:
        """Whether the log-likelihoods of given answers are compared."""

    @abstractmethod
    def settings(self) -> Sequence[Any]:
        """Return the values of all settings. The manifest has their hash."""

    @abstractmethod
    def template(self) -> Template:
        """Return the built-in template of the prompt."""

    @abstractmethod
    def add_options(self, row: Row, instance: str) -> tuple[Row, Any]:
        """Build the options of a row.

        Args:
            row: The row.
            instance: The id of its instance.

        Returns:
            The row with the fields that templates use, and the options.
        """

    @abstractmethod
    def note_prompt(self, options: Any, prompt: str) -> Any:
        """Return the options with what the form needs to know about the row's prompt."""

    @abstractmethod
    def wrong_answer(self, options: Any, instance: str) -> str:
        """Return a wrong answer, chosen by the id of the instance."""

    @abstractmethod
    def likelihood_request(self, options: Any, request: Request) -> Request:
        """Return a request for the log-likelihoods of all answers."""

    @abstractmethod
    def prompt_warnings(self, options: Any, messages: Sequence[Message]) -> Iterator[str]:
        """Yield warnings about a prompt."""

    @abstractmethod
    def read_answer(self, options: Any, text: str) -> str:
        """Return the answer that a reply chooses.

        Raises:
            Unparseable: If the reply chooses no answer.
        """

    @abstractmethod
    def score(self, options: Any, text: str) -> dict[str, Score]:
        """Return the scores of a reply.

        Raises:
            Unparseable: If the reply chooses no answer.
        """

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: Any) -> Any:
        """Validate settings as those of the form that a plug-in brings. Without one, none fit."""
        if cls is not QuestionForm:
            return handler(source)
        return handler.generate_schema(_load_form())


def _load_form() -> Any:
    forms = Kind("section_builders")
    return forms.load(_SECTION) if _SECTION in forms.names() else None


def default_form(first_row: Mapping[str, Any]) -> QuestionForm | None:
    """Return the form of a file's questions, if its first row has options but no prompt."""
    form = _load_form()
    has_prompt = bool({"prompt", "messages", "turns"} & first_row.keys())
    if form is None or CHOICES_FIELD not in first_row or has_prompt:
        return None
    default: QuestionForm = form()
    return default


CriteriaByJudge: TypeAlias = Mapping[str, tuple[str, ...]]  # the criteria in checks, by judge

CRITERIA_FIELD = "criteria"  # name of a row's field, and of an option of a judge's check


class JsonlItem(Struct, frozen=True):
    """A row with its messages, rules and criteria by judge, as of one turn of the user.

    Attributes:
        options: The options that the task's `QuestionForm` built.
        next_turns: The items of the turns after this one.
        role: The user whom a model plays. The item is then for the last turn.
        before_last: If a model plays the user, the item for the turns before the last one.
    """

    row: Row
    messages: tuple[Message, ...]
    rules: tuple[Check, ...] = ()
    judges: CriteriaByJudge = {}
    options: Any = None
    next_turns: tuple[JsonlItem, ...] = ()
    role: UserRole | None = None
    before_last: JsonlItem | None = None

    @property
    def cluster(self) -> str | None:
        """The default cluster of an instance; None stands for its prompt.

        Conversations that begin with the same turn are still different prompts.
        """
        if not (self.next_turns or self.role):
            return None
        next_messages = [turn.messages for turn in self.next_turns]
        return content_hash((self.messages, next_messages, self.role))

    def turn_after(self, answers: Sequence[str]) -> JsonlItem:
        """Return the item of the turn after some answers, with the conversation up to it.

        Raises:
            ValueError: If there are as many answers as turns, or more.
        """
        item = self
        for answer in answers:
            next_item, *_ = item.next_turns
            messages = (*item.messages, Message("assistant", answer), *next_item.messages)
            item = replace(next_item, messages=messages)
        return item


def iter_check_entries(row: Row) -> Iterator[Any]:
    """Yield the entries in the ``checks`` of a row, its user and its turns."""
    mappings = [row, row.get("user")]
    if isinstance(row.get("turns"), list):
        mappings += row["turns"]
    for mapping in mappings:
        checks = mapping.get("checks") if isinstance(mapping, Mapping) else None
        if isinstance(checks, list):
            yield from checks


def iter_parser_warnings(item: JsonlItem, parser: Extraction | None) -> Iterator[str]:
    """Yield warnings about a row's targets, and about a prompt that its parser does not fit."""
    yield from _iter_target_warnings(item.row, parser)
    if parser is not None:
        requests = [turn.content for turn in item.messages if turn.role != "assistant"]
        answers = [turn.content for turn in item.messages if turn.role == "assistant"]
        yield from prompt_mismatches(requests, answers, parser)


def _iter_target_warnings(row: Row, parser: Extraction | None) -> Iterator[str]:
    """Yield warnings about targets that look like lists, or that the parser would misread."""
    for field in ROW_OPTIONS:
        text = row.get(field)
        if not isinstance(text, str):
            continue
        is_json = text.startswith("[") and text.endswith("]")
        if is_json or (field == "targets" and any(mark in text for mark in ("|", ";", ", "))):
            problem = f"{field} {text!r:.40} is a single text."
            yield f'{problem} Write several in \'targets\' as a JSON list: ["…", "…"].'
    if parser is None:
        return
    fields = [field for field in ROW_OPTIONS if field in row]
    targets = row[fields[0]] if fields else []
    for target in targets if isinstance(targets, list) else [targets]:
        read = misread_answer(parser, target) if isinstance(target, str) else None
        if read is not None:
            yield f"From the target {target!r:.40} the parser would read {read!r:.40}."


def iter_target_texts(
    row: Row, fields: Iterable[str], extraction: Extraction | None
) -> Iterator[str]:
    """Yield texts of the targets in a row's fields, as an answer may write them.

    Args:
        row: The row.
        fields: The names of the fields, which need not exist.
        extraction: How answers are extracted from replies; None if they are not.
    """
    for field in dict.fromkeys(fields):
        value = row.get(field)
        first = first_item(value)
        if not isinstance(first, str | int | float):
            continue
        target = json.dumps(first) if isinstance(first, bool) else str(first)
        yield target
        if extraction and (reply := extraction.write(target)) is not None:
            yield reply
        if isinstance(value, list):  # the first alone may not pass every check
            yield " ".join(map(str, value))


def first_item(value: Any) -> Any:
    """Return the first item of a non-empty list, or any other value unchanged."""
    return value[0] if isinstance(value, list) and value else value


def schema_constraint(checkers: Sequence[Any], instance: str) -> DecodingConstraint:
    """Return the schema of an instance's only check ``json_schema`` as a decoding constraint.

    Args:
        checkers: The checkers of all such checks of the instance.
        instance: The id of the instance, for error messages.

    Raises:
        DataInvalid: If there are several such checks or none, or the schema is not for the whole
            reply.
    """
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


def row_groups(row: Row, labels: Sequence[str]) -> dict[str, str]:
    """Return a row's groups by label.

    Args:
        row: The row. The mapping in its field ``groups`` takes precedence over ``labels``.
        labels: The names of further fields that are groups.

    Raises:
        DataInvalid: If a field is missing, or a group is not a scalar.
    """
    groups_field = row.get("groups", {})
    if not isinstance(groups_field, Mapping):
        raise DataInvalid("'groups' must be a mapping of labels to names.")
    for label in labels:
        if label not in row:
            problem = f"task.groups names {label!r:.60}, which the row does not have."
            raise DataInvalid(problem, suggest_name(label, map(str, row)))
    groups = {}
    labelled_values = {label: row[label] for label in labels}
    for label, value in {**labelled_values, **groups_field}.items():
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

    Args:
        shared: The checks of the run file.
        judges: Whether each of the run's judges judges criteria, by name; None if unknown.
        panels: The judges of each panel, by the panel's name.
        rows: Returns all rows of the file.
    """

    def __init__(
        self,
        shared: Sequence[Check],
        judges: Mapping[str, bool] | None,
        panels: Mapping[str, Sequence[str]] | None = None,
        rows: Callable[[], Iterable[Row]] = tuple,
    ) -> None:
        self._shared = [check for check in shared if check.checker == JUDGE_KEY]
        self._judges = judges
        self._panels = panels or {}
        self._rows = rows
        for check in self._shared:
            with reraise_as(ConfigError, "task.checks: "):
                self._validate(check)

    def criteria_by_judge(self, checks: Sequence[Check], row: Row) -> CriteriaByJudge:
        """Return the criteria of each judge that a row's checks name.

        Raises:
            DataInvalid: If a check names an unknown judge or option, or has invalid criteria.
        """
        by_judge: dict[str, tuple[str, ...]] = {}
        for check in checks:
            if check.checker != JUDGE_KEY:
                continue
            self._validate(check)
            criteria = _stated_criteria(check, row)
            for judge in self._members(check.name):
                by_judge[judge] = by_judge.get(judge) or criteria
        return by_judge

    def check_criteria(self, turns: Sequence[JsonlItem]) -> None:
        """Raise DataInvalid if a judge of these turns needs criteria but has none."""
        for judge, needs_criteria in (self._judges or {}).items():
            assigned = [item for item in turns if self._is_assigned(judge, item)]
            if not (needs_criteria and assigned):
                continue
            if not any(self.judged_by(item, judge) for item in assigned):
                remedy = "Write criteria into its check or into the row."
                raise DataInvalid(f"the judge {judge!r} has no criteria to decide on.", remedy)

    def judged_by(self, item: JsonlItem, judge: str) -> bool:
        """Return whether a judge scores the answers to an item."""
        if not self._is_assigned(judge, item):
            return False
        needs_criteria = (self._judges or {}).get(judge, False)
        return not needs_criteria or bool(self.criteria(item.row, item.judges, judge))

    def _is_assigned(self, judge: str, item: JsonlItem) -> bool:
        return judge in item.judges or judge not in self._named_judges

    def criteria(self, row: Row, by_judge: CriteriaByJudge, judge: str | None) -> tuple[str, ...]:
        """Return the criteria of a row for a judge.

        Args:
            row: The row.
            by_judge: The criteria in the row's checks.
            judge: The name of the judge; None for the criteria of all judges.
        """
        if judge_criteria := by_judge.get(judge or ""):
            return judge_criteria
        criteria: list[str] = []
        if judge not in by_judge:
            criteria.extend(chain.from_iterable(by_judge.values()))
        if CRITERIA_FIELD in row:
            criteria += _texts(row[CRITERIA_FIELD], f"the field {CRITERIA_FIELD!r}")
        return tuple(dict.fromkeys(criteria))  # a repeated one would be paid for again

    def _members(self, name: str) -> Sequence[str]:
        """Return the judges of a panel, or the judge of this name."""
        return self._panels.get(name, (name,))

    @cached_property
    def _named_judges(self) -> frozenset[str]:
        """The names of all judges that a check names."""
        judges = set[str]()
        for check in self._shared:
            judges.update(self._members(check.name))
        if self._judges is None or self._judges.keys() - judges:
            for entry in chain.from_iterable(map(iter_check_entries, self._rows())):
                judge = entry.get(JUDGE_KEY) if isinstance(entry, Mapping) else None
                if isinstance(judge, str):
                    judges.update(self._members(judge))
        return frozenset(judges)

    def _validate(self, check: Check) -> None:
        for option in check.options:
            if option != CRITERIA_FIELD:
                problem = f"the check {check.name!r} by a judge has no option {option!r:.60}."
                raise DataInvalid(problem, suggest_name(option, [CRITERIA_FIELD]))
        if self._judges is None:
            return
        members = self._members(check.name)
        if not self._judges.keys() >= set(members):
            remedy = suggest_name(check.name, [*self._judges, *self._panels])
            problem = f"a check names the judge {check.name!r:.60}, which is not in the run file."
            raise DataInvalid(problem, remedy or "Add it to judges: (harness docs judges).")
        without_criteria = [judge for judge in members if not self._judges[judge]]
        if CRITERIA_FIELD in check.options and without_criteria:
            judge = without_criteria[0]
            problem = f"the judge {judge!r} does not decide on criteria, but a check has some."
            raise DataInvalid(problem, "Remove them, or use a judge that does, such as yes_no.")


def _stated_criteria(check: Check, row: Row) -> tuple[str, ...]:
    """Return the criteria that a check states, with texts from the row."""
    if CRITERIA_FIELD not in check.options:
        return ()
    raw = check.options[CRITERIA_FIELD]
    owner = f"of the check {check.name!r}"
    criteria: list[str] = []
    for entry in raw if isinstance(raw, list) else [raw]:
        field = field_reference(entry)
        if field is None:
            criteria += _texts(entry, f"criteria {owner}")
        else:
            texts = require_field(row, field, check.name)
            criteria += _texts(texts, f"the field {field!r:.60}, {owner},")
    if not criteria:
        raise DataInvalid(f"criteria {owner} must not be empty.")
    return tuple(dict.fromkeys(criteria))


def _texts(value: object, subject: str) -> list[str]:
    """Return a text or a list of texts as a list, or raise DataInvalid about the subject."""
    texts = value if isinstance(value, list) else [value]
    if not texts or not all(isinstance(text, str) and text.strip() for text in texts):
        raise DataInvalid(f"{subject} must be text or a list of texts, none of them empty.")
    return list(texts)


# Conversations: the user's written turns, and users whom a model plays

RowInstance: TypeAlias = Instance[JsonlItem]

# Fields of a row with several turns that belong to the last one.
LAST_TURN_FIELDS = ("checks", CRITERIA_FIELD, "gold", *ROW_OPTIONS)
_USER_FIELDS = UserRole.__struct_fields__
_TEMPLATE_OPTIONS = ("goal", "persona")  # options of a task's user that are templates


def turn_rows(row: Row) -> list[Row]:
    """Return one row for each of a row's ``turns``, or just the row if it has none.

    Each has the fields of the turn and of the row, but only the last has the row's
    `LAST_TURN_FIELDS`.

    Raises:
        DataInvalid: If the turns are not texts of the user, or the row has another prompt.
    """
    if "turns" not in row:
        return [row]
    turns = row["turns"]
    if not isinstance(turns, list) or not turns:
        raise DataInvalid("'turns' must be a list of the user's turns.", "Begin with one.")
    for key in ("messages", "prompt"):
        if row.get(key) not in (None, ""):
            raise DataInvalid(f"the row has 'turns' and {key!r}.", "Keep one.")
    row_fields = {key: value for key, value in row.items() if key != "turns"}
    common = {key: value for key, value in row_fields.items() if key not in LAST_TURN_FIELDS}
    turn_fields = [_turn_fields(turn, f"'turns', {i}") for i, turn in enumerate(turns, start=1)]
    for key in LAST_TURN_FIELDS:
        if key in row_fields and key in turn_fields[-1]:
            problem = f"'turns', {len(turns)}: the last turn and the row both have {key!r}."
            raise DataInvalid(problem, "Keep one: the row's own are those of the last turn.")
    rows = [{**common, **fields} for fields in turn_fields]
    rows[-1] = {**row_fields, **turn_fields[-1]}
    return rows


def _turn_fields(turn: object, location: str) -> Row:
    """Return the fields of one of a row's ``turns``."""
    check_no_tool_calls(turn, location)
    fields = {"content": turn} if isinstance(turn, str) else turn
    content = fields.get("content") if isinstance(fields, dict) else None
    if not isinstance(fields, dict) or not isinstance(content, str) or not content.strip():
        remedy = "Write a text, or a mapping with the text as its 'content'."
        raise DataInvalid(f"{location}: the user's turn has no text.", remedy)
    role = fields.get("role", "user")
    if role != "user":
        problem = f"{location}: the role is {role!r:.40}, and all turns are the user's."
        raise DataInvalid(problem, "The model answers each: leave its answers out.")
    return fields


def chain_turns(turns: Sequence[JsonlItem]) -> JsonlItem:
    """Return the item of a conversation's first turn, with the items of the turns after it."""
    *before, item = turns
    for turn in reversed(before):
        item = replace(turn, next_turns=(item, *item.next_turns))
    return item


class PlayedUsers:
    """The users that a model plays: those that rows describe, with defaults from ``task.user``.

    Raises:
        ConfigError: If ``task.user`` is invalid.
    """

    def __init__(self, shared: Mapping[str, Any] | None) -> None:
        self._shared = dict(shared or {})
        if self._shared:
            with reraise_as(ConfigError):
                _user_role({"goal": "-", **self._shared}, "task.user")
        self._templates: dict[str, Template] = {}
        for name in _TEMPLATE_OPTIONS:
            text = self._shared.get(name)
            if text is not None:
                self._templates[name] = Template(text, f"task.user.{name}")

    def find(self, row: Row) -> tuple[UserRole, Row] | None:
        """Return a row's user, and the row to use before the last answer.

        The result is None if no model plays the user. A field ``user`` without any key of a played
        user is a field like any other.
        """
        description = row.get("user")
        if not isinstance(description, Mapping) or description.keys().isdisjoint(_USER_FIELDS):
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
        dropped = {*LAST_TURN_FIELDS, "user"}
        earlier_row = {key: value for key, value in row.items() if key not in dropped}
        earlier_row |= {key: user[key] for key in LAST_TURN_FIELDS if key in user}
        return _user_role(user, "'user'"), earlier_row


def _user_role(user: Mapping[str, Any], location: str) -> UserRole:
    return convert_row(dict(user), UserRole, location, ignored=LAST_TURN_FIELDS)


class Conversations(Task[JsonlItem]):
    """The members of a task that concern turns (`Scripted`, `Played` and `NamesScores`)."""

    @override
    def turns(self, instance: RowInstance) -> int:
        """Return the number of the user's turns in a row's ``turns``, or 1 if it has none."""
        return 1 + len(instance.data.next_turns)

    @override
    def at_turn(self, instance: RowInstance, answers: Sequence[str]) -> RowInstance:
        """Return a row as of the turn after some answers, with the conversation up to it."""
        return replace(instance, data=instance.data.turn_after(answers))

    @override
    def score_names(self, instance: RowInstance) -> Collection[str]:
        """Return the names of a row's checks in all turns."""
        item = instance.data
        names: set[str] = set()
        for turn in (item, item.before_last, *item.next_turns):
            if turn is not None:
                names.update(rule.name for rule in turn.rules)
        return names

    @override
    def user_role(self, instance: RowInstance) -> UserRole | None:
        """Return the user that a model plays in a row, or None if no model plays the user."""
        return instance.data.role

    @override
    def at_played_turn(
        self, instance: RowInstance, messages: Sequence[Message], last: bool
    ) -> RowInstance:
        """Return a row with the conversation so far, and the checks of the next answer."""
        item = instance.data
        if not last and item.before_last is not None:
            item = item.before_last
        return replace(instance, data=replace(item, messages=tuple(messages)))


def optional_template(text: str | None, option: str) -> Template | None:
    """Return the template in an option of the task, or None if it is not set."""
    return None if text is None else Template(text, f"task.{option}")


def check_no_other_prompt(row: Row) -> None:
    """Raise DataInvalid if a row has a prompt besides that of the task."""
    for field in ("messages", "turns"):
        if field in row:
            problem = f"the row has {field!r}, and task.prompt is set."
            raise DataInvalid(problem, "Keep one.")


def check_options_set(template: Template, row: Row) -> None:
    """Raise DataInvalid if a prompt shows options that only ``task.choices`` would build."""
    if "options" in template.fields - row.keys() and "choices" in row:
        problem = "task.prompt has {{ options }}, and task.choices is not set."
        raise DataInvalid(problem, "Write task.choices: {by: letter}.")
