"""InFoBench's judge, which decides for each requirement whether the answer meets it.

Qin et al. 2024 (arXiv 2401.03601). The prompts in ``prompts/infobench/`` are the published prompts,
byte for byte. By default, each requirement is a separate call with the whole prompt. The authors
instead ask all questions in one conversation, and end it at the first reply that is neither yes nor
no.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Literal, Protocol, runtime_checkable

from harness.errors import ConfigError, Unparseable
from harness.ports import Judged, Task
from harness.records import Instance, Message, Question, Reply, Request, Score
from harness.scoring.judges import PublishedJudge
from harness.scoring.panel import criteria_scores


@runtime_checkable
class WithInput(Judged[Any], Protocol):
    """A task with criteria, some of whose instructions come with an input text."""

    def text_to_work_on(self, instance: Instance[Any]) -> str:
        """Return the instance's input text, or "" if it has none."""


class InfoBenchJudge(PublishedJudge):
    """Asks for each requirement whether the answer meets it: yes or no.

    Args:
        parser: How replies are read: ``safe``, or ``official`` to agree with the authors' code.
        conversation: Ask all questions in one conversation, as the authors do, until a reply is
            neither yes nor no. By default, each question is a separate call.
        max_tokens: Maximum tokens of a reply.
    """

    folder = "infobench"
    by_criteria = True

    def __init__(
        self,
        parser: Literal["safe", "official"] = "safe",
        conversation: bool = False,
        max_tokens: int = 512,
        *,
        task: Task[Any],
    ) -> None:
        if not isinstance(task, WithInput):
            raise ConfigError(
                "The task does not have InFoBench's requirements.",
                "Use this judge with the task infobench, and the judge yes_no with others.",
            )
        super().__init__(max_tokens)
        self._task, self._in_turn = task, conversation
        self._read = official_verdict if parser == "official" else verdict

    def questions(self, instance: Instance[Any], text: str) -> Sequence[Question]:
        """Return one question per requirement, or a conversation's first question."""
        criteria = self._task.criteria(instance)
        asked = criteria[:1] if self._in_turn else criteria
        return [Question((self._first(instance, text, one.text),), self.decoding) for one in asked]

    def next_questions(
        self, instance: Instance[Any], text: str, replies: Sequence[Reply]
    ) -> Sequence[Question]:
        """Return the conversation's next question, if there is one."""
        criteria = self._task.criteria(instance)
        done = len(replies) >= len(criteria) or self._read(replies[-1].text) is None
        if not self._in_turn or done:
            return []
        messages = [self._first(instance, text, criteria[0].text)]
        for reply, criterion in zip(replies, criteria[1:], strict=False):
            asked = self.message("later_question", {"question": criterion.text})
            messages += [Message("assistant", reply.text), asked]
        return [Question(tuple(messages), self.decoding)]

    def parse(self, instance: Instance[Any], replies: Sequence[Reply]) -> Mapping[str, Score]:
        """Return the scores ``strict``, ``soft`` (see `criteria_scores`), ``met`` and ``decided``.

        ``met`` and ``decided`` are the numbers of requirements met and with a clear reply.

        Raises:
            Unparseable: If no reply is clear.
        """
        found = [self._read(reply.text) for reply in replies]
        if all(passed is None for passed in found):
            raise Unparseable("No reply says yes or no.")
        criteria = self._task.criteria(instance)
        found += [None] * (len(criteria) - len(found))
        constraints = [
            {"constraint": one.text, "passed": passed, "groups": dict(one.groups)}
            for one, passed in zip(criteria, found, strict=True)
        ]
        decided = len(found) - found.count(None)
        numbers = {"met": Score(found.count(True)), "decided": Score(decided)}
        return {**criteria_scores(constraints), **numbers}

    def simulated(self, request: Request) -> str:
        """Return "YES" as the reply to every question."""
        return "YES"

    def _first(self, instance: Instance[Any], text: str, question: str) -> Message:
        given = self._task.text_to_work_on(instance)
        fields = {"input": given} if given else {}
        name = f"first_question_with{'' if given else 'out'}_input"
        return self.message(name, {**fields, "output": text, "question": question})


LONGEST = 20_000  # maximum characters at each end of a reply that are read

_SAID = {"yes": True, "no": False}
_WORD = re.compile(r"[^\W\d_]+")
_ANSWER = re.compile(r"\banswer(?: is)?\s{0,3}:?\s{0,3}[*_\"']{0,3}(yes|no)\b", re.IGNORECASE)


def verdict(text: str) -> bool | None:
    """Return True for yes, False for no, or None if a reply is unclear.

    The first word decides if it is yes or no, or else a phrase like "answer: yes", or else the last
    word. Case is ignored. A reply such as "yes or no" is unclear.

    >>> [verdict(said) for said in ("No, it is not.", "Answer: **Yes**, I think", "Nothing: YES")]
    [False, True, True]
    >>> verdict("Not applicable.") is verdict("YES / NO") is None
    True
    """
    words = _WORD.findall(f"{text[:LONGEST]} {text[LONGEST:][-LONGEST:]}".lower())
    if not words or {"yes", "no"} <= set(words) <= {"yes", "no", "and", "or"}:
        return None
    if words[0] in _SAID:
        return _SAID[words[0]]
    if (answer := _ANSWER.search(text[:LONGEST])) is not None:
        return _SAID[answer[1].lower()]
    return _SAID.get(words[-1])


def official_verdict(text: str) -> bool | None:
    """Return the verdict that the authors' code reads in a reply, or None if it reads none.

    A reply that begins with "yes" or "no", ignoring case, has this verdict ("Nothing" is no).
    Otherwise YES or NO in capitals decides, even within a word ("KNOW" is no), unless both occur.
    """
    start = text[:3].lower()
    if start == "yes" or start[:2] == "no":
        return start == "yes"
    yes, no = "YES" in text, "NO" in text
    return None if yes == no else yes


plugin = InfoBenchJudge
