"""Judges an answer: the model analyses it and concludes with a number, averaged over samples.

The defaults are COLLIE's judge of coherence (Yao et al. 2023, arXiv 2307.08689). Its model analyses
a passage and concludes "Thus, the coherency score is s" with an integer from 1 to 10. Three samples
are averaged.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

from typing_extensions import override

from harness.errors import ConfigError, Unparseable
from harness.ports import Task
from harness.records import Decoding, Instance, Question, Reply, Request, Score
from harness.scoring.conclusions import (
    MAX_CLAUSE_CHARS,
    MAX_SENTENCE_CHARS,
    SCORE,
    is_limit,
    is_own_statement,
    is_quoted,
    is_retracted,
    is_sample,
    is_withdrawn,
    statements,
    strip_markup,
    text_before,
)
from harness.scoring.judges import (
    JudgePrompt,
    PromptJudge,
    mean_of_decided,
    threshold_score,
    without_quotations,
)
from harness.scoring.patterns import Pattern, PatternTooSlow

COHERENCY = r"coherency score is:?\s{0,3}[*_\"']{0,3}(\d+)(?!\d|[.,]\d|\s?[-\u2013]\s?\d)"
"""Matches an integer after "coherency score is", but neither a decimal fraction nor a range."""

_RATING = re.compile(
    r"\s*([-+]?(?:[0-9]{1,9}+(?:\.[0-9]{1,9}+)?|\.[0-9]{1,9}+))"
    r"(?:\s*(?:/|(?:out\s+)?of\b(?:\s+(?:an?\s+|the\s+)?(?:possible|total|max\w*)(?:\s+of)?)?|von\b|sur\b|de\b"
    r"|[,(]?\s*on\s+(?:a|the)\s+scale\s+(?:of|from)\s+(?:[0-9]+\s*(?:to|through|[-\u2013])\s*)?)"
    r"\s*([0-9]{1,9}+(?:\.[0-9]+)?))?+"
    r"(?!\s*[-\u2013—~/^]\s*[0-9{]|[^\S\n]+[0-9]|[.,][0-9]|[\w%½¼¾]|\s*[?½¼¾]|\s*\+"
    r"|\s*(?:[-=]{1,2}>|[→⇒➔➜⟶])[^\n]{0,30}?[0-9]|\s*±|[\s,(\u2013—-]{0,4}(?:minus|plus|less|abzüglich|moins|menos)\s+[0-9]"
    r"|\s+and\s+(?:an?|one|two|three)\s+(?:half|thirds?|quarters?)\b"
    r"|\s*(?:,\s*)?\(?(?:to|or|and|maybe|perhaps|possibly|bis|oder|ou|à)\b[^.\n]{0,20}?[0-9])"
)
"""Matches a single number, with or without the scale: not the beginning of a range or a choice."""
_RATED = re.compile(
    r"(?:\w{1,12}\s+)?\[{0,2}[-+.]?[0-9]|(?:between|from|un\w+|none|n/a|not|high|low|one|two|three|four|five"
    r"|six|seven|eight|nine|ten|eleven|twelve|zero)\b",
    re.IGNORECASE,
)
"""Matches what is meant as a score, even if it is not valid."""
_WORD = re.compile(r"\W*\w{0,20}\W*(?:/\s*[0-9]+\W*)?")
"""Matches a named score that is one word, such as "s"."""
_BRACKETED = re.compile(
    r"((?:[:=]|\bis)\s{0,3})\[{1,2}\s*([-+]?[0-9.]{1,20}(?:\s*/\s*[0-9.]{1,20})?)\s*\]{1,2}"
)
"""Matches a number in brackets, as in MT-Bench's "Rating: [[8]]"."""
_JUDGING = (  # verbs after a score that look like nouns in the plural
    r"(?:seems|looks|fits|remains|matches|deserves|feels|appears|sounds|suits|reflects|works|captures|describes|stands)"
)
_NO_NOUN = (
    rf"(?!{_JUDGING}\b|its\b|this\b|points\s+(?:{_JUDGING}|seem|look|appear|feel|would|is|are)\b)"
)
_COUNTS = (  # after a number that is no score: "3 characters", but not "5 seems"
    rf"\s+{_NO_NOUN}(?:[a-z]+\s+)?{_NO_NOUN}[a-z]{{2,}}s\b"
    r"(?!\s+(?:an?|the|it|its|this|me|my|better|best|more|fairer|right|closer)\b)"
)
_WORDS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
_SCORE_WORD = rf"\b(?:{'|'.join(_WORDS)})\b"
_IS_FAIRER = (
    rf"(?:{_JUDGING}|(?<=points\s)(?:seem|look|appear|feel)|(?:(?:is|are|(?:would|might|may)\s+be)\s+(?:\w+ly\s+|a\s+)?"
    r"(?:better|fairer|closer|right|enough|appropriate|more|too)))\b"
)
_JUDGED = re.compile(rf"\s+(?:points?\s+)?{_IS_FAIRER}", re.IGNORECASE)
_DEDUCTED = re.compile(
    r"\b(?:I|let\s+me|we)\s+(?:\w+\s+){0,3}?(?:deduct|subtract|take\s+off|(?:lower|raise|reduce|change)\s+"
    r"(?:(?:it|this|that|the\s+score|my\s+\w+)\s+)?by)\s+"
    rf"(?:an?\s+)?(?:[0-9]|{_SCORE_WORD}|points?\b)"
    rf"|(?:^|[.!?]\s|\n)\W{{0,4}}(?:minus|deduct)\s+(?:[0-9]|{_SCORE_WORD}|an?\s+point)",
    re.IGNORECASE,
)
_ANOTHER_SCORE = re.compile(  # in words, or as what the text deserves
    rf"\b(?:I|let\s+me|we)\s+(?:\w+\s+){{0,3}}?(?:lower|raise|reduce|change|revise)\s+(?:it|this|that|the\s+score|my\s+\w+)\s+(?:down\s+|up\s+)?to\s+"
    rf"(?:an?\s+)?(?P<new>[0-9]+(?:\.[0-9]+)?|{_SCORE_WORD})"
    rf"|(?<!\bno\s)(?P<fairer>(?:(?<=\ba\s)|(?!one\b(?!\s+points?\b))){_SCORE_WORD})(?:\s+points?)?\s+{_IS_FAIRER}"
    r"|\b(?:it|text|passage|essay|story|answer|response)\s+(?:\w+ly\s+|really\s+)?(?:deserves|merits|earns|warrants)\s+"
    rf"(?:(?:an?|only|at\s+most)\s+){{0,2}}(?P<deserved>[0-9]+(?:\.[0-9]+)?|{_SCORE_WORD}(?=\s+points?\b|\s*[.!,]|\s*\Z))",
    re.IGNORECASE,
)
_PLACE = re.compile(
    r"\b(?:sentence|section|chapter|step|paragraph|line|scene|part|page|point|act|item|stanza|verse|criterion|year)s?\s+\Z",
    re.IGNORECASE,
)
"""Matches, before a number, what it numbers."""
_OF_A_PART = re.compile(  # after a score that is not of the whole text
    r"[^.!?\n]{0,20}\b(?:only\s+)?(?:for|of|in)\s+(?:(?:the|its)\s+)(?:(?:first|second|third|last|opening|final|other)\s+\w+"
    r"|half|beginning|start|end|middle|introduction|rest)\b",
    re.IGNORECASE,
)
_OF_ANOTHER = re.compile(  # in the sentence before a score
    r"\A\W*(?:if(?!\s+I\b)|had|were|should|without|unless|suppos\w+|imagine)\b"
    r"|\A\W*(?:for|in)\s+(?:(?:the|its)\s+)(?:(?:first|second|third|last|opening|other)\s+\w+|half|beginning|start|end|middle"
    r"|introduction|rest)\b"
    r"|\b(?:a|another|the)\s+(?:perfect|ideal|flawless)\b|\bwhose\b",
    re.IGNORECASE,
)
_CORRECTED = re.compile(
    r"\b(?:actually|wait|hmm+|sorry|oops|correct(?:ion|ed)|revis(?:ed|ing|ion)|reconsider(?:ed|ing)?"
    r"|adjust(?:ed|ing)|updated|(?:down|up)grad(?:ed|ing)|bump(?:ed|ing)|chang(?:e|ed|ing)"
    r"|(?:after\s+)?(?:deduct|subtract|add)ing|(?<=[.!?]\s)(?:deduct|subtract|add)|I\s+(?:revise|lower|raise|reduce|adjust)|really|final(?:ly)?|lower(?:ed|ing)|rais(?:ed|ing)|on\s+(?:reflection|second\s+thoughts?)"
    r"|scratch\s+that|make\s+(?:it|that)|no,"
    r"|I(?:['\u2019](?:d|ll|m)|\s+(?:would|will|must|should|have\s+to|need\s+to|am))\s+(?:\w+\s+){0,2}?"
    r"(?:lower|raise|reduce|increase|deduct|subtract|add|adjust|change|give|giving|rate|say|go"
    r"|revis|settle|downgrade|upgrade)\w*)\b[^.!?\n]{0,40}?"
    r"(?:(?<![\w.])([0-9]{1,9}(?:\.[0-9]{1,9})?)(?![\w%])(?!\s+(?!points|"
    rf"was|{_JUDGING})[a-z]{{2,}}s\b)|{_SCORE_WORD}(?!\s+\w))",
    re.IGNORECASE,
)
"""Matches what corrects a score, with the new number."""

