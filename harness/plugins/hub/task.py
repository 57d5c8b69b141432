"""A benchmark made from a data set on the Hugging Face Hub, or from its files (docs/hub.md)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from harness.datasets.folder import DataFolder
from harness.datasets.hub import HubDataset
from harness.tasks.jsonl.choices import MultipleChoice
from harness.tasks.jsonl.rows_task import RowsTask


class HubTask(RowsTask):
    """A benchmark made from a data set on the Hugging Face Hub, or from a folder of its files.

    Args:
        dataset: OWNER/NAME on the Hub; or a folder or file: Parquet, Arrow, JSONL or CSV.
        subset: The data set's configuration, if it has several.
        split: The split (default: the only one, or test).
        revision: A commit, tag or branch of the data set; null for the main branch.
        columns: For the fields prompt, messages, target, criteria, id, cluster and gold: a column,
            as {target: answer}, or a template.
        streaming: Whether to read rows over the network instead of downloading the data set.
        prompt: A template of the user's message, with the row's columns; null if rows have prompts.
        system: A template of the system message.
        extract: How to find the answer in a reply: {regex: ...}, {number: last} or {json: key};
            null for the whole reply.
        checks: Checkers and judges by name, with options; one name alone needs no list.
        gold: A template of a correct answer, for shots and simulated runs (default: the target).
        groups: Columns by which to break down results.
        on_truncated: Whether truncated answers fail or are graded (fail, grade).
        feedback: A template of the message after an answer that failed, with the row's columns and
            the list of reasons; null for the harness's own wording.
        choices: Multiple choice over the column choices: {by: letter, letter_logprob or
            choice_logprob, shuffle: a seed}. The default is {by: letter} if there are choices and
            no prompt.
        user: The user whom a model plays after the first turn: {goal: a template, persona: a
            template, max_turns: N}.
    """

    def __init__(
        self,
        dataset: str,
        subset: str | None = None,
        split: str | None = None,
        revision: str | None = None,
        columns: dict[str, str] | None = None,
        streaming: bool = False,
        prompt: str | None = None,
        system: str | None = None,
        extract: dict[str, Any] | None = None,
        checks: list[Any] | str | None = None,
        gold: str | None = None,
        groups: list[str] | None = None,
        on_truncated: Literal["fail", "grade"] = "fail",
        feedback: str | None = None,
        choices: MultipleChoice | None = None,
        user: dict[str, Any] | None = None,
        *,
        data: DataFolder,
        judges: Mapping[str, bool] | None = None,
        panels: Mapping[str, Sequence[str]] | None = None,
    ) -> None:
        super().__init__(
            HubDataset(data.own(dataset), subset, split, revision, streaming, columns or {}),
            data,
            prompt=prompt,
            system=system,
            extract=extract,
            checks=checks,
            gold=gold,
            groups=groups,
            on_truncated=on_truncated,
            feedback=feedback,
            choices=choices,
            user=user,
            judges=judges,
            panels=panels,
        )
