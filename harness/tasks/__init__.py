"""A benchmark made from your own file of rows, without Python code (docs/jsonl.md)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, TypeAlias, cast

from harness.datasets.folder import DataFolder
from harness.datasets.rows import Row, RowFile
from harness.plugin_loader import Kind
from harness.tasks.items import QuestionForm, RowPreset
from harness.tasks.rows_task import RowsTask

EXAMPLE = Path(__file__).with_name("example.jsonl")

Preset: TypeAlias = Literal["gsm8k", "gsm8k_json", "shuffled_objects", "shuffled_objects_json"]


class JsonlTask(RowsTask):
    """A benchmark made from a file of rows, with a prompt template and named checks.

    Args:
        path: ``builtin`` (a small example; one of multiple choice with the option choices), or a
            file: .jsonl (or .ndjson), .json, .yaml, .csv, .tsv, .xlsx or .parquet.
        prompt: A template of the user's message, with the row's fields; null if rows have prompts.
        system: A template of the system message.
        extract: How to find the answer in a reply: {regex: ...}, {number: last} or {json: key};
            null for the whole reply.
        checks: Checkers and judges by name, with options; one name alone needs no list.
        gold: A template of a correct answer, for shots and simulated runs. If a row has several
            targets, the field target stands for the first. null uses the row's gold or target, in
            the form that extract reads, if it passes.
        groups: Fields of the rows by which to break down results.
        preset: gsm8k, gsm8k_json, shuffled_objects or shuffled_objects_json. Sets prompt, extract,
            checks and gold for rows of that data set, unless they are given. With _json, answers
            are JSON.
        on_truncated: Whether truncated answers fail or are graded (fail, grade).
        feedback: A template of the message after an answer that failed, with the row's fields and
            the list of reasons; null for the harness's own wording.
        choices: Multiple choice over the rows' field choices: {by: letter, letter_logprob or
            choice_logprob, shuffle: a seed}. The default is {by: letter} if rows have choices and
            there is no prompt.
        user: The user whom a model plays after the first turn: {goal: a template, persona: a
            template, max_turns: N}. Rows may have their own ``user``.
    """

    def __init__(
        self,
        path: str = "builtin",
        prompt: str | None = None,
        system: str | None = None,
        extract: dict[str, Any] | None = None,
        checks: list[Any] | str | None = None,
        gold: str | None = None,
        groups: list[str] | None = None,
        preset: Preset | None = None,
        on_truncated: Literal["fail", "grade"] = "fail",
        feedback: str | None = None,
        choices: QuestionForm | None = None,
        user: dict[str, Any] | None = None,
        *,
        data: DataFolder,
        judges: Mapping[str, bool] | None = None,
        panels: Mapping[str, Sequence[str]] | None = None,
    ) -> None:
        defaults: Mapping[str, Any] = {}
        adapt: Callable[[Row], Row] | None = None
        if preset:
            defaults, adapt = cast("RowPreset", Kind("row_presets").load(preset))
        builtin = choices.example if choices else EXAMPLE
        super().__init__(
            RowFile(builtin if path == "builtin" else data.file(path)),
            data,
            prompt=prompt or defaults.get("prompt"),
            system=system or defaults.get("system"),
            extract=extract or defaults.get("extract"),
            checks=checks or defaults.get("checks"),
            gold=gold or defaults.get("gold"),
            groups=groups,
            on_truncated=on_truncated,
            feedback=feedback,
            choices=choices,
            user=user,
            judges=judges,
            panels=panels,
            adapt=adapt,
        )
