"""ConCodeEval's validation task: decide whether a sample satisfies a schema written as code.

Kammakomati et al. 2024, arXiv 2407.03387. The answer is a reply's first word, if that is yes or no.
Otherwise it is the last line, if that is only yes or no, or else the word after the last "answer"
or "answer is". Without any of these, it is the yes or no that stands alone anywhere in the reply,
which must not contain both. A "no" before a noun ("no errors", 'no "required" member') does not
count, nor does "Yes/No".
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple, TypeAlias, cast

from typing_extensions import override

from harness.errors import DataInvalid, Unparseable
from harness.plugins.benchmarks.concodeeval.documents import Format, render
from harness.plugins.benchmarks.concodeeval.schema import sample_third
from harness.plugins.benchmarks.concodeeval.setting import (
    NAMES,
    VALIDATION_SOURCE,
    ConCodeEval,
    Label,
    SchemaRow,
)
from harness.plugins.benchmarks.concodeeval.setting import Sample as SampleRow
from harness.ports import PaperTable, TableFigure
from harness.records import ConstraintKind, DecodingConstraint, Instance, Message, Score
from harness.scoring.validators import Violation, validator

_ENDS = r"[*_`'\")\]}]*(?:[.,;:!?…]|\s*(?:[-\u2013\u2014]|\n|\Z|</|<\|))"
_FOLLOWS = r"\s+(?:it|this|that|the|because|since|as|based)\b"
_MARKED = r"[*_`]+(?!\w)"
_ITSELF = rf"(yes|no)(?={_ENDS}|{_FOLLOWS}|{_MARKED})"
_QUESTION = re.compile(r"\b(?:yes|no)\s*(?:[/|]|or\b)\s*(?:yes|no)\b", re.IGNORECASE)
_FIRST = re.compile(rf"[\W_]*{_ITSELF}", re.IGNORECASE)
_LAST_LINE = re.compile(r"[\W_]*(yes|no)[\W_]*", re.IGNORECASE)
_CONCLUSION = re.compile(rf"\banswer\b(?:\s+is)?[\W_]{{0,9}}{_ITSELF}", re.IGNORECASE)
_ANY = re.compile(rf"(?<!\w){_ITSELF}", re.IGNORECASE)

LONGEST = 100_000  # maximum characters to read, from the end of a reply


class ValidationItem(NamedTuple):
    """A schema, a sample and its label, with the first violation of an invalid sample."""

    row: SchemaRow
    text: str
    sample: str
    output: Format
    label: Label
    violation: Violation | None


One: TypeAlias = Instance[ValidationItem]


class ConCodeEvalValidation(ConCodeEval):
    """ConCodeEval: decide whether a sample satisfies a schema written as code.

    Args:
        dataset: ``builtin``, or a folder made by ``harness build concodeeval``.
        representation: How the schema is shown: json, yaml, xml, python or natural_language.
        outputs: The formats in which samples are shown.
        prompt: chat (our wording), paper or granite (the authors' prompt with their system message
            for Llama or Granite), or your own template file.
        wording: For natural_language: corrected, or paper (the authors' text, which says "greater"
            for some maxima). Default: paper with the authors' prompts, else corrected.
        mode: The validation that decides: strict (Draft 2020-12, formats asserted, exact numbers)
            or paper (Draft 7, no formats, floats).
    """

    part = "validation"
    prompts = ("chat", "paper", "granite")
    prompt_fields = frozenset({"schema", "input", "output", "shots", "sample"})
    constraint_kind: ConstraintKind = "choices"
    table = PaperTable(
        rows="representation",
        columns="output",
        figures=(
            TableFigure("Val Acc", of="passed"),
            TableFigure("Val Acc, answered", of="answered", score="correct"),
            TableFigure("Macro-F1", of="macro_f1", score="correct", label="label"),
            TableFigure(
                "Macro-F1, answered", of="macro_f1_answered", score="correct", label="label"
            ),
        ),
        source=VALIDATION_SOURCE,
    )

    def instances(self) -> Iterator[One]:
        """Yield each sample in each output format. Samples of equal schemas form one cluster.

        An invalid sample also has the groups ``keyword`` and ``sample_third`` and, if the keyword
        was located, ``schema_third``.
        """
        for row, text, constraints in self.schemas:
            for found in self.benchmark.samples[row.id]:
                label, violation = self._judged(row, found)
                for output in self.outputs:
                    sample = render(found.value, output)
                    groups = {"label": label, **self.groups(row, output)}
                    if violation is not None:
                        # Read strictly in both modes: paper labels do not depend on the format.
                        place = sample_third(sample, output, violation.path, "strict")
                        groups |= {"keyword": violation.keyword, "sample_third": place}
                        groups |= constraints.found.get(violation.schema_path, {}).get("groups", {})
                    item = ValidationItem(row, text, sample, output, label, violation)
                    yield Instance(f"{found.id}/{output}", item, groups, row.digest)

    def _judged(self, row: SchemaRow, found: SampleRow) -> tuple[Label, Violation | None]:
        label = found.label if self.mode == "strict" else found.paper_label
        violations = validator(row.schema, mode=self.mode).violations(found.value)
        if bool(violations) != (label == "no"):
            problem = violations[0].message if violations else "it is valid"
            said = f"{found.id!r:.80} is labelled {label!r}; its schema says otherwise ({problem})."
            raise DataInvalid(said, "Rebuild the data set, or correct the label.")
        return label, violations[0] if violations else None

    def messages(self, instance: One, shots: Sequence[One]) -> tuple[Message, ...]:
        """Return the conversation: the shots with their answers, the schema and the sample."""
        item = instance.data
        shown = [
            {"schema": shot.data.text, "sample": shot.data.sample, "answer": shot.data.label}
            for shot in shots
        ]
        fields = {"schema": item.text, "sample": item.sample, "output": NAMES[item.output]}
        return self.conversation(fields, shown)

    def score(self, instance: One, text: str) -> Mapping[str, Score]:
        """Return the score ``correct``: whether the answer (yes or no) is right.

        Raises:
            Unparseable: If the reply has neither yes nor no, or both.
        """
        answer, item = yes_or_no(text), instance.data
        if answer == item.label:
            return {"correct": Score(True, True, details={"said": answer})}
        if item.violation is None:
            kind, reason = "valid", "said no of a valid sample"
        else:
            kind, reason = item.violation.keyword, f"said yes, but {item.violation.message}"
        details = {"said": answer, "keywords": {kind: 1}}
        return {"correct": Score(False, False, reason, details)}

    def feedback(self, instance: One, text: str, scores: Mapping[str, Score]) -> str:
        """Return feedback on whether the answer, yes or no, is right. It reveals the solution."""
        if scores["correct"].passed:
            return "That is right."
        return "That is not right. Please look at each constraint once more, and answer again."

    def reference(self, instance: One) -> str:
        """Return the correct answer, yes or no."""
        return instance.data.label

    @override
    def wrong_answer(self, instance: One) -> str:
        """Return the incorrect answer, yes or no."""
        return "no" if instance.data.label == "yes" else "yes"

    @override
    def leaks(self, instance: One, shot: One) -> bool:
        """Return whether shot and instance have the same schema, so that the shot is a hint."""
        return instance.data.row.digest == shot.data.row.digest

    @override
    def constraint(self, instance: One) -> DecodingConstraint:
        """Return the decoding constraint: a choice of yes or no."""
        return DecodingConstraint(choices=("yes", "no"))


def yes_or_no(text: str) -> Label:
    """Return the answer (yes or no) in a reply, as the module's docstring says.

    Raises:
        Unparseable: If the reply has neither yes nor no, or both.
    """
    text = _QUESTION.sub("", text[-LONGEST:]).strip()
    last_line = text.rpartition("\n")[2]
    if first := _FIRST.match(text):
        found = [first[1]]
    elif last := _LAST_LINE.fullmatch(last_line.strip()[:40]):
        found = [last[1]]
    else:
        found = _CONCLUSION.findall(text)[-1:] or _ANY.findall(text)
    answers = {word.lower() for word in found}
    if len(answers) != 1:
        raise Unparseable("both yes and no" if answers else "neither yes nor no")
    return cast("Label", answers.pop())
