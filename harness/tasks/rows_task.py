"""A benchmark made from rows of any source: prompts, checks and judges' criteria."""

from __future__ import annotations

import copy
import hashlib
import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import cached_property
from importlib.metadata import version
from itertools import islice
from pathlib import Path
from typing import Any, Literal

from msgspec.structs import replace
from typing_extensions import override

from harness.datasets.folder import DataFolder, sha256
from harness.datasets.rows import Row, RowSource, iter_unique, row_id, row_messages
from harness.errors import ConfigError, DataInvalid, Unparseable, reraise_as
from harness.plugin_loader import CODE_HASH_PREFIX, kind
from harness.ports import LOGLIKELIHOODS
from harness.prompts import Template
from harness.records import (
    ConstraintKind,
    Criterion,
    DecodingConstraint,
    Instance,
    Message,
    Request,
    Score,
    replace_surrogates,
    verdict,
)
from harness.scoring.checkers import JsonSchemaChecker
from harness.scoring.checks import (
    ROW_OPTIONS,
    Check,
    Rules,
    iter_field_name_warnings,
    locate_files,
    read_checks,
    row_checks,
    schema_files,
    target_fields,
    turn_checks,
)
from harness.scoring.extraction import build_extraction
from harness.scoring.patterns import PatternTooSlow
from harness.scoring.text import NO_DICTIONARY, lacks_dictionary
from harness.tasks.items import (
    Conversations,
    JsonlItem,
    JudgeChecks,
    PlayedUsers,
    QuestionForm,
    RowInstance,
    chain_turns,
    check_no_other_prompt,
    check_options_set,
    default_form,
    first_item,
    iter_check_entries,
    iter_parser_warnings,
    iter_target_texts,
    optional_template,
    row_groups,
    schema_constraint,
    turn_rows,
)
from harness.wording import join_first

MAX_CHECKED_INSTANCES = 200  # that `prompt_errors` examines


