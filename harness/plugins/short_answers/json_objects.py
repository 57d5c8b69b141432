"""The JSON objects in a reply, of which the last (or the first) is its answer.

An earlier object never stands in for a last one that is broken.

>>> json_object('{"answer": "Rome"} Correction: {"answer": "Paris"}')
{'answer': 'Paris'}
"""

from __future__ import annotations

import json
import re
from typing import Any, NamedTuple

from harness.errors import Unparseable
from harness.scoring.conclusions import (
    is_denied,
    is_remark,
    is_retracted,
    is_sample,
    undecided_offsets,
)
from harness.scoring.patterns import MatchPosition

MOST_BROKEN_OBJECTS = 1_000
MOST_DIGITS = 4_000  # maximum length of an integer in JSON, in digits


class JsonObject(NamedTuple):
    """A JSON object in a text, with its offsets and what is wrong with it ("" if it is valid)."""

    start: int
    end: int
    value: dict[str, Any]
    problem: str


_OBJECT_START = re.compile(
    r"\{(?=\s*(?:\\?[\"'“”\u2018]|[}]|\Z))|(?<![\w}])\{(?=\s*[A-Za-z_]\w*\s*:)"
)
_JOINED = re.compile(r"\s*(?:,|/|,?\s*\b(?:or|and)\b)\s*")
_WORD = re.compile(r"\w")
_MARKS = " \t\r\n*_`#>-"
_FENCE = re.compile(r"```[ \t]*\w*|\bjson\b", re.I)
_FENCE_LINE = re.compile(r"^[ \t]*```.*$", re.M)
_SENTENCE_END = re.compile(r"[.!?]\s+|[。\uff01\uff1f]")
_FINAL = re.compile(  # words that introduce the object that counts
    r"\b(?:here(?:['\u2019]s|\s+(?:is|are))|correct(?:ed|ion)?|final(?:ly)?|updated|revised|fixed|amended|improved"
    r"|my\s+(?:\w+\s+)?(?:answer|response|reply|output|json)|answer|result|response|output|right|no|so|thus"
    r"|(?:revise|change|correct|amend|update)\s+(?:this|that|it|my\s+\w+)\s+to|therefore|but|rather|sondern|sino|instead|becomes|json|antwort|ergebnis|korrigiert\w*|richtig\w*|réponse|corrigée?|résultat|respuesta"
    r"|corregid\w+|resultado|resposta|corrigid\w+|risposta|corrett\w+|ответ|исправлен\w+)\b"
    r"|答案|回答|最终|最終|正确|正確|修正|更正|正解|正し|訂正|次の通り|以下|答え|정답|답변|수정",
    re.I,
)
_NOT_FINAL = re.compile(
    r"\b(?:wrong|incorrect|false|mistake\w*|errors?|examples?|e\.g|format|template|schema|input|not|never|n't|would|could"
    r"|might|may|if|unless|other|another|alternative\w*|old|previous|earlier|former|original|initial|common|your"
    r"|their|instead\s+of|rather\s+than|before|first|draft|bad|invalid|rejected|no\s+longer|falsch\w*|nicht"
    r"|mauvaise?|fauss?e?|pas|incorrect\w*|err[aó]\w*|sbagliat\w*|alt[e]r?\w*|неверн\w+|неправильн\w+|не)\b"
    r"|[错錯误誤不没非旧前]|間違|例|틀|오답|아니",
    re.I,
)
_BLANK = re.compile(r"\s*(?:\.{2,}|…|_+|<[^<>]*>|\[[^\[\]]*\])\s*")
_JSON_FENCE = re.compile(r"```[ \t]*json", re.I)


def json_object(text: str, take: MatchPosition = "last") -> dict[str, Any]:
    """Return the value of the `final_object`."""
    return final_object(text, take).value


def final_object(text: str, take: MatchPosition = "last") -> JsonObject:
    """Return the last (or first) JSON object in a reply.

    Raises:
        Unparseable: If there is no object, or that one is broken, has a repeated key or a value
            that is not JSON, is denied or taken back, or is next to another one in a list.
    """
    objects = json_objects(text)
    if not objects:
        raise Unparseable("The answer contains no JSON object.")
    chosen = objects[0] if take == "first" else objects[-1]
    if chosen.problem:
        raise Unparseable(chosen.problem)
    if take == "last" and (
        is_retracted(text, chosen.end) or is_denied(text, chosen.start, chosen.end)
    ):
        raise Unparseable("The answer denies its last JSON object, or takes it back.")
    if take == "last" and _is_no_answer(text, chosen):
        raise Unparseable("The answer's last JSON object is no answer of its own.")
    if take == "last" and _JSON_FENCE.search(text, chosen.end):
        raise Unparseable("The last JSON block contains no object.")
    if take == "last" and not _is_final(text, objects):
        raise Unparseable("It is uncertain which of the answer's JSON objects is final.")
    if len(objects) > 1:
        left, right = objects[:2] if take == "first" else objects[-2:]
        between = text[left.end : right.start]
        is_list = take == "first" and between.strip() == ","  # whose first object is clear
        if _JOINED.fullmatch(between) and not is_list and left.value != right.value:
            raise Unparseable("The answer contains several JSON objects in a row.")
    return chosen


