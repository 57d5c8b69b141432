"""Paraphrasing: a second model rewrites the user's messages, as in COLLIE's published code.

A paraphrase is used only if it is complete, and keeps those of the checker's values that occur in
the original text. (In run files and attempts the key is ``polish``.)
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal

from harness.config.run_file import RunFile
from harness.engine.models import Model, ModelBuilder
from harness.engine.session import BoundModel
from harness.errors import CallError, ConfigError, FatalCallError
from harness.ports import Task, overrides_method
from harness.prompts import read_builtin, render_conversation
from harness.records import Decoding, Instance, Origin, Request, Rewriting

DECODING = Decoding(temperature=0.0, max_tokens=2000)


def keeps(text: str, values: Iterable[str]) -> bool:
    """Return whether a string contains every value.

    >>> keeps("at least 11 letters", ["11"]), keeps("at least 110 letters", ["11"])
    (True, False)
    """
    for value in values:
        found = value in text
        if value.isdecimal():
            found = re.search(rf"(?<!\d){value}(?!\d)", text) is not None
        if not found:
            return False
    return True


def build_paraphraser(run: RunFile, builder: ModelBuilder) -> ParaphraserModel:
    """Build the model of a run file's section ``polish``.

    Raises:
        ConfigError: If the task's prompts cannot be paraphrased, or the model has no name.
    """
    section = run.polish
    task = builder.task
    assert section is not None
    if task is None or not overrides_method(task, Task.must_keep):
        problem = f"The task {run.task.name!r} does not support paraphrasing (polish)."
        raise ConfigError(problem, "Remove polish from the run file.")
    if not section.name:
        raise ConfigError("polish.name is missing.", "Name the model that rewrites.")
    return ParaphraserModel(task, builder.build(section, "polish"), section.prompt)


@dataclass(frozen=True)
class ParaphraserModel:
    """The model that paraphrases the prompts of a task, before a run binds it to its calls."""

    task: Task[Any]
    model: Model
    prompt: str

    def rewriter(self, bound: BoundModel) -> Paraphraser:
        """Return what rewrites, given the model with its call stack."""
        return Paraphraser(self.task, bound, self.prompt)


class Paraphraser:
    """A second model that rewrites instructions and feedback."""

    def __init__(self, task: Task[Any], bound: BoundModel, prompt: str = "own") -> None:
        self._task = task
        self._prompt = read_builtin(f"polish/{prompt}")
        self._bound = bound
        remedy = "Choose another model."
        self._decoding = bound.model.supported_decoding(DECODING, "Paraphrasing", remedy)

    async def rewrite(
        self,
        text: str,
        kind: Literal["instruction", "feedback"],
        instance: Instance[Any],
        origin: Origin,
    ) -> tuple[str, Rewriting]:
        """Return the paraphrase, or else the original text, and a record of the call.

        Raises:
            FatalCallError: If the call fails in a way that ends the run.
        """
        messages = render_conversation(self._prompt, {"text": text})
        request = Request(self._bound.model.section.name, messages, self._decoding, 0, origin)
        try:
            call = await self._bound.call(request)
        except FatalCallError:
            raise
        except CallError as error:
            return text, Rewriting(kind, False, error=f"{type(error).__name__}: {error}")
        reply = call.reply
        rewritten = reply.text.strip()
        values = [value for value in self._task.must_keep(instance) or () if keeps(text, [value])]
        used = bool(rewritten) and reply.finish_reason == "stop" and keeps(rewritten, values)
        cost = self._bound.model.cost(reply)
        rewriting = Rewriting(kind, used, call.id, reply.usage, cost, call.cached)
        return rewritten if used else text, rewriting
