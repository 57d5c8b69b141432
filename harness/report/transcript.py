"""The attempts of one instance, in full, for a terminal.

Prompts, answers and feedback are data: control characters, bidi overrides and
markup in them are shown, never obeyed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.text import Text

from harness.records import Attempt, Score
from harness.report.cells import inert

if TYPE_CHECKING:
    from harness.store.judgements import Judgement  # a run without judges spares the import

STYLES = {True: ("passed", "green"), False: ("failed", "red"), None: ("not judged", "yellow")}


def inert_text(text: str) -> Text:
    """A text of several lines with nothing in it that a terminal would obey.

    >>> inert_text("a\\x1b[2J\\nb").plain
    'a\\\\x1b[2J\\nb'
    """
    shown = "".join(
        letter if letter in "\n\t" or letter.isprintable() else _escaped(letter) for letter in text
    )
    return Text(shown)


def _escaped(letter: str) -> str:
    return letter.encode("unicode_escape").decode()


def transcript(attempts: Sequence[Attempt]) -> RenderableType:
    """Prompt, rounds, verdicts, judgements and feedback of an instance's attempts."""
    parts: list[RenderableType] = []
    for attempt in sorted(attempts, key=lambda a: (a.sample, a.round)):
        parts += _attempt(attempt)
    return Group(*parts)


def _attempt(attempt: Attempt) -> Iterator[RenderableType]:
    word, style = STYLES[attempt.passed]
    groups = "  ".join(f"{label}={group}" for label, group in attempt.groups.items())
    yield Text.assemble(
        "\n",
        (inert(attempt.instance).plain, "bold"),
        f"  sample {attempt.sample}  round {attempt.round}  ",
        (f"{attempt.outcome}, {word}", style),
        (f"  {inert(groups).plain}", "dim"),
    )
    for message in attempt.request.get("messages", ()):
        yield from _block(message["role"], message["content"])
    if attempt.reasoning:
        yield from _block("reasoning", attempt.reasoning)
    if attempt.text is not None:
        yield from _block("answer", attempt.text)
    for name, score in attempt.scores.items():
        yield Text.assemble((f"{inert(name).plain}: ", "dim"), inert_text(_said(score)))
    if attempt.error:
        yield Text.assemble(("error: ", "red"), inert_text(attempt.error))
    for judgement in getattr(attempt, "judgements", ()):
        yield from _judgement(judgement)
    if attempt.feedback is not None:
        yield from _block("feedback", attempt.feedback)
    yield Text(_facts(attempt), style="dim")


def _judgement(judgement: Judgement) -> Iterator[RenderableType]:
    """What a judge replied; its scores stand with the attempt's."""
    judge = inert(judgement.judge).plain
    if judgement.outcome != "ok":
        said = f"{judgement.outcome}, no verdict"
        problem = f": {judgement.error}" if judgement.error else ""
        yield Text.assemble((f"judge {judge}: {said}", "yellow"), inert_text(problem))
    for reply in judgement.replies:
        yield from _block(f"judge {judge}", reply)


def _block(title: str, text: str) -> Iterator[RenderableType]:
    yield Text(f"{title}:", style="dim")
    yield Padding(inert_text(text), (0, 0, 0, 2))


def _said(score: Score) -> str:
    return f"{score.value}" + (f": {score.reason}" if score.reason else "")


def _facts(attempt: Attempt) -> str:
    facts: Mapping[str, object] = {
        "call": attempt.call_id,
        "finish": attempt.finish_reason,
        "tokens": attempt.usage and f"{attempt.usage.input_tokens}+{attempt.usage.output_tokens}",
        "seconds": None if attempt.latency_s is None else f"{attempt.latency_s:.2f}",
        "cached": attempt.cached or None,
    }
    return "  ".join(f"{name} {value}" for name, value in facts.items() if value is not None)
