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
from harness.datasets.rows import Row, RowSource, text_id, turns_of, unique
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
    content_hash,
    replace_surrogates,
    verdict,
)
from harness.scoring.checkers import JsonSchemaChecker
from harness.scoring.checks import (
    FROM_ROW,
    Check,
    Rules,
    checks_of,
    files,
    located,
    named_like_fields,
    read_checks,
    target_fields,
)
from harness.scoring.extraction import extraction
from harness.scoring.patterns import PatternTooSlow
from harness.scoring.text import NO_DICTIONARY, lacks_dictionary
from harness.tasks.items import (
    Conversations,
    JsonlItem,
    JudgeChecks,
    One,
    QuestionForm,
    Users,
    chained,
    default_form,
    first_of,
    groups_of,
    optional_template,
    parser_warnings,
    refuse_options,
    schema_constraint,
    target_forms,
    turn_rows,
    written_checks,
)
from harness.wording import join_first

LOOKED_AT = 200  # number of instances that `prompt_errors` examines


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
        if choices is not None and choices.by_likelihood and (checks or extract or judges):
            problem = f"task.choices.by: {choices.by} compares log-likelihoods, which are not text."
            raise ConfigError(problem, "Remove checks, extract and judges, or choose by letter.")
        self._source = source
        self._chosen_form = choices
        self._judge_names = tuple(judges or ())
        self._judge: str | None = None
        self._extraction = None if extract is None else extraction(extract, "task.extract")
        self._written: dict[str, str] = {}  # files of checks, as the run file names them, by path

        def locate(name: str) -> str:
            path = data.own(name)
            self._written[path] = name
            return path

        self._shared = read_checks(located(checks or [], locate), "task.checks", judges or ())
        self._rules = Rules(self._shared)
        self._judges = JudgeChecks(self._shared, judges, panels, self._rows)
        self._prompt = optional_template(prompt, "prompt")
        self._system = optional_template(system, "system")
        self._feedback = optional_template(feedback, "feedback")
        self._gold = optional_template(gold, "gold")
        self._labels = groups or []
        self._adapt = adapt
        self._users = Users(user)
        self._instances: list[One] | None = None
        templates = [prompt, system]
        if feedback is not None:
            templates.append(feedback)
        scored: list[Any] = [extract, checks, gold]
        if user is not None:
            scored.append(user)
        self._hashes = {"template_sha256": _hash(templates), "checks_sha256": _hash(scored)}

    @cached_property
    def _choices(self) -> QuestionForm | None:
        """The form of the questions that rows ask, such as multiple choice, or None.

        By default, they have one if the first row has choices, and nothing else sets a prompt.
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

    def instances(self) -> Iterator[One]:
        """Yield the rows in file order, each with its prompt and checks."""
        if self._instances is None:
            instances = unique(self._read())
            if self._source.large:
                yield from instances
                return
            self._instances = list(instances)
        yield from self._instances

    def _read(self) -> Iterator[tuple[str, One]]:
        for number, (where, row) in enumerate(self._source.rows(), start=1):
            with reraise_as(DataInvalid, f"{where}: "):
                instance = self._instance(row, number)
            yield where, instance

    def _instance(self, row: Row, number: int) -> One:
        if self._adapt is not None:
            row = self._adapt(row)
        name = replace_surrogates(text_id(row, number, ""))
        cluster = row.get("cluster")
        if isinstance(cluster, bool) or not isinstance(cluster, str | int | None):
            raise DataInvalid("'cluster' must be text or an integer.")
        options = None
        if self._choices is not None:
            if "turns" in row:
                raise DataInvalid("a row with 'turns' cannot be multiple choice.", "Keep one.")
            row, options = self._choices.lettered(row, name)
        turns = turn_rows(row)
        messages = self._conversation(row, turns[0])
        if self._choices is not None:
            options = self._choices.asked(options, messages[-1].content)
        if self._feedback is not None:  # a missing field is an error before the first call
            self._feedback.render({**row, "reasons": [""]})
        item = self._item(turns, messages, options)
        groups = groups_of(row, self._labels)
        if (user := self._users.of(row)) is not None:
            role, before = user
            checks = checks_of(before, ()) if "checks" in before else ()
            item = replace(item, role=role, before=self._checked(before, messages, checks))
        if cluster is not None:
            cluster = str(cluster)
        elif item.later or item.role:
            # Conversations that begin with the same turn are still different prompts.
            later = [turn.messages for turn in item.later]
            cluster = content_hash((messages, later, item.role))
        return Instance(name, item, groups, cluster)

    def _item(self, turns: Sequence[Row], messages: tuple[Message, ...], options: Any) -> JsonlItem:
        *before, last = turns
        checks = [checks_of(turn, self._shared) if "checks" in turn else () for turn in before]
        is_unchecked = options is None and not any(checks)
        if "checks" in last or self._shared or is_unchecked:
            checks.append(checks_of(last, self._shared, self._judge_names))
        else:
            checks.append(())
        if any(checks) and self.needed_features:
            raise DataInvalid("'checks' cannot read log-likelihoods (task.choices).")
        items = list[JsonlItem]()
        for turn, checks_of_turn in zip(turns, checks, strict=True):
            if items:
                messages = (Message("user", turn["content"]),)
            items.append(self._checked(turn, messages, checks_of_turn, options))
        self._judges.refuse_without_criteria(items)
        return chained(items)

    def _checked(
        self, row: Row, messages: tuple[Message, ...], checks: Sequence[Check], options: Any = None
    ) -> JsonlItem:
        rules = self._rules.of(checks, row)
        return JsonlItem(row, messages, rules, self._judges.of(checks, row), options)

    def _conversation(self, row: Row, first: Row) -> tuple[Message, ...]:
        template = self._message_template
        if template is not None:
            for field in ("messages", "turns"):
                if field in row:
                    problem = f"the row has {field!r}, and task.prompt is set."
                    raise DataInvalid(problem, "Keep one.")
            if self._choices is None:
                refuse_options(template, row)
            turns: tuple[Message, ...] = (Message("user", template.render(row)),)
            template.refuse_single_braces(row)
        elif "turns" in row:
            turns = (Message("user", first["content"]),)
        else:
            turns = turns_of(row)
        if not turns[-1].content.strip():
            raise DataInvalid("the prompt is empty.")
        if self._system is None:
            return turns
        if turns[0].role == "system":
            raise DataInvalid("the row and task.system both have a system message.", "Remove one.")
        return (Message("system", self._system.render(row)), *turns)

    @override
    def row_fields(self) -> Iterator[tuple[str, Row]]:
        """Yield each row's id and fields, without those such as ``checks`` and ``messages``."""
        reserved = {"id", "groups", "cluster", "checks", "messages", "turns", "user"}
        for number, (where, row) in enumerate(self._source.rows(), start=1):
            fields = {name: value for name, value in row.items() if name not in reserved}
            yield replace_surrogates(text_id(row, number, f"{where}: ")), fields

    def fingerprint(self) -> Mapping[str, str]:
        """Return the rows' fingerprint, the version of ``regex``, and other hashes."""
        hashes = {path: sha256(Path(path)) for path in files(self._shared)}
        for name in self._checkers():
            if digest := kind("checkers").user_code_sha256(name):
                hashes[f"{CODE_HASH_PREFIX}{self._written.get(name, name)}"] = digest
        if self._choices is not None and self._message_template is not None:
            hashes["choices"] = _hash([self._choices.settings(), self._message_template.text])
        fingerprint = {**self._source.fingerprint(), **self._hashes, "regex": version("regex")}
        for name, digest in hashes.items():
            fingerprint[f"{self._written.get(name, name)}_sha256"] = digest
        return fingerprint

    def _checkers(self) -> set[str]:
        """Return the checkers of the run file, and the registered checkers that rows name."""
        checkers = {check.checker for check in self._shared}
        registered = {*kind("checkers").registered()} - checkers
        if registered:
            for row in self._rows():
                for entry in written_checks(row):
                    names = entry if isinstance(entry, Mapping) else [entry]
                    checkers |= registered.intersection(map(str, names))
        return checkers

    def messages(self, instance: One, shots: Sequence[One]) -> tuple[Message, ...]:
        """Return the row's conversation. The harness adds the shots."""
        return instance.data.messages

    @property
    @override
    def needed_features(self) -> frozenset[str]:
        """The feature ``loglikelihoods``, if ``choices`` compares log-likelihoods."""
        if self._chosen_form is not None and self._chosen_form.by_likelihood:
            return frozenset({LOGLIKELIHOODS})
        return frozenset()

    @override
    def adapted_request(self, instance: One, request: Request) -> Request:
        """Return the request, or one for the log-likelihoods of a row's choices."""
        options = instance.data.options
        if self._choices is None or options is None or not self._choices.by_likelihood:
            return request
        return self._choices.request(options, request)

    def score(self, instance: One, text: str) -> Mapping[str, Score]:
        """Return the scores of a choice and of each rule, without values if extraction times out.

        Raises:
            Unparseable: If a reply has no answer that the option ``extract`` or a rule can read, or
                chooses no option.
        """
        item = instance.data
        parts = {"text": text, "answer": text}
        if self._extraction is not None and (item.rules or self._choices is not None):
            try:
                parts["answer"] = self._extraction.read(text)
            except PatternTooSlow as error:
                names = [rule.name for rule in item.rules]
                if self._choices is not None:
                    names.insert(0, self._choices.score_names[0])
                return dict.fromkeys(names, Score(None, None, error.message))
        score = self._rules.score
        rules = {rule.name: score(rule, parts[rule.of], instance) for rule in item.rules}
        return self._choice(instance, parts["answer"]) | rules

    def _choice(self, instance: One, answer: str) -> dict[str, Score]:
        """Return the scores of the option that an answer chooses, or {} without options."""
        options = instance.data.options
        return self._choices.scores(options, answer) if self._choices and options else {}

    @override
    def score_names(self, instance: One) -> Collection[str]:
        """Return the names of a row's checks in all turns, and of its choices' scores."""
        names = super().score_names(instance)
        return names if self._choices is None else {*names, *self._choices.score_names}

    @override
    def score_parsed(self, instance: One, answer: str) -> Mapping[str, Score]:
        """Return the scores of an answer that a judge found in a reply, without verdicts.

        Rules that check the whole reply give no score.
        """
        scores = self._choice(instance, answer)
        for rule in instance.data.rules:
            if rule.of == "answer":
                scores[rule.name] = self._rules.score(rule, answer, instance)
        return {name: replace(score, passed=None) for name, score in scores.items()}

    @override
    def extracted(self, instance: One, text: str) -> str | None:
        """Return the part of a reply that checks read.

        The result is None if the checks read the whole reply, or if the reply has no such part.
        """
        parser = self._extraction
        options = instance.data.options
        if parser is None and options is None:
            for checker in map(self._rules.checker, instance.data.rules):
                if parser is None and isinstance(checker, JsonSchemaChecker):
                    parser = checker.extraction
        try:
            part = None if parser is None else parser.read(text)
            if self._choices is None:
                return part
            answer = text if part is None else part
            return self._choices.chosen(options, answer)
        except (Unparseable, PatternTooSlow):
            return None

    def feedback(self, instance: One, text: str, scores: Mapping[str, Score]) -> str:
        """Return why checks failed, or that the answer is right or could not be checked."""
        failed = [score for score in scores.values() if score.passed is False]
        if not failed and any(score.value is None for score in scores.values()):
            return "That could not be checked. Please answer again, in a simpler form."
        if not failed:
            return "That is right."
        reasons = [score.reason or "not as asked" for score in failed]
        if self._feedback is not None:
            return self._feedback.render({**instance.data.row, "reasons": reasons})
        listed = "".join(f"- {reason}\n" for reason in reasons)
        return f"That is not right yet:\n{listed}Please answer again."

    def reference(self, instance: One) -> str | None:
        """Return a correct answer: the template ``gold`` rendered for the row.

        Without a template, it is the row's field ``gold``, its target, or the field that a check
        names, in the first form that passes the checks (None if none passes).
        """
        candidates = self._candidates(instance.data)
        if self._gold is not None and not instance.data.later:
            return next(candidates)
        return next((text for text in candidates if self._passes(instance, text)), None)

    @override
    def wrong_answer(self, instance: One) -> str | None:
        """Return a wrong option's letter or text, or None without options."""
        options = instance.data.options
        if self._choices is None or not options:
            return None
        return self._choices.wrong_answer(options, instance.id)

    @override
    def expected_answer(self, instance: One) -> str | None:
        """Return the reference, else a target, else None."""
        candidates = list(self._candidates(instance.data))
        readable = [text for text in candidates if self._scores(instance, text) is not None]
        return self.reference(instance) or next(iter(readable or candidates), None)

    def _candidates(self, item: JsonlItem) -> Iterator[str]:
        row = item.row
        if self._gold is not None and not item.later:
            targets = {field: first_of(row[field]) for field in FROM_ROW if field in row}
            yield self._gold.render({**row, **targets})
            return
        fields = ["gold", *FROM_ROW]
        if not item.later:
            for check in self._shared:
                fields += target_fields(check)
        yield from filter(str.strip, target_forms(row, fields, self._extraction))

    @override
    def constraint(self, instance: One) -> DecodingConstraint:
        """Return the schema of the row's check ``json_schema``."""
        rules = (rule for rule in instance.data.rules if rule.checker == "json_schema")
        return schema_constraint(list(map(self._rules.checker, rules)), instance.id)

    @override
    def instruction(self, instance: One) -> str:
        """Return the row's conversation as one string, for a judge."""
        turns = instance.data.messages
        if len(turns) == 1:
            return turns[0].content
        return "\n\n".join(f"{turn.role}: {turn.content}" for turn in turns)

    @override
    def criteria(self, instance: One) -> Sequence[Criterion]:
        """Return a row's criteria; in a task from `for_judge`, only those for its judge."""
        item = instance.data
        return [Criterion(t) for t in self._judges.criteria(item.row, item.judges, self._judge)]

    @override
    def judged_by(self, instance: One, judge: str) -> bool:
        """Return whether a judge scores answers to a row.

        A judge that some check names scores only the rows whose checks name it. A judge of criteria
        scores only rows with criteria. Other judges score all rows.
        """
        return self._judges.judged_by(instance.data, judge)

    @override
    def for_judge(self, judge: str) -> RowsTask:
        """Return a copy of the task in which `criteria` are those for one judge."""
        view = copy.copy(self)
        view._judge = judge
        return view

    @override
    def prompt_errors(self) -> list[str]:
        """Return warnings about the prompt, ``extract``, targets, and the schemas of rows."""
        if self._prompt is not None and not self._prompt.names:
            items = [instance.data for instance in islice(self.instances(), 2)]
            same = len(items) == 2 and items[0].messages == items[1].messages
            if same and items[0].role is None:
                problem = "task.prompt uses no field of the rows, so that all have the same prompt."
                return [f"{problem} Fields are written {{{{ question }}}}."]
        ids: dict[str, list[str]] = {}  # by problem
        for first_turn in islice(self.instances(), LOOKED_AT):
            instance = self.at_turn(first_turn, [""] * len(first_turn.data.later))
            for problem in self._problems(instance):
                ids.setdefault(problem, []).append(instance.id)
        return [f"{problem} ({join_first(ids_of, 1)})" for problem, ids_of in ids.items()]

    def _problems(self, instance: One) -> Iterator[str]:
        item = instance.data
        yield from named_like_fields(self._shared, item.row)
        if self._choices is not None:
            yield from self._choices.problems(item.options, item.messages)
        for rule in item.rules:
            checker = self._rules.checker(rule)
            if isinstance(checker, JsonSchemaChecker) and checker.misspelt:
                yield f"{rule.name}: {checker.misspelt}"
            if any(lacks_dictionary(checker, turn.content) for turn in item.messages):
                yield f"{rule.name}: {NO_DICTIONARY}"
        yield from parser_warnings(item, self._extraction)
        if self._extraction is None or self._gold is None:
            return
        if not self._passes(instance, self.reference(instance) or ""):
            yield "task.gold gives an answer that does not pass."

    def _passes(self, instance: One, text: str) -> bool:
        scores = self._scores(instance, text)
        return scores is not None and verdict(scores) is not False

    def _scores(self, instance: One, text: str) -> Mapping[str, Score] | None:
        try:
            return self.score(instance, text)
        except Unparseable:
            return None


def _hash(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()
