"""Separates a model's reasoning from its answer, by the marks that models put around it.

A reply is separated if it begins with a mark, after white space, or if it begins inside
the reasoning, because the chat template has put the opening mark into the prompt: it then has only
the closing mark. Several blocks in a row are all reasoning, and nested blocks belong to the outer
one. If a reply's first block is not closed by its own mark, the closing mark of another kind ends
it. Reasoning that is never closed leaves no answer. Marks in the middle of an answer, in a code
block or in quotation marks are text. So is a closing mark that the text mentions: one in emphasis,
in brackets, in a list's item or in the middle of a sentence. In reasoning with an opening mark, it
is text only if another closing mark follows.

All functions take linear time.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from pathlib import Path
from typing import Any, Literal, NamedTuple

import msgspec

from harness.errors import ConfigError, suggest_name

KEEP = "keep"
ALL_MARKS = "known"  # stands for all marks of `KNOWN_MARKS`


@dataclass(frozen=True)
class ReasoningMark:
    """Marks around reasoning, and around the answer that follows.

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


def _literal_fields(opening: str, closing: str) -> dict[str, Any]:
    """Return the fields of a mark that is written literally."""
    return {
        "opening": re.escape(opening),
        "closing": re.escape(closing),
        "spellings": (opening.lower(), closing.lower()),
        "hint": closing.lower(),
    }


def _element_mark(name: str, *, in_answers: bool = False) -> ReasoningMark:
    return ReasoningMark(
        name=name.rpartition(":")[0] or name,
        opening=rf"(?i:<{name}(?:\s++[\w:-]++\s*+=[^<>]*+)?\s*+>)",
        closing=rf"(?i:</{name}\s*+>)",
        spellings=(f"<{name}>", f"</{name}>"),
        hint=f"</{name}",
        in_answers=in_answers,
    )


def _read_listed_marks() -> Iterator[ReasoningMark]:
    listed = Path(__file__).with_name("reasoning_marks.toml").read_text("utf-8")
    for fields in tomllib.loads(listed)["mark"]:
        if "pair" in fields:
            fields |= _literal_fields(*fields.pop("pair"))
        yield msgspec.convert(fields, ReasoningMark)


KNOWN_MARKS: tuple[ReasoningMark, ...] = (
    # DeepSeek R1, Qwen, GLM, MiniMax M2, OLMo, Phi, Nemotron, Granite 3.3, Kimi K2 and most others
    _element_mark("think"),
    # written by models without reasoning tokens, after their training data or out of habit
    _element_mark("thinking", in_answers=True),
    # EXAONE Deep, Marco-o1, Gemini's thoughts in OpenAI's protocol
    _element_mark("thought", in_answers=True),
    _element_mark("reasoning", in_answers=True),
    _element_mark("seed:think"),  # Seed-OSS
    _element_mark("mm:think"),  # MiniMax M3
    _element_mark("longcat_think"),  # LongCat
    *_read_listed_marks(),
)


def parse_marks(stated: Sequence[str | tuple[str, str]]) -> Iterator[ReasoningMark]:
    """Yield the marks of a run file's ``model.reasoning``, which are names or pairs.

    Raises:
        ConfigError: If a name is unknown.
    """
    names = [*dict.fromkeys(mark.name for mark in KNOWN_MARKS), ALL_MARKS, KEEP]
    for entry in stated:
        if entry == ALL_MARKS:
            yield from KNOWN_MARKS
        elif not isinstance(entry, str):
            yield ReasoningMark(name=entry[0], always=True, **_literal_fields(*entry))
        elif entry in names and entry != KEEP:
            yield from (replace(mark, always=True) for mark in KNOWN_MARKS if mark.name == entry)
        else:
            problem = f"model.reasoning: there is no mark {entry!r:.60}."
            remedy = f"{suggest_name(entry, names)} Or write the marks: [[OPENING, CLOSING]]."
            raise ConfigError(problem, remedy.lstrip())