class RowsTask(Conversations):
    """A benchmark made from rows, with a prompt template and named checks (see `JsonlTask`)."""

    constraint_kind: ConstraintKind = "json_schema"

    def __init__(
        self,
        source: RowSource,
        data: DataFolder,
        *,
        prompt: str | None,
        system: str | None,
        extract: dict[str, Any] | None,
        checks: list[Any] | str | None,
        gold: str | None,
        groups: list[str] | None,
        on_truncated: Literal["fail", "grade"],
        feedback: str | None,
        judges: Mapping[str, bool] | None,
        panels: Mapping[str, Sequence[str]] | None,
        choices: QuestionForm | None = None,
        user: Mapping[str, Any] | None = None,
        adapt: Callable[[Row], Row] | None = None,
    ) -> None:
        self.on_truncated = on_truncated
        checks = [checks] if isinstance(checks, str) else checks
        if choices is not None and choices.uses_likelihoods and (checks or extract or judges):
            problem = f"task.choices.by: {choices.by} compares log-likelihoods, which are not text."
            raise ConfigError(problem, "Remove checks, extract and judges, or choose by letter.")
        self._source = source
        self._chosen_form = choices
        self._judge_names = tuple(judges or ())
        self._judge: str | None = None
        self._extraction = None if extract is None else build_extraction(extract, "task.extract")
        self._file_names: dict[str, str] = {}  # names of checks' files in the run file, by path

        def locate(name: str) -> str:
            path = data.next_to_run_file(name)
            self._file_names[path] = name
            return path

        self._shared = read_checks(locate_files(checks or [], locate), "task.checks", judges or ())
        self._rules = Rules(self._shared)
        self._judges = JudgeChecks(self._shared, judges, panels, self._rows)
        self._prompt = optional_template(prompt, "prompt")
        self._system = optional_template(system, "system")
        self._feedback = optional_template(feedback, "feedback")
        self._gold = optional_template(gold, "gold")
        self._group_fields = groups or []
        self._adapt = adapt
        self._played_users = PlayedUsers(user)
        self._instances: list[RowInstance] | None = None
        templates = [prompt, system]
        if feedback is not None:
            templates.append(feedback)
        scoring: list[Any] = [extract, checks, gold]
        if user is not None:
            scoring.append(user)
        self._hashes = {
            "template_sha256": _json_sha256(templates),
            "checks_sha256": _json_sha256(scoring),
        }

    @cached_property
    def _choices(self) -> QuestionForm | None:
        """The form of the questions in rows, such as multiple choice, or None.

        The default is that of the first row, if the task has no prompt.
        """
        if self._chosen_form is None and self._prompt is None:
            return default_form(next(self._rows(), {}))
        return self._chosen_form

    @cached_property
    def _message_template(self) -> Template | None:
        """The template of the user's message, or None if rows have prompts."""
        if self._prompt is not None or self._choices is None:
            return self._prompt
        return self._choices.template()

    def _rows(self) -> Iterator[Row]:
        return (row for _, row in self._source.rows())

    def instances(self) -> Iterator[RowInstance]:
        """Yield an instance for each row in the order of the file."""
        if self._instances is None:
            instances = iter_unique(self._read())
            if self._source.is_large:
                yield from instances
                return
            self._instances = list(instances)
        yield from self._instances

    def _read(self) -> Iterator[tuple[str, RowInstance]]:
        """Yield each row's location and its instance."""
        for number, (location, row) in enumerate(self._source.rows(), start=1):
            with reraise_as(DataInvalid, f"{location}: "):
                instance = self._instance(row, number)
            yield location, instance

    def _instance(self, row: Row, number: int) -> RowInstance:
        if self._adapt is not None:
            row = self._adapt(row)
        name = replace_surrogates(row_id(row, number, ""))
        label = row.get("cluster")
        if isinstance(label, bool) or not isinstance(label, str | int | None):
            raise DataInvalid("'cluster' must be text or an integer.")
        options = None
        if self._choices is not None:
            if "turns" in row:
                raise DataInvalid("a row with 'turns' cannot be multiple choice.", "Keep one.")
            row, options = self._choices.add_options(row, name)
        if self._feedback is not None:  # a missing field is an error before the first call
            self._feedback.render({**row, "reasons": [""]})
        item = self._item(row, options)
        groups = row_groups(row, self._group_fields)
        cluster = item.cluster if label is None else str(label)
        return Instance(name, item, groups, cluster)

    def _item(self, row: Row, options: Any) -> JsonlItem:
        turns = turn_rows(row)
        messages = self._messages(row, turns[0])
        if self._choices is not None:
            options = self._choices.note_prompt(options, messages[-1].content)
        item = self._conversation_item(turns, messages, options)
        user = self._played_users.find(row)
        if user is None:
            return item
        role, earlier_row = user
        checks = row_checks(earlier_row, ()) if "checks" in earlier_row else ()
        before_last = self._turn_item(earlier_row, messages, checks)
        return replace(item, role=role, before_last=before_last)

    def _conversation_item(
        self, turns: Sequence[Row], messages: tuple[Message, ...], options: Any
    ) -> JsonlItem:
        """Return the item of a conversation's first turn, whose prompt is ``messages``."""
        checks = turn_checks(turns, self._shared, self._judge_names, required=options is None)
        if any(checks) and self.needed_features:
            raise DataInvalid("'checks' cannot read log-likelihoods (task.choices).")
        items = list[JsonlItem]()
        for turn, checks_of_turn in zip(turns, checks, strict=True):
            prompt = (Message("user", turn["content"]),) if items else messages
            items.append(self._turn_item(turn, prompt, checks_of_turn, options))
        self._judges.check_criteria(items)
        return chain_turns(items)

    def _turn_item(
        self, row: Row, messages: tuple[Message, ...], checks: Sequence[Check], options: Any = None
    ) -> JsonlItem:
        rules = self._rules.resolve(checks, row)
        judges = self._judges.criteria_by_judge(checks, row)
        return JsonlItem(row, messages, rules, judges, options)

    def _messages(self, row: Row, first_turn: Row) -> tuple[Message, ...]:
        """Return the prompt of a row, with the system message."""
        template = self._message_template
        if template is not None:
            messages: tuple[Message, ...] = (self._render_message(template, row),)
        elif "turns" in row:
            messages = (Message("user", first_turn["content"]),)
        else:
            messages = row_messages(row)
        if not messages[-1].content.strip():
            raise DataInvalid("the prompt is empty.")
        if self._system is None:
            return messages
        if messages[0].role == "system":
            raise DataInvalid("the row and task.system both have a system message.", "Remove one.")
        return (Message("system", self._system.render(row)), *messages)

    def _render_message(self, template: Template, row: Row) -> Message:
        check_no_other_prompt(row)
        if self._choices is None:
            check_options_set(template, row)
        text = template.render(row)
        template.check_single_braces(row)
        return Message("user", text)

    @override
    def row_fields(self) -> Iterator[tuple[str, Row]]:
        """Yield each row's id and the fields that only templates and checks use."""
        reserved = {"id", "groups", "cluster", "checks", "messages", "turns", "user"}
        for number, (location, row) in enumerate(self._source.rows(), start=1):
            fields = {name: value for name, value in row.items() if name not in reserved}
            yield replace_surrogates(row_id(row, number, f"{location}: ")), fields

    def fingerprint(self) -> Mapping[str, str]:
        """Return the rows' hashes, those of templates and checks, and the version of ``regex``."""
        hashes = {path: sha256(Path(path)) for path in schema_files(self._shared)}
        for name in self._named_checkers():
            if digest := kind("checkers").user_code_sha256(name):
                hashes[f"{CODE_HASH_PREFIX}{self._file_names.get(name, name)}"] = digest
        if self._choices is not None and self._message_template is not None:
            hashes["choices"] = _json_sha256(
                [self._choices.settings(), self._message_template.text]
            )
        fingerprint = {**self._source.fingerprint(), **self._hashes, "regex": version("regex")}
        for name, digest in hashes.items():
            fingerprint[f"{self._file_names.get(name, name)}_sha256"] = digest
        return fingerprint

    def _named_checkers(self) -> set[str]:
        """Return the checkers that the run file names, and the registered ones that rows name."""
        checkers = {check.checker for check in self._shared}
        registered = {*kind("checkers").registered()} - checkers
        if registered:
            for row in self._rows():
                for entry in iter_check_entries(row):
                    names = entry if isinstance(entry, Mapping) else [entry]
                    checkers |= registered.intersection(map(str, names))
        return checkers

    def messages(self, instance: RowInstance, shots: Sequence[RowInstance]) -> tuple[Message, ...]:
        """Return the row's conversation, to which the harness adds the shots."""
        return instance.data.messages

    @property
    @override
    def needed_features(self) -> frozenset[str]:
        """The feature ``loglikelihoods``, if ``choices`` compares log-likelihoods."""
        if self._chosen_form is not None and self._chosen_form.uses_likelihoods:
            return frozenset({LOGLIKELIHOODS})
        return frozenset()

    @override
    def adapted_request(self, instance: RowInstance, request: Request) -> Request:
        """Return the request, or one for the log-likelihoods of a row's options."""
        options = instance.data.options
        if self._choices is None or options is None or not self._choices.uses_likelihoods:
            return request
        return self._choices.likelihood_request(options, request)

    def score(self, instance: RowInstance, text: str) -> Mapping[str, Score]:
        """Return the scores of a reply by each rule, and of the option that it chooses.

        They have no values if the extraction of the answer times out.

        Raises:
            Unparseable: If a reply has no answer that the option ``extract`` or a rule can read, or
                chooses no option.
        """
        item = instance.data
        texts = {"text": text, "answer": text}
        if self._extraction is not None and (item.rules or self._choices is not None):
            try:
                texts["answer"] = self._extraction.read(text)
            except PatternTooSlow as error:
                names = [rule.name for rule in item.rules]
                if self._choices is not None:
                    names.insert(0, self._choices.score_names[0])
                return dict.fromkeys(names, Score(None, None, error.message))
        rule_scores = {}
        for rule in item.rules:
            rule_scores[rule.name] = self._rules.score(rule, texts[rule.of], instance)
        return self._choice_scores(instance, texts["answer"]) | rule_scores

    def _choice_scores(self, instance: RowInstance, answer: str) -> dict[str, Score]:
        """Return the scores of the option that an answer chooses, or {} without options."""
        options = instance.data.options
        return self._choices.score(options, answer) if self._choices and options else {}

    @override
    def score_names(self, instance: RowInstance) -> Collection[str]:
        """Return the names of a row's checks in all turns, and of its choices' scores."""
        names = super().score_names(instance)
        return names if self._choices is None else {*names, *self._choices.score_names}

    @override
    def score_parsed(self, instance: RowInstance, answer: str) -> Mapping[str, Score]:
        """Return the scores of an answer that a judge found in a reply, without verdicts.

        Rules that check the whole reply give no score.
        """
        scores = self._choice_scores(instance, answer)
        for rule in instance.data.rules:
            if rule.of == "answer":
                scores[rule.name] = self._rules.score(rule, answer, instance)
        return {name: replace(score, passed=None) for name, score in scores.items()}

    @override
    def extracted(self, instance: RowInstance, text: str) -> str | None:
        """Return the answer that is extracted from a reply.

        The result is None if checks read the whole reply, or if no answer can be extracted.
        """
        parser = self._extraction
        options = instance.data.options
        if parser is None and options is None:
            for checker in map(self._rules.checker, instance.data.rules):
                if isinstance(checker, JsonSchemaChecker):
                    parser = checker.extraction
                    break
        try:
            answer = None if parser is None else parser.read(text)
            if self._choices is None:
                return answer
            return self._choices.read_answer(options, text if answer is None else answer)
        except (Unparseable, PatternTooSlow):
            return None

    def feedback(self, instance: RowInstance, text: str, scores: Mapping[str, Score]) -> str:
        """Return a message that says why checks failed, if any did."""
        failed = [score for score in scores.values() if score.passed is False]
        if not failed:
            if any(score.value is None for score in scores.values()):
                return "That could not be checked. Please answer again, in a simpler form."
            return "That is right."
        reasons = [score.reason or "not as asked" for score in failed]
        if self._feedback is not None:
            return self._feedback.render({**instance.data.row, "reasons": reasons})
        lines = "".join(f"- {reason}\n" for reason in reasons)
        return f"That is not right yet:\n{lines}Please answer again."

    def reference(self, instance: RowInstance) -> str | None:
        """Return a correct answer to a row, or None if it has none.

        That is the rendered template ``gold``, which is not checked. Without a template, and in
        turns before the last, it is the first text that passes the checks, from the row's field
        ``gold``, its targets and, in the last turn, the fields that checks name.
        """
        candidates = self._candidates(instance.data)
        if self._gold is not None and not instance.data.next_turns:
            return next(candidates)
        return next((text for text in candidates if self._passes(instance, text)), None)

    @override
    def wrong_answer(self, instance: RowInstance) -> str | None:
        """Return a wrong option's letter or text, or None without options."""
        options = instance.data.options
        if self._choices is None or not options:
            return None
        return self._choices.wrong_answer(options, instance.id)

    @override
    def expected_answer(self, instance: RowInstance) -> str | None:
        """Return the reference, or else a target, or None if the row has neither."""
        candidates = list(self._candidates(instance.data))
        readable = [text for text in candidates if self._try_score(instance, text) is not None]
        return self.reference(instance) or next(iter(readable or candidates), None)

    def _candidates(self, item: JsonlItem) -> Iterator[str]:
        """Yield texts that may be a correct answer."""
        row = item.row
        if self._gold is not None and not item.next_turns:
            targets = {field: first_item(row[field]) for field in ROW_OPTIONS if field in row}
            yield self._gold.render({**row, **targets})
            return
        fields = ["gold", *ROW_OPTIONS]
        if not item.next_turns:
            for check in self._shared:
                fields += target_fields(check)
        yield from filter(str.strip, iter_target_texts(row, fields, self._extraction))

    @override
    def constraint(self, instance: RowInstance) -> DecodingConstraint:
        """Return the schema of the row's check ``json_schema``."""
        rules = (rule for rule in instance.data.rules if rule.checker == "json_schema")
        return schema_constraint(list(map(self._rules.checker, rules)), instance.id)

    @override
    def instruction(self, instance: RowInstance) -> str:
        """Return the row's conversation as one string, for a judge."""
        turns = instance.data.messages
        if len(turns) == 1:
            return turns[0].content
        return "\n\n".join(f"{turn.role}: {turn.content}" for turn in turns)

    @override
    def criteria(self, instance: RowInstance) -> Sequence[Criterion]:
        """Return a row's criteria; in a task from `for_judge`, only those for its judge."""
        item = instance.data
        texts = self._judges.criteria(item.row, item.judges, self._judge)
        return list(map(Criterion, texts))

    @override
    def judged_by(self, instance: RowInstance, judge: str) -> bool:
        """Return whether a judge scores answers to a row.

        A judge that some check names scores only the rows whose checks name it. A judge of criteria
        scores only rows with criteria. Other judges score all rows.
        """
        return self._judges.judged_by(instance.data, judge)

    @override
    def for_judge(self, judge: str) -> RowsTask:
        """Return a copy of the task in which `criteria` are those for one judge."""
        task = copy.copy(self)
        task._judge = judge
        return task

    @override
    def prompt_errors(self) -> list[str]:
        """Return warnings about the prompt, ``extract``, targets, and the schemas of rows."""
        if self._prompt is not None and not self._prompt.fields:
            items = [instance.data for instance in islice(self.instances(), 2)]
            is_constant = len(items) == 2 and items[0].messages == items[1].messages
            if is_constant and items[0].role is None:
                problem = "task.prompt uses no field of the rows, so that all have the same prompt."
                return [f"{problem} Fields are written {{{{ question }}}}."]
        ids_by_problem: dict[str, list[str]] = {}
        for first_turn in islice(self.instances(), MAX_CHECKED_INSTANCES):
            instance = self.at_turn(first_turn, [""] * len(first_turn.data.next_turns))
            for problem in self._prompt_problems(instance):
                ids_by_problem.setdefault(problem, []).append(instance.id)
        return [f"{problem} ({join_first(ids, 1)})" for problem, ids in ids_by_problem.items()]

    def _prompt_problems(self, instance: RowInstance) -> Iterator[str]:
        item = instance.data
        yield from iter_field_name_warnings(self._shared, item.row)
        if self._choices is not None:
            yield from self._choices.prompt_warnings(item.options, item.messages)
        for rule in item.rules:
            checker = self._rules.checker(rule)
            if isinstance(checker, JsonSchemaChecker) and checker.misspelt:
                yield f"{rule.name}: {checker.misspelt}"
            if any(lacks_dictionary(checker, turn.content) for turn in item.messages):
                yield f"{rule.name}: {NO_DICTIONARY}"
        yield from iter_parser_warnings(item, self._extraction)
        if self._extraction is None or self._gold is None:
            return
        if not self._passes(instance, self.reference(instance) or ""):
            yield "task.gold gives an answer that does not pass."

    def _passes(self, instance: RowInstance, text: str) -> bool:
        scores = self._try_score(instance, text)
        return scores is not None and verdict(scores) is not False

    def _try_score(self, instance: RowInstance, text: str) -> Mapping[str, Score] | None:
        """Return the scores of a reply, or None if it cannot be parsed."""
        try:
            return self.score(instance, text)
        except Unparseable:
            return None


def _json_sha256(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()
