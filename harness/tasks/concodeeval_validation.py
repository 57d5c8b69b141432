"""ConCodeEval, validation: does a sample obey every constraint of a schema written as code?

Kammakomati et al. 2024, arXiv 2407.03387. The other task is `concodeeval_generation`, whose data
and representations these are.

>>> task = ConCodeEvalValidation(representation="xml", data=folder)  # doctest: +SKIP
>>> task.reference(next(task.instances()))  # doctest: +SKIP
'yes'
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Literal, NamedTuple

from harness.datasets.folder import DataFolder
from harness.errors import ConfigError, DataInvalid
from harness.ports import PaperTable, TableFigure
from harness.records import ConstraintKind, DecodingConstraint, Instance, Message, Score
from harness.scoring.validators import FORMATS, Format, Mode, Violation, render, validator
from harness.tasks.concodeeval.asking import NAMES
from harness.tasks.concodeeval.data import Label, SchemaRow
from harness.tasks.concodeeval.data import Sample as SampleRow
from harness.tasks.concodeeval.positions import Constraints, sample_third
from harness.tasks.concodeeval.representations import Representation, Wording
from harness.tasks.concodeeval.setting import Setting
from harness.tasks.concodeeval.yes_no import said


class Item(NamedTuple):
    """A schema and a sample, as the prompt shows them.

    label: whether the sample is valid.
    violation: the first thing that it violates, where it is not.
    """

    row: SchemaRow
    text: str
    sample: str
    output: Format
    label: Label
    violation: Violation | None


class ConCodeEvalValidation:
    """ConCodeEval: does a sample obey every constraint of a schema written as code?

    dataset: ``builtin``, or a folder of ``harness build concodeeval``.
    representation: of the schema: json, yaml, xml, python or natural_language.
    outputs: the formats that samples are shown in.
    prompt: chat (our wording), paper (the authors'), or a template file of one's own.
    wording: of natural_language: corrected, or paper, which says "greater" of maxima; null for
        paper where the prompt is that.
    mode: whose validation the right answers are: strict (Draft 2020-12, formats asserted, exact
        numbers) or paper (Draft 7, no formats, floats).
    """

    on_truncated: Literal["fail", "grade"] = "grade"
    constraint_kind: ConstraintKind = "choices"
    table = PaperTable(
        rows="representation",
        columns="output",
        figures=(
            TableFigure("Val Acc", of="passed"),
            TableFigure("Val Acc, answered", of="answered", score="correct"),
            TableFigure("Macro-F1", of="macro_f1", score="correct", label="label"),
        ),
        source="Kammakomati et al. 2024, arXiv 2407.03387, table 1",
    )

    def __init__(
        self,
        dataset: str = "builtin",
        representation: Representation = "json",
        outputs: list[Format] = list(FORMATS),  # noqa: B006 (read only)
        prompt: str = "chat",
        wording: Wording | None = None,
        mode: Mode = "strict",
        *,
        data: DataFolder,
    ) -> None:
        self.mode = mode
        self._setting = Setting(
            "validation",
            dataset=dataset,
            representation=representation,
            outputs=outputs,
            prompt=prompt,
            wording=wording,
            mode=mode,
            data=data,
        )
        if not any(self._setting.benchmark.samples.values()):
            raise ConfigError(
                f"The data set {dataset!r} has schemas and no samples to be judged.",
                "Take builtin, or make one: harness build concodeeval.",
            )

    def instances(self) -> Iterator[Instance[Item]]:
        """Each sample in each output format; those of schemas that say the same are one cluster.

        Of a sample that is not valid, the groups tell the violated ``keyword``, in which third of
        the prompted schema that stands, and in which third of the sample what violates it.

        Raises: DataInvalid for a sample that has no text in a format, or another label than its
            schema gives it.
        """
        for shown in self._setting.schemas():
            for found in self._setting.benchmark.samples[shown.row.id]:
                label, violation = self._judged(shown.row, found)
                for output in self._setting.outputs:
                    sample = render(found.value, output)
                    groups = {"label": label, **self._setting.groups(shown.row, output)}
                    if violation is not None:
                        groups |= _places(violation, sample, output, shown.constraints)
                    item = Item(shown.row, shown.text, sample, output, label, violation)
                    yield Instance(f"{found.id}/{output}", item, groups, shown.row.digest)

    def _judged(self, row: SchemaRow, found: SampleRow) -> tuple[Label, Violation | None]:
        label = found.label if self.mode == "strict" else found.paper_label
        violations = validator(row.schema, mode=self.mode).violations(found.value)
        if bool(violations) != (label == "no"):
            raise DataInvalid(
                f"The sample {found.id!r:.80} is labelled {label!r}, but its schema says otherwise"
                f" ({violations[0].message if violations else 'it is valid'}).",
                "Build the data set anew, or mend the label.",
            )
        return label, violations[0] if violations else None

    def fingerprint(self) -> Mapping[str, str]:
        """Data and prompt; the rest is in the run file."""
        return self._setting.fingerprint()

    def messages(
        self, instance: Instance[Item], shots: Sequence[Instance[Item]]
    ) -> tuple[Message, ...]:
        """Schema, sample and the question; with shots, the question of each, answered."""
        item = instance.data
        shown = [
            {"schema": shot.data.text, "sample": shot.data.sample, "answer": shot.data.label}
            for shot in shots
        ]
        fields = {"schema": item.text, "sample": item.sample, "output": NAMES[item.output]}
        return self._setting.asking.messages(fields, shown)

    def score(self, instance: Instance[Item], text: str) -> Mapping[str, Score]:
        """``correct``: whether the answer is right.

        Raises: Unparseable for a reply that says neither yes nor no.
        """
        answer, item = said(text), instance.data
        if answer == item.label:
            return {"correct": Score(True, True, details={"said": answer})}
        if item.violation is None:
            kind, reason = "valid", "said no of a valid sample"
        else:
            kind, reason = item.violation.keyword, f"said yes, but {item.violation.message}"
        details = {"said": answer, "keywords": {kind: 1}}
        return {"correct": Score(False, False, reason, details)}

    def feedback(self, instance: Instance[Item], text: str, scores: Mapping[str, Score]) -> str:
        """Whether the answer is right; to say that it is not gives the other away."""
        if scores["correct"].passed:
            return "That is right."
        return "That is not right. Please look at each constraint once more, and answer again."

    def reference(self, instance: Instance[Item]) -> str:
        """yes or no."""
        return instance.data.label

    def wrong_answer(self, instance: Instance[Item]) -> str:
        """The other one."""
        return "no" if instance.data.label == "yes" else "yes"

    def leaks(self, instance: Instance[Item], shot: Instance[Item]) -> bool:
        """Whether the shot is about the same schema: its answer tells of the instance's."""
        return instance.data.row.digest == shot.data.row.digest

    def constraint(self, instance: Instance[Item]) -> DecodingConstraint:
        """yes or no."""
        return DecodingConstraint(choices=("yes", "no"))


def _places(
    violation: Violation, sample: str, output: Format, constraints: Constraints
) -> dict[str, str]:
    """The violated keyword, and the thirds of schema and sample where it is violated."""
    # In the value's text, which has one reading: paper labels do not depend on the format.
    found = {
        "keyword": violation.keyword,
        "sample_third": sample_third(sample, output, violation.path, "strict"),
    }
    if violation.schema_path in constraints.thirds:
        found["schema_third"] = constraints.thirds[violation.schema_path]
    return found


plugin = ConCodeEvalValidation