_IGNORED_SPACE = re.compile(r"[\s\ufeff\u200b]*+")
_BLANK_LINES = re.compile(r"\A(?:[ \t]*+\r?\n)*+")
_QUOTES = frozenset("`'\"\u2018\u2019\u201c\u201d")
_FENCE = "```"
_MENTION_CONTEXT_CHARS = 100  # on each side of a closing mark, to recognise a mention of it
_MENTION_BEFORE = re.compile(  # matches the beginning of the line
    r"[ \t]*(?:[-+*•>|#]+|\d{1,9}[.)])[ \t]*"  # an item, a heading or a cell
    r"|.*\b(?:tag|mark|marker|token|element|delimiter)s?(?:[ ]is|[ ]are)?:?[ \t]+",
    re.IGNORECASE,
)
_MENTION_AFTER = re.compile(r"[,:;.?!)\]}](?:\s|\Z)|['\u2019]s\b|-[a-z]")
_WRAPPERS = (  # what a mention has before and after it
    (re.compile(r"(?:.*[\s(\[\"'>|])?[*_~]{1,3}"), re.compile(r"[*_~]{1,3}+(?!\w)")),
    (re.compile(r".*[(\[{]"), re.compile(r"[)\]}]")),
    (re.compile(r".*<[a-zA-Z]\w{0,20}>"), re.compile(r"</")),
    (re.compile(r".*\|[ \t]*"), re.compile(r"[ \t]*\|")),
    (re.compile(r".*[\w,][ \t]+"), re.compile(r"[ \t]+[a-z]")),
)
_TOOL_CALLS_START = '{"text": '  # the start of an answer that calls tools, in JSON
_GROUP_NAME = re.compile(r"\?p?<\w+>")  # the name of a group, in a regular expression in lower case


class SeparatedReply(NamedTuple):
    """A reply, separated into its answer and its reasoning."""

    answer: str
    reasoning: str | None  # None if the reply has no mark


class Prompt(NamedTuple):
    """The parts of a reply's request that may mention marks."""

    texts: Sequence[str] = ()  # of messages whose mentions of a mark count
    decoding: Mapping[str, Any] = {}  # `Decoding.given`
    turns: Sequence[str] = ()  # of the user, after the model's answers, which they may quote
    answers: Sequence[str] = ()  # of the model, in earlier rounds
    examples: Sequence[str] = ()  # answers in the prompt: shots, or a scripted conversation

    def mentions(
        self, spellings: Collection[str], name: str = "", *, in_answers: bool = True
    ) -> bool:
        """Return whether the prompt mentions a mark, ignoring case.

        An opening mark at the very end of the prompt begins the reply, and is no mention. A turn
        after an answer with the same mark may quote it, and does not count.

        Args:
            spellings: The texts of the mark, in lower case.
            name: The name of an element, which a constraint may mention, as in ``<(think|plan)>``.
            in_answers: Whether mentions in `examples` count.
        """
        texts = [text.lower() for text in self.texts]
        if in_answers:
            texts = [example.lower() for example in self.examples] + texts
        answers = [answer.lower() for answer in self.answers]
        if not _contains_any(answers, spellings):
            texts += [turn.lower() for turn in self.turns]
        if texts:
            last = texts[-1].rstrip()
            for mark in spellings:
                if last.endswith(("\n" + mark, ">" + mark)):
                    texts[-1] = last.removesuffix(mark)
        parameters = {
            key: self.decoding[key] for key in ("constraint", "extra") if key in self.decoding
        }
        if parameters:
            text = json.dumps(parameters, ensure_ascii=False).replace("\\", "").lower()
            texts.append(_GROUP_NAME.sub("", text))
            if name and re.search(rf"<[^<>]{{0,40}}\b{re.escape(name)}\b", texts[-1]):
                return True
        return _contains_any(texts, spellings)


def _contains_any(texts: Sequence[str], spellings: Collection[str]) -> bool:
    return any(spelling in text for text in texts for spelling in spellings)


EMPTY_PROMPT = Prompt()


