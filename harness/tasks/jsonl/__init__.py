r"""A benchmark of one's own, from a file of rows: no Python.

    task:
      name: jsonl
      path: mine.jsonl                  # {"question": "…", "target": "…"} on each line
      prompt: "{{ question }}\nEnd with: The answer is <one word>"
      extract: {regex: 'answer is (\w+)'}
      checks: [{exact_match: {ignore_case: true}}]

A row is asked by the template ``prompt``, or by its own ``prompt`` or ``messages``; it may have
``id``, ``target`` or ``targets``, ``groups``, ``cluster``, ``checks``, ``criteria`` and any other
field. Each check is a score, by a rule or by a judge of the run, and an answer passes where all
do. docs/jsonl.md has all of it.

>>> task = JsonlTask(data=folder)  # doctest: +SKIP
>>> [instance.id for instance in task.instances()][:1]  # doctest: +SKIP
['capital/1']
"""

from __future__ import annotations

import copy
import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from importlib.metadata import version
from itertools import islice
from pathlib import Path
from typing import Any, Literal

from harness.datasets.folder import DataFolder, sha256
from harness.errors import ConfigError, Unparseable
from harness.prompts.template import Template
from harness.records import Criterion, Instance, Message, Score, verdict
from harness.scoring.extraction import extraction
from harness.scoring.patterns import PatternTooSlow
from harness.scoring.prompt_check import Shown, faults, garbled
from harness.tasks._rows import rows
from harness.tasks.jsonl.checks import Checks
from harness.tasks.jsonl.items import Item, Reader
from harness.tasks.jsonl.presets import PRESETS

BUILTIN = Path(__file__).with_name("example.jsonl")
TARGETS = ("target", "targets")
LOOKED_AT = 200
"""Instances whose prompts `check_prompt` looks at."""


