"""InFoBench: instructions decomposed into requirements, which are yes-or-no questions.

Qin et al. 2024 (arXiv 2401.03601). Only judges decide: the judge ``infobench`` uses the published
prompt, and ``yes_no`` uses our own. Without a judge, answers have no verdict.

The prompts in ``prompts/infobench/`` are the published prompts, byte for byte. By default, each
requirement is a separate call with the whole prompt. The authors instead ask all questions in one
conversation, and end it at the first reply that is neither yes nor no.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import zip_longest
from operator import itemgetter
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias

from msgspec import Meta, Struct
from msgspec.structs import replace
from typing_extensions import override

from harness.datasets.folder import DataFolder, sha256
from harness.datasets.rows import Row, convert_row, read_unique
from harness.errors import ConfigError, DataInvalid, Unparseable
from harness.ports import Task, read_paper
from harness.records import Criterion, Instance, Message, Question, Reply, Request, Score
from harness.scoring.conclusions import (
    is_quoted,
    is_reconsidered,
    statements,
    strip_markup,
    undecided_offsets,
)
from harness.scoring.judges import PublishedJudge, criteria_scores
from harness.scoring.quotations import replace_quotations

PUBLIC = "infobench/infobench.jsonl"  # your copy, in the data folder
BUILTIN = Path(__file__).with_name("builtin.jsonl")


_Text = Annotated[str, Meta(pattern=r"\S")]


class InfoBenchItem(Struct, frozen=True):
    """An instruction with its requirements: yes-or-no questions that an answer should meet."""

    instruction: _Text
    decomposed_questions: Annotated[list[_Text], Meta(min_length=1)]
    id: Any = None
    input: str | None = None
    category: str | None = None
    subset: str | None = None
    question_label: list[list[str]] | None = None
    answer: str | None = None


One: TypeAlias = Instance[InfoBenchItem]


class InfoBenchTask(Task[InfoBenchItem]):
    """Instructions decomposed into requirements, judged one by one (Qin et al. 2024).

    Args:
        dataset: ``builtin`` (a small example), ``public`` (your copy of the authors' 500
            instructions), or a path.
    """

    on_truncated = "grade"  # the authors judge truncated answers
    table = read_paper(__file__).table

    def __init__(self, dataset: str = "builtin", *, data: DataFolder) -> None:
        self.dataset = dataset
        names = {"builtin": str(BUILTIN), "public": PUBLIC}
        self.path = data.file(names.get(dataset, dataset))

    def instances(self) -> Iterator[One]:
        """Yield the instructions in file order."""
        for item in read_items(self.path):
            groups = {}
            if item.subset:
                groups["subset"] = item.subset
            if item.category:
                groups["category"] = item.category
            groups["n_requirements"] = str(len(item.decomposed_questions))
            yield Instance(item.id, item, groups)

    def fingerprint(self) -> Mapping[str, str]:
        """Return the name and hash of the data set."""
        return {"dataset": self.dataset, "dataset_sha256": sha256(self.path)}

    def messages(self, instance: One, shots: Sequence[One]) -> tuple[Message, ...]:
        """Return the instruction and input as one user message, in the authors' format."""
        item = instance.data
        return (Message("user", f"{item.instruction}\n\n{item.input or ''}\n"),)

    def score(self, instance: One, text: str) -> Mapping[str, Score]:
        """Return no scores, because only judges decide."""
        return {}

    def feedback(self, instance: One, text: str, scores: Mapping[str, Score]) -> str:
        """Return a request to answer again."""
        return "Your answer does not meet all that was asked for yet. Please answer again."

    def reference(self, instance: One) -> str | None:
        """Return an answer that meets the requirements, or None if none is known."""
        return instance.data.answer

    @override
    def instruction(self, instance: One) -> str:
        """Return the instruction and the input in one string, for a judge."""
        item = instance.data
        if not item.input:
            return item.instruction
        return f"{item.instruction}\n\n{item.input}"

    @override
    def criteria(self, instance: One) -> Sequence[Criterion]:
        """Return the requirements as criteria, with their labels as groups."""
        questions = instance.data.decomposed_questions
        labels = instance.data.question_label or [[] for _ in questions]
        criteria = []
        for question, question_labels in zip(questions, labels, strict=True):
            groups = {}
            if question_labels:
                groups["label"] = ", ".join(question_labels)
            criteria.append(Criterion(question, groups))
        return criteria

    def text_to_work_on(self, instance: One) -> str:
        """Return the instance's input text (empty if it has none), for a judge."""
        return instance.data.input or ""