class Reasoning:
    """Separates replies at the marks of a model's section of the run file.

    Args:
        stated: The value of ``model.reasoning``: None for all known marks, ``keep`` for none, or a
            list of names and of pairs (opening, closing).

    Raises:
        ConfigError: If a name is unknown.
    """

    def __init__(
        self, stated: Literal["keep"] | Sequence[str | tuple[str, str]] | None = None
    ) -> None:
        self.is_kept = stated == KEEP
        self.marks: tuple[ReasoningMark, ...] = ()
        if not self.is_kept:
            self.marks = tuple(parse_marks((ALL_MARKS,) if stated is None else stated))

    @cached_property
    def _starts(self) -> re.Pattern[str]:
        """An expression for the marks, known or not, with which a reply may begin."""
        starts = {_UNKNOWN_MARK.pattern, *(mark.opening for mark in self.marks)}
        starts |= {mark.before_answer for mark in self.marks if mark.before_answer}
        alternatives = "|".join(f"(?:{start})" for start in sorted(starts))
        return re.compile(f"(?:{_IGNORED_SPACE.pattern})(?:{alternatives})")

    @cached_property
    def _hints(self) -> frozenset[str]:
        return frozenset(mark.hint for mark in self.marks if not mark.needs_closing)

    def may_have_marks(self, text: str) -> bool:
        """Return whether a reply may have marks, known or not. Much faster than `separate`."""
        if self.is_kept:
            return False
        if text.startswith(_TOOL_CALLS_START) or self._starts.match(text):
            return True
        lowered = text.lower()
        for hint in self._hints:  # noqa: SIM110 - a fifth of the time of any()
            if hint in lowered:
                return True
        return False

    def separate(self, text: str, prompt: Prompt = EMPTY_PROMPT) -> SeparatedReply:
        """Separate a reply into its answer and its reasoning.

        Args:
            text: The text of the reply. If it calls tools, it is JSON, with its text in ``text``.
            prompt: The prompt, which may mention marks.
        """
        if text.startswith(_TOOL_CALLS_START) and '"tool_calls": [' in text:
            return self._separate_tool_calls(text, prompt)

        @cache
        def is_usable(mark: ReasoningMark) -> bool:
            return mark.always or not prompt.mentions(
                mark.spellings, mark.name, in_answers=mark.in_answers
            )

        return _separate(text, self.marks, is_usable)

    def _separate_tool_calls(self, text: str, prompt: Prompt) -> SeparatedReply:
        without_marks = SeparatedReply(text, None)
        try:
            tree = json.loads(text)
        except (ValueError, RecursionError):
            return without_marks
        if not isinstance(tree.get("text"), str):
            return without_marks
        answer, reasoning = self.separate(tree["text"], prompt)
        if reasoning is None:
            return without_marks
        message = {"tool_calls": tree["tool_calls"]}
        if answer:
            message = {"text": answer, **message}
        return SeparatedReply(json.dumps(message, ensure_ascii=False), reasoning)

    def unknown_mark(self, answer: str, prompt: Prompt = EMPTY_PROMPT) -> str | None:
        """Return the unknown mark at the beginning of an answer, if it may begin reasoning.

        An element counts if text follows it, unless it is one of HTML or of an answer, or the same
        element occurs again, as in markup. An element that says that it is reasoning also counts if
        it is not closed.
        """
        if self.is_kept:
            return None
        match = _UNKNOWN_MARK.match(answer, _skip_space(answer, 0))
        if match is None:
            return None
        mark = match[0]
        element = match["element"]
        if element:
            mark = f"<{element}>"  # without attributes
        name = element or match["label"]
        if name:
            _, closing, after = answer[match.end() :].rpartition(closing_mark(mark))
            if closing and not after.strip():
                return None
            if not _REASONING_WORDS.search(match[0]):
                if not closing:
                    return None
                if not _is_unknown_element(name, after):
                    return None
        return None if prompt.mentions([mark.lower()]) else mark


def closing_mark(mark: str) -> str:
    """Return the usual closing mark of an unknown mark, or "CLOSING" if there is none."""
    if not mark.startswith("<|"):
        return mark[0] + "/" + mark[1:]
    for opening, closing in (("begin", "end"), ("start", "end"), ("START", "END")):
        if opening in mark:
            return mark.replace(opening, closing, 1)
    return "CLOSING"


