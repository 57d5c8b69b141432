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


def _literal(opening: str, closing: str) -> dict[str, Any]:
    """Return the fields of a mark that is written literally."""
    return {
        "opening": re.escape(opening),
        "closing": re.escape(closing),
        "spellings": (opening.lower(), closing.lower()),
        "hint": closing.lower(),
    }


def _element(name: str, *, in_answers: bool = False) -> ReasoningMark:
    return ReasoningMark(
        name=name.rpartition(":")[0] or name,
        opening=rf"(?i:<{name}(?:\s++[\w:-]++\s*+=[^<>]*+)?\s*+>)",
        closing=rf"(?i:</{name}\s*+>)",
        spellings=(f"<{name}>", f"</{name}>"),
        hint=f"</{name}",
        in_answers=in_answers,
    )


def _listed_marks() -> Iterator[ReasoningMark]:
    listed = Path(__file__).with_name("reasoning_marks.toml").read_text("utf-8")
    for fields in tomllib.loads(listed)["mark"]:
        if "pair" in fields:
            fields |= _literal(*fields.pop("pair"))
        yield msgspec.convert(fields, ReasoningMark)


MARKS: tuple[ReasoningMark, ...] = (
    # DeepSeek R1, Qwen, GLM, MiniMax M2, OLMo, Phi, Nemotron, Granite 3.3, Kimi K2 and most others
    _element("think"),
    # written by models without reasoning tokens, after their training data or out of habit
    _element("thinking", in_answers=True),
    # EXAONE Deep, Marco-o1, Gemini's thoughts in OpenAI's protocol
    _element("thought", in_answers=True),
    _element("reasoning", in_answers=True),
    _element("seed:think"),  # Seed-OSS
    _element("mm:think"),  # MiniMax M3
    _element("longcat_think"),  # LongCat
    *_listed_marks(),
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
            yield ReasoningMark(name=item[0], always=True, **_literal(*item))
        elif item in names and item != KEEP:
            yield from (replace(mark, always=True) for mark in MARKS if mark.name == item)
        else:
            problem = f"model.reasoning: there is no mark {item!r:.60}."
            remedy = f"{suggest_name(item, names)} Or write the marks: [[OPENING, CLOSING]]."
            raise ConfigError(problem, remedy.lstrip())


_IGNORED = re.compile(r"[\s\ufeff\u200b]*+")
_BLANK_LINES = re.compile(r"\A(?:[ \t]*+\r?\n)*+")
_QUOTES = frozenset("`'\"\u2018\u2019\u201c\u201d")
_FENCE = "```"
_MENTION = 100  # characters before and after a lone closing mark that show whether it is a mention
_MENTION_BEFORE = re.compile(  # matches the beginning of the line
    r"[ \t]*(?:[-+*•>|#]+|\d{1,9}[.)])[ \t]*"  # an item, a heading or a cell
    r"|.*\b(?:tag|mark|marker|token|element|delimiter)s?(?:[ ]is|[ ]are)?:?[ \t]+",
    re.IGNORECASE,
)
_MENTION_AFTER = re.compile(r"[,:;.?!)\]}](?:\s|\Z)|['\u2019]s\b|-[a-z]")
_WRAPPED = (  # what a mention has before and after it
    (re.compile(r"(?:.*[\s(\[\"'>|])?[*_~]{1,3}"), re.compile(r"[*_~]{1,3}+(?!\w)")),
    (re.compile(r".*[(\[{]"), re.compile(r"[)\]}]")),
    (re.compile(r".*<[a-zA-Z]\w{0,20}>"), re.compile(r"</")),
    (re.compile(r".*\|[ \t]*"), re.compile(r"[ \t]*\|")),
    (re.compile(r".*[\w,][ \t]+"), re.compile(r"[ \t]+[a-z]")),
)
_TOOL_CALLS = '{"text": '  # the start of an answer that calls tools, in JSON
_GROUP = re.compile(r"\?p?<\w+>")  # the name of a group, in a regular expression in lower case


class Separated(NamedTuple):
    """A reply's answer and reasoning (None: no mark was found)."""

    answer: str
    reasoning: str | None


class Prompt(NamedTuple):
    """What a reply's request says: its texts, and its decoding constraint."""

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
        after an answer with the same mark may quote it, and does not count. A constraint may also
        mention the ``name`` of an element, as in ``<(think|plan)>``.
        """
        texts = [text.lower() for text in self.texts]
        if in_answers:
            texts = [example.lower() for example in self.examples] + texts
        answers = [answer.lower() for answer in self.answers]
        if not _contain_any(answers, spellings):
            texts += [turn.lower() for turn in self.turns]
        if texts:
            last = texts[-1].rstrip()
            for mark in spellings:
                if last.endswith(("\n" + mark, ">" + mark)):
                    texts[-1] = last.removesuffix(mark)
        stated = {
            key: self.decoding[key] for key in ("constraint", "extra") if key in self.decoding
        }
        if stated:
            text = json.dumps(stated, ensure_ascii=False).replace("\\", "").lower()
            texts.append(_GROUP.sub("", text))
            if name and re.search(rf"<[^<>]{{0,40}}\b{re.escape(name)}\b", texts[-1]):
                return True
        return _contain_any(texts, spellings)


def _contain_any(texts: Sequence[str], spellings: Collection[str]) -> bool:
    return any(spelling in text for text in texts for spelling in spellings)


NO_PROMPT = Prompt()


class Reasoning:
    """The marks that a model's section of the run file states, and how replies are separated.

    Args:
        stated: The value of ``model.reasoning``: None for all known marks, ``keep`` for none, or a
            list of names and of pairs (opening, closing).

    Raises:
        ConfigError: If a name is unknown.
    """

    def __init__(
        self, stated: Literal["keep"] | Sequence[str | tuple[str, str]] | None = None
    ) -> None:
        self.keeps = stated == KEEP
        self.marks: tuple[ReasoningMark, ...] = ()
        if not self.keeps:
            self.marks = tuple(stated_marks((KNOWN,) if stated is None else stated))

    @cached_property
    def _starts(self) -> re.Pattern[str]:
        """The marks with which a separated or unknown reply may begin, in one expression."""
        starts = {_UNKNOWN.pattern, *(mark.opening for mark in self.marks)}
        starts |= {mark.before_answer for mark in self.marks if mark.before_answer}
        return re.compile("|".join(f"(?:{start})" for start in sorted(starts)))

    @cached_property
    def _hints(self) -> frozenset[str]:
        return frozenset(mark.hint for mark in self.marks if not mark.needs_closing)

    def may_mark(self, text: str) -> bool:
        """Return whether a reply may have marks, known or not; takes a fraction of `separate`."""
        if self.keeps:
            return False
        if text.startswith(_TOOL_CALLS) or self._starts.match(text, _after_space(text, 0)):
            return True
        lowered = text.lower()
        for hint in self._hints:  # noqa: SIM110 - a fifth of the time of any()
            if hint in lowered:
                return True
        return False

    def separate(self, text: str, prompt: Prompt = NO_PROMPT) -> Separated:
        """Separate a reply's text. An answer that calls tools (JSON) has its text in ``text``."""
        if text.startswith(_TOOL_CALLS) and '"tool_calls": [' in text:
            return self._of_tool_calls(text, prompt)

        @cache
        def usable(mark: ReasoningMark) -> bool:
            return mark.always or not prompt.mentions(
                mark.spellings, mark.name, in_answers=mark.in_answers
            )

        return _separated(text, self.marks, usable)

    def _of_tool_calls(self, text: str, prompt: Prompt) -> Separated:
        try:
            tree = json.loads(text)
        except (ValueError, RecursionError):
            return Separated(text, None)
        if not isinstance(tree.get("text"), str):
            return Separated(text, None)
        answer, reasoning = self.separate(tree["text"], prompt)
        if reasoning is None:
            return Separated(text, None)
        message = {"tool_calls": tree["tool_calls"]}
        if answer:
            message = {"text": answer, **message}
        return Separated(json.dumps(message, ensure_ascii=False), reasoning)

    def unknown(self, answer: str, prompt: Prompt = NO_PROMPT) -> str | None:
        """Return the mark with which an answer begins if it may begin unseparated reasoning.

        An element counts if text follows it, unless it is one of HTML or of an answer, or recurs,
        as in markup. An element that says that it is reasoning also counts if it is not closed.
        """
        if self.keeps:
            return None
        match = _UNKNOWN.match(answer, _IGNORED.match(answer).end())  # type: ignore[union-attr]
        if match is None:
            return None
        mark = match[0]
        name = match[1] or match[2]
        if name:
            mark = f"<{name}>" if match[1] else mark
            _, closing, after = answer[match.end() :].rpartition(mark[0] + "/" + mark[1:])
            if closing and not after.strip():
                return None
            if not _WORDS.search(match[0]) and not (closing and _is_foreign(name, after)):
                return None
        return None if prompt.mentions([mark.lower()]) else mark


def closing_of(mark: str) -> str:
    """Return the usual closing mark of an unknown mark, or "CLOSING" if there is none."""
    for opening, closing in (("begin", "end"), ("start", "end"), ("START", "END")):
        if mark.startswith("<|") and opening in mark:
            return mark.replace(opening, closing, 1)
    return "CLOSING" if mark.startswith("<|") else mark[0] + "/" + mark[1:]


_UNKNOWN = re.compile(
    r"<\|[\w:/ -]{1,40}\|?>|<([a-zA-Z][\w:.-]{0,40})(?:\s[^<>]{0,200})?>|\[([A-Z][A-Z_ ]{2,30})\]"
    r"|◁\w{1,40}▷|<unused\d{1,5}>"
)
_WORDS = re.compile(
    r"think|thought|reason|rationale|scratch|monologue|reflect|deliberat|introspect|brainstorm"
    r"|analysis|critique|\b(?:cot|plan|draft)\b",
    re.IGNORECASE,
)


_ANSWERS = ("answer", "final_answer", "final", "response", "output", "result", "solution")
_HTML = """
    a abbr address article aside audio b blockquote body br button canvas caption center cite code
    col dd del details dfn div dl dt em embed fieldset figcaption figure font footer form g h1 h2 h3
    h4 h5 h6 head header hr html i iframe img input ins kbd label legend li link main map mark math
    menu meta nav ol option p path pre q s samp script section select small span strike strong style
    sub summary sup svg table tbody td template text textarea tfoot th thead time title tr u ul var
    video
"""
_ELEMENTS = frozenset(_HTML.split())


def _is_foreign(name: str, after: str) -> bool:
    """Return whether an element is neither markup nor an answer, by its name and what follows."""
    name = name.lower()
    if name in _ELEMENTS or name in _ANSWERS or f"<{name}" in after.lower():
        return False
    next_element = _ELEMENT.match(after)
    return next_element is None or next_element[1].lower() in _ANSWERS


_ELEMENT = re.compile(r"\s*<([A-Za-z][\w.-]*)")


class _Block(NamedTuple):
    """A block of reasoning in a text: its mark, and offsets."""

    mark: ReasoningMark
    start: int  # of its content
    end: int  # of its content
    after: int  # where the text continues


_KNOWN_MARKS = Reasoning()


def without_reasoning(text: str) -> str:
    """Return a text without reasoning in known marks, also where its prompt asks for such marks.

    The final answer of a text is never read from there.
    """
    return _KNOWN_MARKS.separate(text).answer


def _separated(
    text: str, marks: Sequence[ReasoningMark], usable: Callable[[ReasoningMark], bool]
) -> Separated:
    start = _after_space(text, 0)
    block = _block(text, start, marks, usable) or _begun_block(text, start, marks, usable)
    if block is None:
        for mark in marks:
            if _answer_start(mark, text, start) and usable(mark):
                return Separated(_unwrapped(text, mark), "")
        return Separated(text, None)
    contents: list[str] = []
    while block is not None:
        last = block
        contents.append(text[last.start : last.end].strip())
        block = _block(text, _after_space(text, last.after), marks, usable, nested=False)
    answer = _unwrapped(_after_blank_lines(text[last.after :]), last.mark)
    return Separated(answer, "\n\n".join(filter(None, contents)))


def _block(
    text: str,
    place: int,
    marks: Sequence[ReasoningMark],
    usable: Callable[[ReasoningMark], bool],
    *,
    nested: bool = True,
) -> _Block | None:
    """Return the block that begins at ``place``. If it is never closed, it ends with the text.

    Without ``nested``, its first closing mark ends it: finding the end of nested blocks may read
    the whole text, so it is done for a reply's first block only.
    """
    for mark in marks:
        opened = mark.begins.match(text, place)
        if opened is None:
            continue
        start = opened.end()
        closed = None
        if nested:  # a mention is skipped if another mark ends the block
            closed = _closing(mark.marks, text, start, prose=True)
            closed = closed or _closing(mark.marks, text, start)
        closed = closed or _closing(mark.marks, text, start, balanced=False)
        if (closed is None and mark.needs_closing) or not usable(mark):
            continue
        if closed is None:
            # Some models close their reasoning with the mark of another kind.
            block = _begun_block(text, start, marks, usable) if nested else None
            return block or _Block(mark, start, len(text), len(text))
        return _Block(mark, start, closed.start(), closed.end())
    return None


def _begun_block(
    text: str, place: int, marks: Sequence[ReasoningMark], usable: Callable[[ReasoningMark], bool]
) -> _Block | None:
    """Return the block of a reply that begins inside its reasoning."""
    lowered = text.lower()
    first: _Block | None = None
    for mark in marks:
        if mark.needs_closing or mark.hint not in lowered:
            continue
        closed = _closing(mark.ends_inside, text, place, prose=True)
        if closed and (first is None or closed.start() < first.end) and usable(mark):
            first = _Block(mark, place, closed.start(), closed.end())
    return first


def _closing(
    marks: re.Pattern[str], text: str, start: int, *, balanced: bool = True, prose: bool = False
) -> re.Match[str] | None:
    """Return the closing mark of a block whose content begins at ``start``, or None.

    Marks in quotation marks are text. So are, with ``prose``, those in code and mentions. Unless
    ``balanced``, the first closing mark is returned, even if more blocks were opened before.
    """
    depth = 1
    place = start
    fences = 0
    ticks = 0  # on the current line
    last_fence = text.rfind(_FENCE) if prose else -1
    for mark in marks.finditer(text, start):
        if _quoted(text, mark):
            continue
        if prose:
            between = text[place : mark.start()]
            fences += between.count(_FENCE)
            _, line_break, line = between.rpartition("\n")
            ticks = line.count("`") + (0 if line_break else ticks)
            place = mark.start()
            in_block = fences % 2 == 1 and last_fence >= place
            if in_block or ticks % 2 == 1:
                continue
            if mark["closing"] is not None and _mentioned(text, mark):
                continue
        depth += -1 if mark["closing"] is not None else 1
        if depth == 0 or (mark["closing"] is not None and not balanced):
            return mark
    return None


def _quoted(text: str, mark: re.Match[str]) -> bool:
    before = text[mark.start() - 1 : mark.start()]
    after = text[mark.end() : mark.end() + 1]
    return before in _QUOTES and after in _QUOTES


def _mentioned(text: str, mark: re.Match[str]) -> bool:
    """Return whether a text mentions a closing mark, instead of ending its reasoning with it.

    A mark after which the line breaks ends the reasoning, and so does one after a sentence.
    """
    start = mark.start()
    before = text[max(0, start - _MENTION) : start].rpartition("\n")[2]
    after = text[mark.end() : mark.end() + _MENTION]
    if _MENTION_BEFORE.fullmatch(before) or _MENTION_AFTER.match(after):
        return True
    return any(left.fullmatch(before) and right.match(after) for left, right in _WRAPPED)


def _answer_start(mark: ReasoningMark, text: str, place: int) -> re.Match[str] | None:
    return mark.begins_answer and mark.begins_answer.match(text, place)


def _unwrapped(answer: str, mark: ReasoningMark) -> str:
    """Return an answer without the marks that belong to the form of its reasoning."""
    begins = _answer_start(mark, answer, _after_space(answer, 0))
    if begins:
        answer = _after_blank_lines(answer[begins.end() :])
    for text in mark.after_answer:
        stripped = answer.rstrip()
        if stripped.endswith(text):
            answer = stripped.removesuffix(text)
    return answer


def _after_blank_lines(text: str) -> str:
    return _BLANK_LINES.sub("", text, count=1)


def _after_space(text: str, place: int) -> int:
    return _IGNORED.match(text, place).end()  # type: ignore[union-attr]