_LATER_NUMBER = re.compile(
    r"(?:(?<!\n)|(?![0-9]{1,2}[.)]\s))(?<![\w.,#\[-])(?<!paragraph )(?<!sentence )"
    r"([0-9]{1,9}(?:\.[0-9]{1,9})?)(?![A-Za-z0-9_%:]|\.[0-9])"
    rf"(?!{_COUNTS})"
)
"""Matches a number that is no ordinal and counts nothing."""
_SCALE = re.compile(r"(?:/|\b(?:of|to|von|bis|sur|de|out))\s*\Z", re.IGNORECASE)
_ANY_SCORE = re.compile(r"\b(?:an?|any|each|every|no)\s+(?:\w+\s+){0,2}\Z", re.IGNORECASE)
_ON_CONDITION = re.compile(
    r"\s*(?:/\s*[0-9]+\s*)?(?:only\s+(?:for|if|when|with|to)|if|unless|requires?|means"
    r"|is\s+(?:only|for|reserved|given))\b",
    re.IGNORECASE,
)
"""Matches what follows a number in a remark on the scale: a score of 10 is reserved for …"""
_HYPOTHESIS = re.compile(  # before a score: If the last sentence were removed,
    r"(?:\A|[.!?\n])[^\w.!?\n]*(?:if(?!\s+I\b)|had)\b[^.!?\n]{0,200},[^.!?\n]{0,40}\Z", re.I
)
_SENTENCE_END = re.compile(r"[.!?](?=\s)|\n|(?=\()")
_SENTENCE_BREAK = re.compile(r"[.!?]\s|\n")
_SENTENCE = re.compile(r"(?:[^.!?\n]|\.(?=\d))+")
_ANY_NUMBER = re.compile(r"(?<![\w.])[0-9]+(?:\.[0-9]+)?(?!\w)")
_LIMIT = re.compile(r"\b(?:max(?:imum)?|highest|best\s+possible)\b", re.IGNORECASE)
_CONJUNCTION = re.compile(r"\b(?:so|and|thus|therefore|hence)\b", re.IGNORECASE)


