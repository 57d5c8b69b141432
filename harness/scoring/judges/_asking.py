"""How a judge asks: a template of ours or of the user's, with what is judged between tags.

Ours are in ``prompts/judges`` and go by their names; anything with a slash in it, or that ends
in ``.jinja``, is a file of the user's.

>>> asking = Asking("coherence", {"low", "high"}, task)  # doctest: +SKIP
>>> asking.about(instance, "Snow fell.", low="1", high="10")  # doctest: +SKIP
(Message(role='user', content='Analyze the following passage, …'),)
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from harness.errors import ConfigError, DataInvalid, nearest
from harness.ports import Judged, Task
from harness.prompts import Prompt, named, read, read_file
from harness.prompts.library import ENDING
from harness.records import Decoding, Instance, Message, Origin, Request
from harness.scoring.judges._fence import TAG, fenced

FOLDER = "judges"

T = TypeVar("T")


class Asking:
    """A judge's prompt.

    prompt: a name or a path.
    fields: what the template may show besides what is judged; and ``asked``, where the task says
        what the model was asked.
    judged: what it must show, of which nobody knows what it holds.
    tells_prompt: of a task that does not say what was asked, the user's first turn is shown.

    Raises: ConfigError for a prompt that is none, or needs what is not there.
    """

    def __init__(
        self,
        prompt: str,
        fields: Collection[str],
        task: Task[Any],
        judged: Collection[str] = ("text",),
        *,
        tells_prompt: bool = False,
    ) -> None:
        ours = {name.partition("/")[2] for name in named(FOLDER)}
        if prompt in ours:
            self._prompt: Prompt = read(f"{FOLDER}/{prompt}")
        elif "/" in prompt or prompt.endswith(ENDING):
            self._prompt = read_file(Path(prompt), f"prompt ({prompt})")
        else:
            raise ConfigError(
                f"prompt: there is no judge's prompt {prompt!r}; a file's path has a slash in it.",
                nearest(prompt, ours),
            )
        self._asked: Callable[[Instance[Any]], str] | None = None
        if isinstance(task, Judged):
            self._asked = task.instruction
        if self._asked is None and tells_prompt:
            self._asked = lambda instance: task.messages(instance, ())[-1].content
        known = {*fields, *judged, "asked"}
        unknown = sorted(self._prompt.names - known)
        if unknown:
            raise ConfigError(
                f"{self._prompt.name}: there is no field {unknown[0]!r} here.",
                nearest(unknown[0], known),
            )
        for field in judged:
            if field not in self._prompt.names:
                raise ConfigError(
                    f"{self._prompt.name} has no {{{{ {field} }}}}: the answer has no place in it.",
                    "Add it.",
                )
        there = {*fields, *judged} | ({"asked"} if self._asked else set())
        try:  # before any work, and not with the first answer
            self._prompt.render(dict.fromkeys(there, ""))
        except DataInvalid as error:
            raise ConfigError(error.message, error.remedy) from None

    @property
    def sha256(self) -> str:
        """Of the template."""
        return self._prompt.sha256

    def about(self, instance: Instance[Any], text: str, **fields: Any) -> tuple[Message, ...]:
        """What to say to the judging model of an answer; further fields are shown as they are."""
        return self.of(instance, {"text": text}, **fields)

    def of(
        self, instance: Instance[Any], judged: Mapping[str, str], **fields: Any
    ) -> tuple[Message, ...]:
        """The same of answers by the names of their fields."""
        if self._asked:
            fields["asked"] = tagged(self._asked(instance), "task")
        inert = {field: fenced(text) for field, text in judged.items()}
        return (Message("user", self._prompt.render({**fields, **inert})),)


def tagged(text: str, tag: str) -> str:
    """A text between tags of its own, of which it can close neither these nor the judged text's.

    >>> tagged("Be </task> brief.", "task")
    '<task>\\nBe &lt;/task> brief.\\n</task>'
    """
    inert = re.sub(rf"<(?=\s*/?\s*(?:{tag}|{TAG}))", "&lt;", text, flags=re.IGNORECASE)
    return f"<{tag}>\n{inert}\n</{tag}>"


class Scope:
    """Which instances a judge is for: those of some groups, or all.

    where: label to group, or to several.
    """

    def __init__(self, where: Mapping[str, str | list[str]]) -> None:
        self._where = {
            label: [groups] if isinstance(groups, str) else groups
            for label, groups in where.items()
        }

    def has(self, instance: Instance[Any]) -> bool:
        """Whether an instance is one of them; one without the label is not."""
        return all(instance.groups.get(label) in groups for label, groups in self._where.items())


def samplings(
    instance: Instance[Any],
    model: str,
    messages: tuple[Message, ...],
    decoding: Decoding,
    n: int,
) -> list[Request]:
    """The same question n times, each with a sample number that makes it a call of its own."""
    origin = Origin(instance.id, 0, 1)
    return [Request(model, messages, decoding, sample, origin) for sample in range(n)]


def by_question(replies: Sequence[T], n: int) -> list[Sequence[T]]:
    """Replies by their questions, each of which was asked n times.

    >>> by_question("abcd", 2)
    ['ab', 'cd']
    """
    return [replies[start : start + n] for start in range(0, len(replies), n)]
