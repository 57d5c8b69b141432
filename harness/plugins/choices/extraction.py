"""The option that a reply to a multiple-choice question chooses.

>>> ChoiceExtraction(["Rome", "Paris"]).read("France's capital is not Rome. The answer is (B).")
'B'
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from string import ascii_uppercase
from typing import ClassVar

from harness.errors import Unparseable
from harness.plugins.choices.option_names import (
    DENIED,
    KIND,
    LABEL,
    NOT,
    PREFERRED,
    WHOLE,
    OptionNames,
    bare_text,
)
from harness.scoring.conclusions import (
    ANSWER,
    ASIDE,
    MAX_SENTENCE_CHARS,
    first_turn,
    is_doubtful,
    is_remark,
    is_sample,
    is_withdrawn,
    statements,
    strip_markup,
    undecided_offsets,
    without_struck_out,
)
from harness.scoring.quotations import replace_quotations
from harness.scoring.reasoning import without_reasoning

LETTERS = ascii_uppercase


def _letter(letters: str) -> str:
    return rf"[(\[{{<'\u2018]?\s*(?<![A-Za-z0-9])([{letters}]){WHOLE}(?:\s*[)\]}}>'\u2019])?"


_OPTION = r"(?:(?:option|choice|answer|letter)\s+)?"
_LETTER = re.compile(_letter("A-Za-z"))
_JOINED = re.compile(
    r"(?:\s*\([^()\n]{0,20}\))?\s*"
    r"(?:[(,\u2013\u2014-]*\s*(?:and|or|und|oder|et|ou|y|o|e|и|или)\b(?:\s+(?:possibly|maybe|perhaps|also|even))?"
    rf"|\(\s*(?:possibly|maybe|perhaps)\b|\(?[/&和或])\s*{_OPTION}"
    rf"|(?:\s*\([^()\n]{{0,20}}\))?\s*,\s*{_OPTION}(?={_letter('A-Z')}\s*(?:[,.;)]|\(\d|and\b|or\b|\Z))",
)
_RIGHT = re.compile(
    rf"{_letter('A-Z')}\s*(?:(?i:is what I\b"
    r"|(?:is|seems|must be|would be|has to be)\s+(?:to be\s+)?(?:the\s+)?"
    r"(?:(?:only\s+)?correct|right|(?:only|best|most\s+\w+)\s+(?:answer|option|choice|one)|answer)\b)"
    r"(?!\s+(?:if|when|only|unless|in|(?:that\s+|which\s+)?(?:many|most|some|others?|people"
    r"|students|textbooks|they|you|he|she)|(?:to|for)\s+(?:the\s+)?(?:an)?other)\b)|\s(?:it\s+is(?=\s*[.!]|\s*\Z)|is\s+juist\b"
    r"|(?:ist|est|es|é|è|jest|är|er)\s+"
    r"(?:die\s+|la\s+|a\s+)?(?:richtig\w*|korrekt|bonne|correct\w*|corr[ei]t[ao]|corretta|giusta"
    r"|poprawn\w*|prawidłow\w*|rätt|riktig\w*)\b)|是?(?:正确|对的)|[がは](?:正解|正しい))"
)
_BRACKETED = re.compile(
    r"[(\[](?<![A-Za-z0-9])([A-Z])[)\]]|\b(?i:option|choice|answer|letter)\s+([A-Z]\b|\([a-z]\))"
)
_ENDS = re.compile(
    r"\s*(?:\Z|\n|[.。](?=\s|\Z)|[,;:!?)\]/&、\uff0c]|\((?!or\b)|[-\u2013—]+(?=\s)|[\u0400-\uffff\U0001f300-\U0001faff]"
    r"|(?:because|since|as|which|and|or|over|rather|instead|not|but|though|although|here)\b)"
)
_CONDITION = re.compile(r",?[^\S\n]+(?:if\s+not|if|unless|provided|assuming)\b", re.I)
_ABBREVIATED = re.compile(
    r"\.\s(?!(?:because|since|as|it|its|this|that|the|and|but|so|for|not|in)\b)[a-z]{2}"
)
_OPEN = re.compile(
    r"(?:\b(?:and|or|nor|neither|either|if|whether|why|alternatively|arguably|possibly|perhaps|maybe),?"
    r"|/)\s*(?:option\s*)?\Z",
    re.I,
)
_QUESTION = re.compile(r"[^.!?\n]{0,200}\?")
_DIGITS = re.compile(r"\d+")
_NUMBER = (  # of an option, in place of its letter
    rf"(?P<before>(?:{ANSWER.pattern}|\b(?:option|choice|answer|number)\s+)[\W_]{{0,4}}"
    r"|(?:^|[(\[]|\\boxed\{)[\s*_`\"'#]{0,4}(?=\w+[*_`]*\s*(?:[)\].:}\n]|\Z)))"
    r"(?P<numbers>(?:NUMBER)(?:\s*(?:[,/&]|,?\s*\b(?:or|and)\b)\s*(?:NUMBER))*+)(?![\w%]|[.,]\d|\s*[-+\u00d7\u00f7*/=^]\s*\d)"
)
_DELIMITER = re.compile(r"\s*(?:\Z|\n|[.!](?=\s)|[():,;]|[-\u2013—]+(?=\s))")
_BULLET = re.compile(
    r"^[ \t]*(?:[-\u2013•#+]{1,6}[ \t]+"
    r"|(?![❌✗✘✖])[\u2190-\u21ff\u2300-\u2bff\U0001f300-\U0001faff]\ufe0f?[ \t]*)+",
    re.M,
)
_CATEGORY = re.compile(  # which a reply announces that has no other announcement
    r"\A\W{0,4}(?:(?:the|my|final|predicted|correct)\s+){0,2}(?:category|class|classification|label)\s*:",
    re.I,
)
_BLANK_LINES = re.compile(r"\n{3,}+")
_OTHER_LABEL = re.compile(
    rf"\b(?:{KIND}|bad|not(?:\s+\w+)?|(?:eliminat|exclud|reject|discard|avoid)\w*|rul\w+\s+out|distractors?)\Z",
    re.I,
)
_IN_KEY = re.compile(r"(?<=[a-z])_(?=(?:answer|choice|option|verdict)\b)", re.I)
_CHANGED = re.compile(r"\s*(?:[-=]+>|[→⇒]|\(?(?:now\s+)?(?:changed|corrected|revised)\s+to\b)\s*")
_REFUSED = re.compile(
    r"[^.!?\n]{0,60}\?\s*(?:wrong|no|incorrect|(?:probably\s+)?not|hardly|unlikely)\b", re.I
)
_WORD = re.compile(r"[\w?]")
_CLOSED = re.compile(r"\s*(?:[.!;)\]。]|\n|\Z)")
_SAME_AS = re.compile(
    r"\s*(?:[:)=\u2013\u2014(]|-\s|which\s+is|i\.e\.|,\s*(?=[^\n,.;]{1,80},))"
)  # B: Paris
_COURTESY = re.compile(
    r"\n\s*(?:[^\n]*\?|(?:I\s+)?hope\b[^\n]*|let\s+me\s+know\b[^\n]*|feel\s+free\b[^\n]*)\s*\Z",
    re.I,
)
_ORDINALS = {
    name: position
    for position, names in enumerate(
        ("first 1st", "second 2nd", "third 3rd", "fourth 4th", "fifth 5th", "sixth 6th")
    )
    for name in names.split()
}
_ORDINAL = re.compile(
    rf"\bthe\s+({'|'.join(_ORDINALS)}|last)\s+"
    r"(?:(?:option|alternative)\b|one(?=\s*(?:[.!]|\Z|(?:wins|is)\b)))",
    re.I,
)
_LOOK_ALIKES = (  # Cyrillic
    "\u0410\u0412\u0421\u0415\u041d\u0406\u0408\u041a\u041c\u041e\u0420\u0405\u0422\u0425"
)
_LATIN = str.maketrans(_LOOK_ALIKES, "ABCEHIJKMOPSTX")
_LOOK_ALIKE = re.compile(rf"(?<!\w)[{_LOOK_ALIKES}](?=\s*(?:[.,;:!?)\]]|\n|\Z))")
_CYRILLIC_LETTER = re.compile(r"(?<!\w)[БГДЖ](?=\s*[.,;:)\]])")  # an option of a Cyrillic list


_ABOUT_ANOTHER = re.compile(
    r"\b(?i:would(?!\s+(?:change|switch|revise|amend|correct|rather|be\s+(?:(?:the|a)\s+)?(?:better|more))\b)|had|similarly|earlier|previous|students?|people)\b|\b[Ff]or\s(?:the\s)?[A-Z]"
)
_OWN_CONDITION = re.compile(r"\b(?:if|unless)\s+I\b", re.I)
_POSSIBLE = re.compile(
    r"\b(?:it|this|that|the\s+answer)\s+(?:could|might|may)\s+(?:\w+\s+)?be\s+"
    r"(?:option\s+)?",
    re.I,
)
_CLAUSE_START = re.compile(r"[.!?。;\n]\s|,\s(?:but|so|yet|however)\b")


def _about_this_question(
    text: str, announced: Iterator[tuple[int, str]], answered: str
) -> Iterator[tuple[int, str]]:
    """Yield the announcements, without later ones about another question or another's answer.

    A later one under a condition, which may be meant for this question, makes the reply undecided.
    So does one after an announcement of what is no option, such as "A, unless …".
    ``answered`` is the letter with which the reply begins, or "".
    """
    is_first = True
    for offset, letters in sorted(announced):
        better, comparison, worse = letters.partition(">")
        if comparison:
            if is_first and not answered:
                continue  # no choice, only a comparison
            letters = better if worse in ("", answered) or better == answered else ""
        before = _CLAUSE_START.split(text[max(0, offset - MAX_SENTENCE_CHARS) : offset])[-1]
        after = _CLAUSE_START.split(text[offset : offset + MAX_SENTENCE_CHARS])[0]
        about_another = _ABOUT_ANOTHER.search(before + after) is not None
        if answered and about_another:
            continue
        is_later = bool(answered) or not is_first
        if is_later and letters != answered and is_doubtful(text, offset):
            is_own = not answered and _OWN_CONDITION.search(before)
            letters = letters if is_own else ""
        is_first = False
        answered = answered if about_another else letters
        yield offset, letters


class ChoiceExtraction(OptionNames):
    """An extraction of the letter of the option that a reply chooses.

    The reply may be the letter, the option's text or both, or it may announce a choice ("The answer
    is B"). The last announcement decides, unless the last line just names an option. Without
    either, the first words or the only option named count.

    Args:
        choices: The texts of the options.
        numbers: The numbers by which the prompt names them, if it has no letters.
    """

    announcements: ClassVar[tuple[str, ...]] = ()

    def __init__(self, choices: Sequence[str], numbers: Sequence[str] = ()) -> None:
        super().__init__(choices)
        self._letter_of = dict(zip(numbers, self._letters, strict=False))
        self._number = re.compile(_NUMBER.replace("NUMBER", "|".join(numbers)), re.I | re.M)

    def read(self, text: str) -> str:
        """Return the letter, in upper case.

        Raises:
            Unparseable: If the reply names no option, or several without choosing one, or if what
                it announces last is not an option.
        """
        text = self._with_letters(without_struck_out(without_reasoning(text)))
        text = first_turn(text, self._is_answered)
        letters = self._chosen(self._prepared(replace_quotations(text)))
        if letters is None:
            letters = self._chosen(self._prepared(text)) or ""
        if len(letters) == 1:
            return letters
        last = self._letters[-1]
        if letters:
            raise Unparseable(f"The reply chooses several options: {', '.join(letters)}.")
        raise Unparseable(f"The reply does not choose one of the options A to {last}.")

    def _with_letters(self, text: str) -> str:
        """Return a text with letters in place of the numbers that name options."""
        if not self._letter_of:
            return text
        return self._number.sub(
            lambda match: match["before"] + _DIGITS.sub(self._letter, match["numbers"]), text
        )

    def _letter(self, number: re.Match[str]) -> str:
        return self._letter_of[number[0]]

    def _is_answered(self, text: str) -> bool:
        return bool(self._chosen(self._prepared(replace_quotations(text))))

    def write(self, answer: str) -> str:
        """Return the answer unchanged."""
        return answer

    def _prepared(self, text: str) -> str:
        """Return a plain text with Latin letters for ordinals and for letters that look alike."""
        text = _BULLET.sub("", strip_markup(_IN_KEY.sub(" ", text), " answer: "))
        if ANSWER.search(text) is None:
            text = _CATEGORY.sub("Answer:", text)
        text = _BLANK_LINES.sub("\n\n", text)  # of bullets alone, which make searches quadratic
        if not _CYRILLIC_LETTER.search(text):
            text = _LOOK_ALIKE.sub(lambda match: match[0].translate(_LATIN), text)
        return _ORDINAL.sub(self._by_ordinal, text)

    def _by_ordinal(self, match: re.Match[str]) -> str:
        position = _ORDINALS.get(match[1].lower(), len(self._letters) - 1)
        return f"option {LETTERS[position]}"

    def _chosen(self, text: str) -> str | None:
        """Return the letters that a reply chooses, "" if it decides for none, or None."""
        if letter := self._texts.get(bare_text(text)):
            return letter
        if self._is_called_wrong(text):
            return ""
        about_question = _about_this_question(text, self._announced(text), self._first(text))
        announced = list(about_question)
        last_line = [*self._last_line(text)]
        if self._is_contrary(text, announced, last_line):
            return ""
        announced += last_line
        decisive = announced or [*self._labelled(text)]
        start = 0
        if decisive:
            start, letters = max(decisive)
            first = "" if announced else self._first(text)
            first = first or self._opening(text, start)
            letters = letters if first in ("", letters) else ""
        else:
            letters = self._first(text) or self._first_words(text) or self._only(text)
        if len(letters) == 1:
            return self._corrected(text, start, letters)
        if decisive or letters:
            return letters
        return self._alone(text) or self._judged(text) or None

    def _is_contrary(
        self, text: str, announced: Sequence[tuple[int, str]], last_line: Sequence[tuple[int, str]]
    ) -> bool:
        """Return whether the last line is another option's text than the line before announces."""
        line = bare_text(text[text.rfind("\n") + 1 :])
        if not (announced and last_line and line in self._texts):
            return False
        start, letters = max(announced)
        return letters != self._texts[line] and text.count("\n", start) == 1

    def _announced(self, text: str) -> Iterator[tuple[int, str]]:
        """Yield the offsets and the letters of announcements ("" for what is not an option)."""
        for statement in statements(text):
            letters, end = self._at(text, statement.start, loose=statement.named)
            topic = self._spelt(text, statement.start)[0] and not statement.named
            if topic and not (_ENDS.match(text, end) or PREFERRED.match(text, end)):
                letters = ""
            if not letters and statement.binding:
                letters = self._only(statement.text)
            if letters or statement.binding:
                yield statement.start, letters
        for start in undecided_offsets(text):
            if not self._at(text, start)[0]:
                yield start, ""
        for match in _POSSIBLE.finditer(text):
            if self._at(text, match.end())[0]:
                yield match.start(), ""
        for match in _RIGHT.finditer(text):
            is_open = _OPEN.search(text, max(0, match.start() - 20), match.start())
            if is_open or is_remark(text, match.start(1), match.end()):
                continue
            label = LABEL.match(text, match.end())
            spelt, end = self._spelt(text, label.end() if label else match.end())
            is_contrary = spelt not in ("", match[1]) and _CLOSED.match(text, end)
            yield match.start(), match[1] if match[1] in self._letters and not is_contrary else ""
        yield from self._preferred(text)

    def _at(self, text: str, start: int, *, loose: bool = False) -> tuple[str, int]:
        """Return the letters of the options at an offset, and the offset of their end.

        There are none if the text denies the first option or makes it depend on a condition.

        With ``loose``, any word may follow a letter that is not a word itself.
        """
        letter, end = self._option(text, start, loose)
        label = LABEL.match(text, end)
        is_denied = DENIED.match(text, end) is not None
        if is_denied and label is not None:  # an option may be "No"
            is_denied = self._spelt(text, label.end())[0] != letter
        if not letter or is_denied:
            return "", start
        letters = [letter]
        if label is not None:  # the option's text after its letter, or the reverse
            opening = label.end() + text.startswith(("(", "["), label.end())
            second, second_end = self._spelt(text, opening)
            if not second and opening > label.end():
                second, second_end = self._option(text, label.end(), False)
            if second and DENIED.match(text, second_end):
                return "", start
            is_closed = (
                _CLOSED.match(text, second_end) is not None
                or _SAME_AS.match(text, end) is not None
                or text.startswith((")", "]"), end - 1)  # B) Paris is right
            )
            if second and (second == letter or is_closed):
                letters.append(second)
                end = second_end
            elif not second and _ABBREVIATED.match(text, end):
                return "", start
        while match := _JOINED.match(text, end):
            joined, end = self._option(text, match.end(), False)
            if not joined and "/" in match[0]:
                return "", start
            if not joined:
                end = match.start()
                break
            letters.append(joined)
        if _CONDITION.match(text, end) or _REFUSED.match(text, end):
            return "", start
        change = _CHANGED.match(text, end)
        if change is not None and self._option(text, change.end(), False)[0]:
            return "", start
        return "".join(dict.fromkeys(letters)), end

    def _option(self, text: str, start: int, loose: bool) -> tuple[str, int]:
        """Return the letter of the option at an offset, or "", and the offset of its end."""
        letter, end = self._spelt(text, start)
        if letter:
            return letter, end
        match = _LETTER.match(text, start)
        if match is None or match[1].upper() not in self._letters:
            return "", start
        letter = match[1].upper()
        end = match.end()
        bare = match[0].rstrip()[-1] == match[1]
        may_be_word = match[1].islower() or letter in "AI" or not loose
        if bare and may_be_word and not _ENDS.match(text, end):
            spelt_letter, _ = self._spelt(text, end + 1)
            return (letter, end) if spelt_letter == letter else ("", start)
        return letter, end

    def _last_line(self, text: str) -> Iterator[tuple[int, str]]:
        """Yield the offset and the letters of the last line, if that line only names an option."""
        text = _COURTESY.sub("", text)
        lines = [line for line in text.splitlines() if line.strip()]
        size = len(self._letters)
        names: list[str] = []
        while lines and len(names) <= size:
            letters = self._named(lines[-1])
            if letters is None:
                break
            names.insert(0, letters)
            lines.pop()
        listed = "".join(names[-size:]) == self._letters or self._is_listed(lines, names)
        if "".join(names[:size]) == self._letters:
            names = names[size:]
        heading = lines[-1].strip() if lines else ""
        aside = heading.endswith(":") and _is_other_label(heading.rstrip(": "))
        if not names or listed or aside:
            return
        if len(set(names)) == 1:
            yield text.rfind("\n") + 1, names[-1]
        else:
            yield 0, "".join(dict.fromkeys("".join(names)))

    def _is_listed(self, lines: Sequence[str], names: Sequence[str]) -> bool:
        """Return whether the first of the last lines' names follows the option before it."""
        if not (lines and names):
            return False
        line = lines[-1].strip()
        match = _LETTER.match(line)
        if match is None or not _DELIMITER.match(line, match.end(1)):
            return False
        return match[1] + names[0] in self._letters

    def _labelled(self, text: str) -> Iterator[tuple[int, str]]:
        """Yield the offset and the letter of a last line such as "Result: B"."""
        start = text.rfind("\n") + 1
        label, colon, value = text[start:].rpartition(":")
        match = _LETTER.fullmatch(value.strip(" .。"))
        is_other = _is_other_label(label.strip()) or is_sample(text, start + len(label))
        if colon and match is not None and not is_other:
            letter = match[1].upper()
            yield start, letter if letter in self._letters else ""

    def _named(self, line: str) -> str | None:
        """Return the letters of the options that a line names without saying more.

        Return "" if the line names what is not an option, and None for any other line.
        """
        line = line.strip()
        if letter := self._texts.get(bare_text(line)):
            return letter
        letters, end = self._at(line, 0)
        if letters:
            return letters if _WORD.search(line, end) is None else None
        match = _LETTER.match(line)
        if match is None or match[1].upper() in self._letters:
            return None
        return "" if _WORD.search(line, match.end()) is None else None

    def _first(self, text: str) -> str:
        """Return the letters with which a reply begins, unless a later line begins with another."""
        match = _LETTER.match(text)
        if match is None or match[1] not in self._letters:
            return ""
        if self._lists_options(text):
            return ""
        closed = match[0].rstrip()[-1] != match[1] or _DELIMITER.match(text, match.end())
        if not closed and self._spelt(text, match.end() + 1)[0] != match[1]:
            return ""
        first, *lines = [line.strip() for line in text.splitlines() if line.strip()]
        if self._named(first):
            lines = lines[:1]  # more than one line makes a list of the options
        for line in lines:
            later_match = _LETTER.match(line)
            if (
                later_match
                and later_match[1] != match[1]
                and _DELIMITER.match(line, later_match.end(1))
            ):
                return ""
        return self._at(text, 0, loose=True)[0]

    def _only(self, text: str) -> str:
        """Return the only option that a text names in brackets or as "option B", or ""."""
        letters = {
            match[1] or match[2].strip("()").upper()
            for match in _BRACKETED.finditer(text)
            if not NOT.search(text, max(0, match.start() - 20), match.start())
            and not is_withdrawn(text, match.start())
            and not _is_other_label(text[max(0, match.start() - 20) : match.start()].rstrip(" :"))
            and not DENIED.match(text, match.end())
            and not _QUESTION.match(text, match.end())
        }
        letters &= set(self._letters)
        for match in _BRACKETED.finditer(text):  # option B: Paris
            if len(self._at(text, match.start(match.lastindex or 0))[0]) > 1:
                return ""
        return letters.pop() if len(letters) == 1 else ""


def _is_other_label(label: str) -> bool:
    """Return whether a label introduces something other than the reply's choice."""
    return bool(ASIDE.search(label) or _OTHER_LABEL.search(label))