class JsonlTask:
    """Rows of a file as a benchmark: prompts by template, checks by name.

    path: ``builtin`` (a small example), or a file: .jsonl (or .jsonl.gz), .json, .yaml, .csv, .tsv.
    prompt: a template of the user's turn over the row's fields; null where rows have prompts.
    system: a template of the system message.
    extract: where the answer is in a text: {regex: ...}, {number: last} or {json: key}; null for
        all of it.
    checks: checkers and judges by name, with options.
    gold: a template of a right answer, for shots and simulated runs (target is the first of
        several there); null for one that is made from target, where that passes.
    groups: fields of the rows that results are broken down by.
    preset: gsm8k or shuffled_objects: prompt, extract and checks for rows of that form.
    on_truncated: whether answers that are cut off fail or are graded (fail, grade).

    judges: of the run, each with whether it decides on criteria; None where nobody knows.
    panels: of the run, each with its judges: a check may name them all by their panel.
    """

    def __init__(
        self,
        path: str = "builtin",
        prompt: str | None = None,
        system: str | None = None,
        extract: dict[str, Any] | None = None,
        checks: list[Any] | None = None,
        gold: str | None = None,
        groups: list[str] | None = None,
        preset: Literal["gsm8k", "shuffled_objects"] | None = None,
        on_truncated: Literal["fail", "grade"] = "fail",
        *,
        data: DataFolder,
        judges: Mapping[str, bool] | None = None,
        panels: Mapping[str, Sequence[str]] | None = None,
    ) -> None:
        self.on_truncated: Literal["fail", "grade"] = on_truncated
        known = PRESETS[preset] if preset else None
        if known is not None:
            prompt = prompt or known.prompt
            extract = extract or dict(known.extract)
            checks = checks or list(known.checks)
            gold = gold or known.gold
        self.path = BUILTIN if path == "builtin" else data.file(path)
        self._judge: str | None = None
        self._checks = Checks(
            checks or [], data, judges, lambda: (r for _, r in rows(self.path)), panels
        )
        self._extraction = None if extract is None else extraction(extract, "task.extract")
        self._gold = None if gold is None else Template(gold, "task.gold")
        self._reader = Reader(
            self._checks,
            None if prompt is None else Template(prompt, "task.prompt"),
            None if system is None else Template(system, "task.system"),
            groups or [],
            known,
        )
        self._said = json.dumps([prompt, system, extract, checks, gold], sort_keys=True)

    def instances(self) -> Iterator[Instance[Item]]:
        """The rows in the order of the file, each with its prompt formed and its checks made.

        Raises: DataInvalid, naming file, item and field.
        """
        return self._reader.read(self.path)

    def fingerprint(self) -> Mapping[str, str]:
        """The data's hash, that of prompt and checks, and by whom patterns are matched."""
        return {
            "dataset": self.path.name,
            "dataset_sha256": self._data_hash,
            "prompt_sha256": hashlib.sha256(self._said.encode()).hexdigest(),
            "regex": version("regex"),
        }

    @cached_property
    def _data_hash(self) -> str:
        return sha256(self.path)

    def messages(
        self, instance: Instance[Item], shots: Sequence[Instance[Item]]
    ) -> tuple[Message, ...]:
        """The row's conversation."""
        if shots:
            raise ConfigError(
                "The task 'jsonl' has no form of its own for shots.",
                "Set task.shots.form to turns or message.",
            )
        return instance.data.messages

    def score(self, instance: Instance[Item], text: str) -> Mapping[str, Score]:
        """A score for each check.

        Where reading the answer takes too long, no score can be made: none passes or fails. A
        row that only judges check has no score here, and nothing is extracted for it.

        Raises: Unparseable where the answer, or a check's part of it, cannot be read.
        """
        checks = instance.data.checks.rules
        answer = text
        if self._extraction is not None and checks:
            try:
                answer = self._extraction.read(text)
            except PatternTooSlow as error:
                return {bound.name: Score(None, None, error.message) for bound in checks}
        return {
            bound.name: self._checks.checker(bound).check(
                text if bound.of == "text" else answer, instance
            )
            for bound in checks
        }

    def score_parsed(self, instance: Instance[Item], answer: str) -> Mapping[str, Score]:
        """A score for each check of the answer, without a verdict; those of the text have none."""
        scores = {
            bound.name: self._checks.checker(bound).check(answer, instance)
            for bound in instance.data.checks.rules
            if bound.of == "answer"
        }
        return {name: Score(s.value, None, s.reason, s.details) for name, s in scores.items()}

    def feedback(self, instance: Instance[Item], text: str, scores: Mapping[str, Score]) -> str:
        """The reasons of the checks that failed; those of matches tell no target."""
        failed = [score for score in scores.values() if score.passed is False]
        if not failed:
            return "That is right."
        reasons = [f"- {score.reason or 'not as asked'}" for score in failed]
        return "\n".join(["That is not right yet:", *reasons, "Please answer again."])

    def reference(self, instance: Instance[Item]) -> str | None:
        """The template's text; else the target, as it is or in the form that is extracted.

        None where none of these passes.
        """
        if self._gold is not None:
            row = instance.data.row
            return self._gold.render({**row, **{f: _first(row[f]) for f in TARGETS if f in row}})
        for text in self._candidates(instance.data.row):
            try:
                if text.strip() and verdict(self.score(instance, text)) is not False:
                    return text
            except Unparseable:
                continue
        return None

    def _candidates(self, row: Mapping[str, Any]) -> Iterator[str]:
        for field in ("gold", *TARGETS):
            value = row.get(field)
            first = _first(value)
            if not isinstance(first, str | int | float):
                continue
            target = json.dumps(first) if isinstance(first, bool) else str(first)
            yield target
            if self._extraction is not None:
                written = self._extraction.write(target)
                if written is not None:
                    yield written
            if isinstance(value, list):  # one of several is not all of them
                yield " ".join(map(str, value))

    def instruction(self, instance: Instance[Item]) -> str:
        """The row's conversation, as a judge is told it."""
        turns = instance.data.messages
        if len(turns) == 1:
            return turns[0].content
        return "\n\n".join(f"{turn.role}: {turn.content}" for turn in turns)

    def criteria(self, instance: Instance[Item]) -> Sequence[Criterion]:
        """What a row asks of judges, or of the one that sees the task so.

        Raises: DataInvalid where the row's field ``criteria`` holds none.
        """
        row, checks = instance.data.row, instance.data.checks.judges
        return [Criterion(text) for text in self._checks.judges.criteria(row, checks, self._judge)]

    def judged_by(self, instance: Instance[Item], judge: str) -> bool:
        """Whether a judge judges a row's answers: one that its checks name, or that none do."""
        return self._checks.judges.calls(instance.data.checks.judges, judge)

    def for_judge(self, judge: str) -> JsonlTask:
        """The task with the criteria of one judge."""
        view = copy.copy(self)
        view._judge = judge
        return view

    def prompt_errors(self) -> list[str]:
        """What prompts lack of the structure that is extracted, and golds that are not read."""
        if self._extraction is None:
            return []
        found: dict[str, list[str]] = {}
        for instance in islice(self.instances(), LOOKED_AT):
            turns = instance.data.messages
            shown = Shown(
                [turn.content for turn in turns if turn.role != "assistant"],
                [turn.content for turn in turns if turn.role == "assistant"],
            )
            said = faults(shown, self._extraction)
            if self._gold is not None and not self._passes(instance):
                said.append("task.gold gives an answer that does not pass.")
            for target in _texts(instance.data.row):
                read = garbled(self._extraction, target)
                if read is not None:
                    said.append(f"Of the target {target!r:.40} the parser would read {read!r:.40}.")
            for fault in said:
                found.setdefault(fault, []).append(instance.id)
        return [
            f"{fault} ({ids[0]}{f' and {len(ids) - 1} more' if len(ids) > 1 else ''})"
            for fault, ids in found.items()
        ]

    def _passes(self, instance: Instance[Item]) -> bool:
        try:
            return verdict(self.score(instance, self.reference(instance) or "")) is not False
        except Unparseable:
            return False


def _texts(row: Mapping[str, Any]) -> list[str]:
    """The right answers of a row that are texts."""
    found = next((row[field] for field in TARGETS if field in row), None)
    return [one for one in (found if isinstance(found, list) else [found]) if isinstance(one, str)]


def _first(value: Any) -> Any:
    """The first of several right answers."""
    return value[0] if isinstance(value, list) and value else value


plugin = JsonlTask
