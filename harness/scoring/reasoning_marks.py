"""The marks that models put around their reasoning.

Sources: the chat templates of the models, and the reasoning parsers of vLLM and SGLang.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from harness.errors import ConfigError, nearest

KEEP = "keep"
KNOWN = "known"  # stands for all marks of `MARKS`


@dataclass(frozen=True)
class ReasoningMark:
    """A form of reasoning: the marks around it, and those around the answer that follows.

    Args:
        name: The name in run files.
        opening: A regular expression.
        closing: A regular expression.
        spellings: Texts, in lower case. A prompt that contains one of them mentions the mark.
        hint: A text, in lower case, without which a reply does not begin inside the reasoning.
        before_answer: A regular expression for what comes between the reasoning and the answer.
        after_answer: Texts after the answer.
        inside: A regular expression that ends the reasoning of a reply that has no opening mark.
            Default: ``closing``.
        needs_closing: Whether an opening mark without a closing mark is text.
        always: Whether the mark is separated even if the prompt mentions it.
        in_answers: Whether an answer in the prompt mentions it, because prompts may ask for it.
            Other marks there are a model's own reasoning.
    """

    name: str
    opening: str
    closing: str
    spellings: tuple[str, ...]
    hint: str
    before_answer: str = ""
    after_answer: tuple[str, ...] = ()
    inside: str = ""
    needs_closing: bool = False
    always: bool = False
    in_answers: bool = False

    @cached_property
    def begins(self) -> re.Pattern[str]:
        """The compiled opening mark."""
        return re.compile(self.opening)

    @cached_property
    def marks(self) -> re.Pattern[str]:
        """Either mark. The group ``closing`` has matched if it is the closing one."""
        return re.compile(f"(?P<closing>{self.closing})|{self.opening}")

    @cached_property
    def ends_inside(self) -> re.Pattern[str]:
        """Like `marks`, for a reply that has no opening mark."""
        return re.compile(f"(?P<closing>{self.inside or self.closing})|{self.opening}")

    @cached_property
    def begins_answer(self) -> re.Pattern[str] | None:
        """The compiled ``before_answer``, if there is one."""
        return re.compile(self.before_answer) if self.before_answer else None


def _element(name: str, *, in_answers: bool = False) -> ReasoningMark:
    opening = rf"(?i:<{name}(?:\s++[\w:-]++\s*+=[^<>]*+)?\s*+>)"
    spellings = (f"<{name}>", f"</{name}>")
    closing = rf"(?i:</{name}\s*+>)"
    short = name.rpartition(":")[0] or name
    return ReasoningMark(short, opening, closing, spellings, f"</{name}", in_answers=in_answers)


def pair(name: str, opening: str, closing: str, *more: str, **parts: Any) -> ReasoningMark:
    """Return a mark that is written literally. ``more`` are the texts after the answer."""
    spellings = (opening.lower(), closing.lower())
    expressions = (re.escape(opening), re.escape(closing))
    return ReasoningMark(name, *expressions, spellings, closing.lower(), after_answer=more, **parts)


_CHANNEL = r"(?:<\|start\|>assistant)?<\|channel\|>"
_FINAL = rf"{_CHANNEL}final(?:[^<]|<\|constrain\|>){{0,40}}+<\|message\|>"

MARKS: tuple[ReasoningMark, ...] = (
    # DeepSeek R1, Qwen, GLM, MiniMax M2, OLMo, Phi, Nemotron, Granite 3.3, Kimi K2 and most others
    _element("think"),
    # written by models without reasoning tokens, after their training data or out of habit
    _element("thinking", in_answers=True),
    _element(
        "thought", in_answers=True
    ),  # EXAONE Deep, Marco-o1, Gemini's thoughts in OpenAI's protocol
    _element("reasoning", in_answers=True),
    _element("seed:think"),  # Seed-OSS
    _element("mm:think"),  # MiniMax M3
    _element("longcat_think"),  # LongCat
    pair("mistral", "[THINK]", "[/THINK]"),  # Magistral
    pair("kimi", "◁think▷", "◁/think▷"),  # Kimi-VL Thinking
    pair(
        "cohere",  # Command A Reasoning
        "<|START_THINKING|>",
        "<|END_THINKING|>",
        *("<|END_RESPONSE|>", "<|END_TEXT|>"),
        before_answer=r"<\|START_(?:RESPONSE|TEXT)\|>",
    ),
    pair(
        "thought_tokens",  # Sky-T1, OpenThinker
        "<|begin_of_thought|>",
        "<|end_of_thought|>",
        "<|end_of_solution|>",
        before_answer=r"<\|begin_of_solution\|>",
    ),
    ReasoningMark(
        "harmony",  # gpt-oss
        rf"{_CHANNEL}(?:analysis|commentary)\s*+<\|message\|>",
        rf"<\|end\|>|(?=<\|start\|>assistant)|(?={_CHANNEL}(?:analysis|commentary|final)\b)",
        ("<|channel|>",),
        "<|channel|>final",
        before_answer=_FINAL,
        after_answer=("<|return|>", "<|end|>"),
        inside=rf"(?:<\|end\|>)?{_FINAL}",
    ),
    ReasoningMark(
        "harmony",  # decoded without its special tokens
        r"analysis",
        r"assistant(?:[ \t]*\n\s{0,9}+)?final",
        ("assistantfinal",),
        "assistant",
        needs_closing=True,
    ),
    ReasoningMark(
        "ollama",  # what its command prints
        r"Thinking\.\.\.\s*+",
        r"\.\.\.done thinking\.",
        ("...done thinking.",),
        "...done thinking.",
        needs_closing=True,
    ),
    ReasoningMark(
        "gemma",  # Gemma 4
        r"<\|channel>(?:thought\b)?",
        r"<channel\|>",
        ("<|channel>", "<channel|>"),
        "<channel|>",
    ),
    ReasoningMark(
        "medgemma",
        r"<unused94>(?:thought\b)?",
        "<unused95>",
        ("<unused94>", "<unused95>"),
        "<unused95>",
    ),
    pair("pangu", "[unused16]", "[unused17]"),  # openPangu
    pair("apertus", "<|inner_prefix|>", "<|inner_suffix|>"),
    pair(
        "kimi_k3",
        "<|open|>think<|sep|>",
        "<|close|>think<|sep|>",
        *("<|close|>message<|sep|>", "<|close|>response<|sep|>"),
        before_answer=r"<\|open\|>response<\|sep\|>",
    ),
    ReasoningMark(
        "solar",  # Solar Open
        r"<\|think\|>",
        r"<\|end\|>",
        ("<|think|>",),
        "<|begin|>assistant<|content|>",
        before_answer=r"<\|begin\|>assistant<\|content\|>",
        after_answer=("<|end|>",),
        inside=r"<\|end\|><\|begin\|>assistant<\|content\|>",
    ),
    pair("solar", "<|think:start|>", "<|think:end|>"),  # Solar Open 2
)


def stated_marks(stated: Sequence[str | tuple[str, str]]) -> Iterator[ReasoningMark]:
    """Yield the marks that a run file states by name or as pairs.

    Raises:
        ConfigError: If a name is unknown.
    """
    names = [*dict.fromkeys(mark.name for mark in MARKS), KNOWN, KEEP]
    for item in stated:
        if item == KNOWN:
            yield from MARKS
        elif not isinstance(item, str):
            yield pair(item[0], item[0], item[1], always=True)
        elif item in names and item != KEEP:
            yield from (replace(mark, always=True) for mark in MARKS if mark.name == item)
        else:
            problem = f"model.reasoning: there is no mark {item!r:.60}."
            remedy = f"{nearest(item, names)} Or write the marks: [[OPENING, CLOSING]]."
            raise ConfigError(problem, remedy.lstrip())