def _item(raw: Row, where: str) -> InfoBenchItem:
    item = convert_row(raw, InfoBenchItem, where)
    n = len(item.decomposed_questions)
    labels = item.question_label
    if labels is not None and len(labels) != n:
        problem = f"{n} questions, but {len(labels)} lists in 'question_label'"
        raise DataInvalid(f"{where}: {problem}.", "Write one list of labels per question.")
    return replace(item, id=str(item.id or where.rpartition(" ")[2]))


read_items = partial(
    read_unique, build=_item
)  # yields the items; the default id is the row's number


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
        if not isinstance(task, InfoBenchTask):
            raise ConfigError(
                "The task does not have InFoBench's requirements.",
                "Use this judge with the task infobench, and the judge yes_no with others.",
            )
        super().__init__(max_tokens)
        self._task = task
        self._in_turn = conversation
        self._read = official_verdict if parser == "official" else verdict

    def questions(self, instance: Instance[Any], text: str) -> Sequence[Question]:
        """Return one question per requirement, or a conversation's first question."""
        criteria = self._task.criteria(instance)
        if self._in_turn:
            criteria = criteria[:1]
        questions = []
        for criterion in criteria:
            message = self._first(instance, text, criterion.text)
            questions.append(Question((message,), self.decoding))
        return questions

    @override
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
            question = self.message("later_question", {"question": criterion.text})
            messages += [Message("assistant", reply.text), question]
        return [Question(tuple(messages), self.decoding)]

    def parse(self, instance: Instance[Any], replies: Sequence[Reply]) -> Mapping[str, Score]:
        """Return the scores ``strict``, ``soft`` (see `criteria_scores`), ``met`` and ``decided``.

        ``met`` and ``decided`` are the numbers of requirements met and with a clear reply.

        Raises:
            Unparseable: If no reply is clear.
        """
        verdicts = [self._read(reply.text) for reply in replies]
        decided = len(verdicts) - verdicts.count(None)
        if not decided:
            raise Unparseable("No reply says yes or no.")
        criteria = self._task.criteria(instance)
        constraints = []
        for criterion, passed in zip_longest(criteria, verdicts):
            groups = dict(criterion.groups)
            constraints.append({"constraint": criterion.text, "passed": passed, "groups": groups})
        numbers = {"met": Score(verdicts.count(True)), "decided": Score(decided)}
        return {**criteria_scores(constraints), **numbers}

    @override
    def simulated(self, request: Request) -> str:
        """Return "YES" as the reply to every question."""
        return "YES"

    def _first(self, instance: Instance[Any], text: str, question: str) -> Message:
        fields = {"output": text, "question": question}
        name = "first_question_without_input"
        if input_text := self._task.text_to_work_on(instance):
            name = "first_question_with_input"
            fields["input"] = input_text
        return self.message(name, fields)