def _is_no_answer(text: str, last: JsonObject) -> bool:
    """Return whether an object is an example or a format, or is followed by "I don't know."."""
    if is_sample(text, last.start, last.end) or is_remark(text, last.start, last.start):
        return True
    return bool(undecided_offsets(text[last.end :]))


def _is_final(text: str, objects: list[JsonObject]) -> bool:
    """Return whether the last object is the only one, on lines of its own, or announced."""
    *earlier, last = objects
    if all(not item.problem and item.value == last.value for item in earlier):
        return True
    before = text[earlier[-1].end : last.start]
    if earlier[-1].problem and "\n" in before:  # the rest of a broken object
        before = before[before.index("\n") :]
    line_end = text.find("\n", last.end)
    line = before.rpartition("\n")[2]
    introduction = before.strip(_MARKS)
    is_inline = _WORD.search(_FENCE.sub("", line)) is not None
    if not is_inline:
        if _WORD.search(text[last.end : line_end if line_end >= 0 else len(text)]):
            return False
        introduction = _FENCE_LINE.sub("", before).strip(_MARKS)
    if not _WORD.search(introduction):
        return True
    if not is_inline and is_retracted(text[: last.start], earlier[-1].end):
        return True
    sentence = _SENTENCE_END.split(introduction.rpartition("\n")[2].rstrip(_MARKS + ":.\uff1a。"))[
        -1
    ]
    sentence = f"{sentence.strip()}:"
    if _NOT_FINAL.search(sentence):
        return False
    is_filled_in = not is_inline and all(_is_template(item.value) for item in earlier)
    return is_filled_in or _FINAL.search(sentence) is not None


def _is_template(value: dict[str, Any]) -> bool:
    """Return whether an object only shows a format: all its values are such as "..." and "<x>"."""
    if not value:
        return False
    return all(isinstance(part, str) and _BLANK.fullmatch(part) for part in value.values())


def json_objects(text: str) -> list[JsonObject]:
    """Return the JSON objects in a text that are not part of another, also those that are broken.

    Raises:
        Unparseable: If more than `MOST_BROKEN_OBJECTS` are broken.
    """
    objects: list[JsonObject] = []
    broken = 0
    start = _OBJECT_START.search(text)
    while start is not None:
        decoded = _decoded(text, start.start())
        objects.append(decoded)
        broken += bool(decoded.problem)
        if broken > MOST_BROKEN_OBJECTS:
            raise Unparseable("The answer contains too much broken JSON.")
        start = _OBJECT_START.search(text, decoded.end)
    return objects


def _decoded(text: str, start: int) -> JsonObject:
    problems: list[str] = []

    def integer(digits: str) -> int:
        if len(digits) > MOST_DIGITS:
            problems.append("The JSON object has a number that is too large.")
            return 0
        return int(digits)

    def constant(name: str) -> None:
        problems.append(f"The answer contains no JSON object: {name} is not JSON.")

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        value: dict[str, Any] = {}
        for name, part in pairs:
            if name in value:
                problems.append(f"The key {name!r:.60} occurs twice in the JSON object.")
            value[name] = part
        return value

    decoder = json.JSONDecoder(object_pairs_hook=unique, parse_int=integer, parse_constant=constant)
    try:
        value, end = decoder.raw_decode(text, start)
    except json.JSONDecodeError as error:
        # What is inside a broken object is no object of its own.
        cut_off = error.msg.startswith("Unterminated") or error.pos >= len(text)
        end = len(text) if cut_off else max(error.pos, start + 1)
        problem = f"The answer contains no JSON object: {error.msg} at character {error.pos}."
        return JsonObject(start, end, {}, problem)
    except RecursionError:
        problem = "The answer contains no JSON object that is not nested too deeply."
        return JsonObject(start, len(text), {}, problem)
    return JsonObject(start, end, value, problems[0] if problems else "")