_UNKNOWN_MARK = re.compile(
    r"<\|[\w:/ -]{1,40}\|?>"
    r"|<(?P<element>[a-zA-Z][\w:.-]{0,40})(?:\s[^<>]{0,200})?>"
    r"|\[(?P<label>[A-Z][A-Z_ ]{2,30})\]"
    r"|◁\w{1,40}▷|<unused\d{1,5}>"
)
_REASONING_WORDS = re.compile(
    r"think|thought|reason|rationale|scratch|monologue|reflect|deliberat|introspect|brainstorm"
    r"|analysis|critique|\b(?:cot|plan|draft)\b",
    re.IGNORECASE,
)


_ANSWER_ELEMENTS = ("answer", "final_answer", "final", "response", "output", "result", "solution")
_HTML_NAMES = """
    a abbr address article aside audio b blockquote body br button canvas caption center cite code
    col dd del details dfn div dl dt em embed fieldset figcaption figure font footer form g h1 h2 h3
    h4 h5 h6 head header hr html i iframe img input ins kbd label legend li link main map mark math
    menu meta nav ol option p path pre q s samp script section select small span strike strong style
    sub summary sup svg table tbody td template text textarea tfoot th thead time title tr u ul var
    video
"""
_HTML_ELEMENTS = frozenset(_HTML_NAMES.split())


def _is_unknown_element(name: str, after: str) -> bool:
    """Return whether an element is neither markup nor an answer, by its name and what follows."""
    name = name.lower()
    if name in _HTML_ELEMENTS or name in _ANSWER_ELEMENTS or f"<{name}" in after.lower():
        return False
    next_element = _ELEMENT.match(after)
    return next_element is None or next_element[1].lower() in _ANSWER_ELEMENTS


_ELEMENT = re.compile(r"\s*<([A-Za-z][\w.-]*)")


class _Block(NamedTuple):
    """A block of reasoning in a text, by offsets."""

    mark: ReasoningMark
    start: int  # of its content
    end: int  # of its content
    next_start: int  # of the text after its closing mark


_ALL_REASONING = Reasoning()


def without_reasoning(text: str) -> str:
    """Return a text without reasoning in known marks, even if its prompt asks for such marks.

    An answer is never read from reasoning.
    """
    return _ALL_REASONING.separate(text).answer


def _separate(
    text: str, marks: Sequence[ReasoningMark], is_usable: Callable[[ReasoningMark], bool]
) -> SeparatedReply:
    start = _skip_space(text, 0)
    block = _find_block(text, start, marks, is_usable) or _find_unopened_block(
        text, start, marks, is_usable
    )
    if block is None:
        for mark in marks:
            if _match_answer_start(mark, text, start) and is_usable(mark):
                return SeparatedReply(_strip_answer_marks(text, mark), "")
        return SeparatedReply(text, None)
    contents: list[str] = []
    while block is not None:
        last = block
        contents.append(text[last.start : last.end].strip())
        block = _find_block(
            text, _skip_space(text, last.next_start), marks, is_usable, nested=False
        )
    answer = _strip_answer_marks(_strip_leading_blank_lines(text[last.next_start :]), last.mark)
    return SeparatedReply(answer, "\n\n".join(filter(None, contents)))


def _find_block(
    text: str,
    offset: int,
    marks: Sequence[ReasoningMark],
    is_usable: Callable[[ReasoningMark], bool],
    *,
    nested: bool = True,
) -> _Block | None:
    """Return the block that begins at an offset. If it is never closed, it ends with the text.

    Without ``nested``, its first closing mark ends it: finding the end of nested blocks may read
    the whole text, so it is done for a reply's first block only.
    """
    for mark in marks:
        opened = mark.begins.match(text, offset)
        if opened is None:
            continue
        start = opened.end()
        closed = None
        if nested:  # a mention is skipped if another mark ends the block
            closed = _find_closing(mark.marks, text, start, prose=True)
            closed = closed or _find_closing(mark.marks, text, start)
        closed = closed or _find_closing(mark.marks, text, start, balanced=False)
        if (closed is None and mark.needs_closing) or not is_usable(mark):
            continue
        if closed is None:
            # Some models close their reasoning with the mark of another kind.
            block = _find_unopened_block(text, start, marks, is_usable) if nested else None
            return block or _Block(mark, start, len(text), len(text))
        return _Block(mark, start, closed.start(), closed.end())
    return None