class NumberJudge(PromptJudge):
    """Asks for an analysis that concludes with a number.

    Args:
        prompt: Name of a built-in template, or a file. Fields: text, low, high, asked.
        pattern: Regular expression with the number as its only group. The last match counts.
        low: Lowest valid number.
        high: Highest valid number.
        samples: How often the question is asked.
        passes_from: Lowest mean that passes, or None for no verdict.
        temperature: Sampling temperature.
        max_tokens: Maximum tokens of a reply. A truncated reply has no number.
        where: Judge only instances in these groups: maps a label to a group or a list of groups.
    """

    def __init__(
        self,
        prompt: str = "coherence",
        pattern: str = COHERENCY,
        low: float = 1,
        high: float = 10,
        samples: int = 3,
        passes_from: float | None = None,
        temperature: float = 0.7,
        max_tokens: int = 1000,
        where: dict[str, str | list[str]] | None = None,
        *,
        task: Task[Any],
    ) -> None:
        template = JudgePrompt(prompt, {"low", "high"}, task)
        super().__init__(template, Decoding(temperature, max_tokens), samples, where)
        self._pattern = Pattern(pattern, "pattern", ignore_case=True)
        if self._pattern.groups != 1:
            problem = f"pattern has {self._pattern.groups} groups, but needs one for the number."
            raise ConfigError(problem, "Write the other groups as (?:…).")
        if not low < high:
            raise ConfigError(f"low ({low:g}) must be below high ({high:g}).")
        if passes_from is not None and not low <= passes_from <= high:
            raise ConfigError("passes_from must be between low and high.")
        self._low = low
        self._high = high
        self._passes_from = passes_from
        self.verdicts = passes_from is not None

    def questions(self, instance: Instance[Any], text: str) -> Sequence[Question]:
        """Return one question about the answer, or none if the instance is skipped."""
        if not self.judges(instance):
            return []
        return [self.question(instance, text, low=f"{self._low:g}", high=f"{self._high:g}")]

    def read(self, reply: Reply) -> float | None:
        """Return the number in a reply's last statement of a score, or None.

        The result is None if that statement is not a single number within the bounds, if the reply
        is truncated, and if the search takes too long.
        """
        if reply.is_truncated:
            return None
        own_words = without_quotations(reply.text)
        unmarked = strip_markup(own_words)
        texts = (_BRACKETED.sub(r"\1\2", unmarked), unmarked, own_words)
        for text in texts:  # a pattern may contain brackets and markup
            try:
                match = self._last(text)
                if match is None:
                    continue
                earlier = self._last(text[: match.start()])
            except PatternTooSlow:
                return None
            is_another = earlier is not None and earlier[1] != match[1]
            if is_another and not is_own_statement(text, match.start(), earlier.start()):
                return None
            return self._number(match, self._without_scale(text, match.end()))
        return None

    def _last(self, text: str) -> Any:
        """Return the last match of the pattern that is no limit, such as "Maximum score: 10"."""
        match = self._pattern.find(text, "last")
        while match is not None and is_limit(text, match.start()):
            match = self._pattern.find(text[: match.start()], "last")
        return match

    def _without_scale(self, text: str, end: int) -> str:
        """Return a text without later sentences whose only numbers are the bounds of the scale."""
        bounds = {f"{self._low:g}", f"{self._high:g}"}
        sentence_end = _SENTENCE_END.search(text, end)
        if sentence_end is None:
            return text
        start = sentence_end.end()

        def stated(sentence: re.Match[str]) -> str:
            numbers = set(_ANY_NUMBER.findall(sentence[0]))
            is_limit_only = numbers == {f"{self._high:g}"} and _LIMIT.search(sentence[0])
            return " " if numbers == bounds or is_limit_only else sentence[0]

        return text[:start] + _SENTENCE.sub(stated, text[start:])

    def _number(self, match: Any, text: str) -> float | None:
        """Return the number that a match and the text after it state, or None."""
        start, end = match.span(1)
        number = _RATING.match(text, start) if start >= 0 else None
        clause = _CONJUNCTION.split(text[: match.start()][-MAX_CLAUSE_CHARS:])[-1]
        if is_quoted(text, match.start()) or is_withdrawn(clause, len(clause)):
            return None
        if is_sample(text, match.start()) or _HYPOTHESIS.search(
            text_before(text, match.start(), MAX_SENTENCE_CHARS)
        ):
            return None
        if number is None or _ANY_SCORE.search(clause) or _ON_CONDITION.match(text, end):
            return None
        sentence = _SENTENCE_BREAK.split(text[: match.start()][-MAX_SENTENCE_CHARS:])[-1]
        if _OF_ANOTHER.search(sentence) or _OF_A_PART.match(text, end):
            return None
        for score in statements(text, SCORE):
            is_stated = _RATED.match(score.text) or (score.named and _WORD.fullmatch(score.text))
            if score.start > end and is_stated:
                return None
        value = Decimal(number[1])
        corrections = _CORRECTED.finditer(text, number.end())
        if any(match[1] is None or Decimal(match[1]) != value for match in corrections):
            return None
        if _DEDUCTED.search(text, number.end()):
            return None
        if is_retracted(text, number.end(), by_judge=True) or self._is_followed(
            text, number.end(), value
        ):
            return None
        scale = number[2]
        in_group = number.end(1) <= end
        in_scale = scale is None or Decimal(scale) == Decimal(str(self._high))
        if not (in_group and in_scale and self._low <= value <= self._high):
            return None
        return float(value)

    def _is_followed(self, text: str, end: int, value: Decimal) -> bool:
        """Return whether another number follows a score that may be meant instead of it."""
        for match in _LATER_NUMBER.finditer(text, end):
            number = Decimal(match[1])
            start = match.start()
            before = text[max(0, start - MAX_CLAUSE_CHARS) : start]
            is_scale = number == Decimal(str(self._high)) and _SCALE.search(before)
            if is_scale and _JUDGED.match(text, match.end()) is None:
                continue
            if number != value and not _PLACE.search(before):
                return True
        for match in _ANOTHER_SCORE.finditer(text, end):
            stated = match["new"] or match["fairer"] or match["deserved"]
            word = stated.lower()
            if Decimal(_WORDS.index(word) if word in _WORDS else word) != value:
                return True
        return False

    def parse(self, instance: Instance[Any], replies: Sequence[Reply]) -> Mapping[str, Score]:
        """Return ``score``, the mean of the valid numbers, or {} if the instance is skipped.

        Raises:
            Unparseable: If no reply has a valid number.
        """
        if not self.judges(instance):
            return {}
        readings = [self.read(reply) for reply in replies]
        value = mean_of_decided(readings)
        if value is None:
            raise Unparseable("No reply concludes with a number within the bounds.")
        reason = f"The score is {value:g}, below {self._passes_from or 0:g}."
        return {"score": threshold_score(value, self._passes_from, reason, {"readings": readings})}

    @override
    def simulated(self, request: Request) -> str:
        """Return COLLIE's conclusion with an 8, which a custom ``pattern`` may not match."""
        return "It hangs together well. Thus, the coherency score is 8."