_SAID = {"yes": True, "no": False}
_WORD = re.compile(r"[^\W\d_]+")
_END = (
    r"(?=\s*(?:[.,;:!?()\]\u2013—]|-\s|\n|\Z)"
    r"|\s+(?:because|since|as|for|the|it|its|he|she|we|you|I|this|that|there|they|not|and|but)\b)"
)
_STATED = re.compile(rf"['\u2018(\[]?(yes|no)\b{_END}", re.IGNORECASE)
_FIRST = re.compile(rf"[\W\d_]*(?:(yes)\b|(no)\b{_END})", re.IGNORECASE)
_SENTENCE = re.compile(
    r"(?:^|[.!?:;…])[^\w\n.!?:;…]*(yes|no)\b(?=[^\w\n.!?]*(?:[.!](?!\s*\d)|\n|\Z))",
    re.IGNORECASE | re.M,
)
_NEITHER = re.compile(
    r"(?:un(?:clear|known|decided|determined)|n/a|not\s+(?:applicable|clear|sure)|maybe|perhaps"
    r"|partial(?:ly)?|neither|both|mostly|cannot"
    r"|yes\s*(?:/|or|and)\s*no|no\s*(?:/|or|and)\s*yes)\b",
    re.IGNORECASE,
)
_CLAUSE = re.compile(r"[.,;:!?\n\u2013—]|\b(?:so|hence|therefore|thus)\b", re.IGNORECASE)
LONGEST_END = 300  # characters of the end of a reply in which a condition is looked for
_NO_VERDICT = re.compile(  # the end of a reply that is a condition, a question or a request
    r"\b(?:yes|no)\W{1,4}(?:or|and)\W{1,4}(?:yes|no)\W*\Z|\bto\s+(?:say|answer|reply(?:\s+with)?)\W+(?:yes|no)\W*\Z"
    r"|\b(?:if|unless|otherwise|whether)\b[^.!?\n]*\W*\Z",
    re.I,
)
_MARKS = " \t\r\n.,;:!?\u2013—*_`'\"()[]"
_NEGATED = frozenset({"not", "n't", "t", "no", "neither", "nor", "than", "of"})


def verdict(text: str) -> bool | None:
    """Return True for yes, False for no, or None if a reply is unclear.

    The last statement decides: the first word, a phrase such as "answer: yes", or a sentence of one
    word. Without any, the last word decides. Case and quotations are ignored. A reply such as "yes
    or no" is unclear, and so is one whose last line contradicts itself.

    >>> [verdict(text) for text in ("No, it is not.", "Answer: **Yes**, I think", "Nothing: YES")]
    [False, True, True]
    >>> verdict("Not applicable.") is verdict("YES / NO") is None
    True
    >>> verdict('It contains "Answer: yes", an attempt to steer me. NO')
    False
    """
    text = strip_markup(replace_quotations(text))
    words = _WORD.findall(text.lower())
    if not words or {"yes", "no"} <= set(words) <= {"yes", "no", "and", "or"}:
        return None
    verdicts = sorted(_verdicts(text), key=itemgetter(0))
    if not verdicts:
        last_clause = _CLAUSE.split(text.rstrip(_MARKS))[-1]
        words = _WORD.findall(last_clause.lower())
        if not words or _NEGATED.intersection(words[:-1]):
            return None
        if _NO_VERDICT.search(text[-LONGEST_END:]):
            return None
        return _SAID.get(words[-1])
    last_offset, last_verdict = verdicts[-1]
    if is_reconsidered(text, last_offset):
        return None
    line_start = text.rfind("\n", 0, last_offset) + 1
    for offset, passed in verdicts:
        if offset >= line_start and passed != last_verdict:
            return None
    return last_verdict


def _verdicts(text: str) -> Iterator[tuple[int, bool | None]]:
    """Yield the offsets and the verdicts of statements, None for neither yes nor no."""
    if (first := _FIRST.match(text)) is not None:
        yield first.start(first.lastindex or 0), first[1] is not None
    for sentence in _SENTENCE.finditer(text):
        if not is_quoted(text, sentence.start(1)):
            yield sentence.start(1), _SAID[sentence[1].lower()]
    for statement in statements(text):
        if (stated := _STATED.match(text, statement.start)) is not None:
            yield stated.start(1), _SAID[stated[1].lower()]
        elif statement.binding and _NEITHER.match(statement.text):
            yield statement.start, None
    for offset in undecided_offsets(text):
        yield offset, None


def official_verdict(text: str) -> bool | None:
    """Return the verdict that the authors' code reads in a reply, or None if it reads none.

    A reply that begins with "yes" or "no", ignoring case, has this verdict ("Nothing" is no).
    Otherwise YES or NO in capitals decides, even within a word ("KNOW" is no), unless both occur.
    """
    lowered = text.lower()
    if lowered.startswith("yes"):
        return True
    if lowered.startswith("no"):
        return False
    yes = "YES" in text
    no = "NO" in text
    return None if yes == no else yes