def _find_unopened_block(
    text: str,
    offset: int,
    marks: Sequence[ReasoningMark],
    is_usable: Callable[[ReasoningMark], bool],
) -> _Block | None:
    """Return the block of a text that lacks an opening mark, or None if it has no closing mark.

    The block begins at ``offset``, and ends at the earliest closing mark.
    """
    lowered = text.lower()
    first: _Block | None = None
    for mark in marks:
        if mark.needs_closing or mark.hint not in lowered:
            continue
        closed = _find_closing(mark.ends_inside, text, offset, prose=True)
        if closed and (first is None or closed.start() < first.end) and is_usable(mark):
            first = _Block(mark, offset, closed.start(), closed.end())
    return first


def _find_closing(
    marks: re.Pattern[str], text: str, start: int, *, balanced: bool = True, prose: bool = False
) -> re.Match[str] | None:
    """Return the closing mark of a block, or None. Marks in quotation marks are text.

    Args:
        marks: An expression for both marks.
        text: The text.
        start: The offset of the block's content.
        balanced: Whether to find the end of the outer block if blocks are nested. Otherwise, the
            first closing mark is returned.
        prose: Whether marks in code and mentions are text, too.
    """
    depth = 1
    previous = start
    fences = 0
    ticks = 0  # on the current line
    last_fence = text.rfind(_FENCE) if prose else -1
    for mark in marks.finditer(text, start):
        if _is_quoted(text, mark):
            continue
        if prose:
            between = text[previous : mark.start()]
            fences += between.count(_FENCE)
            _, line_break, line = between.rpartition("\n")
            ticks = line.count("`") + (0 if line_break else ticks)
            previous = mark.start()
            in_block = fences % 2 == 1 and last_fence >= previous
            if in_block or ticks % 2 == 1:
                continue
            if mark["closing"] is not None and _is_mentioned(text, mark):
                continue
        depth += -1 if mark["closing"] is not None else 1
        if depth == 0 or (mark["closing"] is not None and not balanced):
            return mark
    return None


def _is_quoted(text: str, mark: re.Match[str]) -> bool:
    before = text[mark.start() - 1 : mark.start()]
    after = text[mark.end() : mark.end() + 1]
    return before in _QUOTES and after in _QUOTES


def _is_mentioned(text: str, mark: re.Match[str]) -> bool:
    """Return whether a text mentions a closing mark, instead of ending its reasoning with it.

    A mark after which the line breaks ends the reasoning, and so does one after a sentence.
    """
    start = mark.start()
    before = text[max(0, start - _MENTION_CONTEXT_CHARS) : start].rpartition("\n")[2]
    after = text[mark.end() : mark.end() + _MENTION_CONTEXT_CHARS]
    if _MENTION_BEFORE.fullmatch(before) or _MENTION_AFTER.match(after):
        return True
    return any(left.fullmatch(before) and right.match(after) for left, right in _WRAPPERS)


def _match_answer_start(mark: ReasoningMark, text: str, offset: int) -> re.Match[str] | None:
    return mark.begins_answer and mark.begins_answer.match(text, offset)


def _strip_answer_marks(answer: str, mark: ReasoningMark) -> str:
    """Return an answer without the marks before and after it that go with its reasoning."""
    begins = _match_answer_start(mark, answer, _skip_space(answer, 0))
    if begins:
        answer = _strip_leading_blank_lines(answer[begins.end() :])
    for text in mark.after_answer:
        stripped = answer.rstrip()
        if stripped.endswith(text):
            answer = stripped.removesuffix(text)
    return answer


def _strip_leading_blank_lines(text: str) -> str:
    return _BLANK_LINES.sub("", text)


def _skip_space(text: str, offset: int) -> int:
    return _IGNORED_SPACE.match(text, offset).end()  # type: ignore[union-attr]
