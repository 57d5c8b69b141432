"""What a model thinks before it answers, and in which form it is told.

A server tells it in one form; a wire format that has no such form keeps the
text to itself and only counts the tokens, as OpenAI's own models do.

>>> inline(Choice("Blue.", reasoning="Sky or sea?"))
'<think>\\nSky or sea?\\n</think>\\n\\nBlue.'
"""

from __future__ import annotations

from enum import StrEnum

from harness.mock.errors import MockError
from harness.mock.wire import Ask, Choice, tokens


class Reasoning(StrEnum):
    """A form; the value is the name that users write.

    think: ``<think>…</think>`` before the answer, in the same text.
    field: ``reasoning_content`` and ``reasoning`` beside a chat message's content.
    blocks: Anthropic's ``thinking`` blocks.
    """

    THINK = "think"
    FIELD = "field"
    BLOCKS = "blocks"

    @classmethod
    def of(cls, name: str | None) -> Reasoning | None:
        """Read a form by its name. Raises: MockError."""
        try:
            return None if name is None else cls(name)
        except ValueError:
            forms = ", ".join(cls)
            raise MockError(f"Not a form of reasoning: {name!r}. Forms: {forms}.") from None


def thought(ask: Ask, index: int) -> str:
    """What is thought before the n-th choice: differs for each, and holds no answer."""
    return (
        f"Let me think about request {ask.digest}, choice {index}. "
        "A first draft would be: nothing at all. That does not answer it, so try again."
    )


def endless(ask: Ask) -> Choice:
    """Reasoning that took all the tokens there were, so that nothing is left to say."""
    text = thought(ask, 0)
    spent = tokens(text) if ask.max_tokens is None else ask.max_tokens
    return Choice("", "length", reasoning=text, reasoning_tokens=spent)


def inline(choice: Choice) -> str:
    """Reasoning and answer as one text; left open where the answer was not reached."""
    if not choice.reasoning:
        return choice.text
    if choice.finish == "length" and not choice.text:
        return f"<think>\n{choice.reasoning}"
    return f"<think>\n{choice.reasoning}\n</think>\n\n{choice.text}"
