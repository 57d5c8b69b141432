"""ConCodeEval, validation: does a sample obey every constraint of a schema written as code?

Kammakomati et al. 2024, arXiv 2407.03387. The other task is `concodeeval_generation`, whose data
and representations these are.

>>> task = ConCodeEvalValidation(representation="xml", data=folder)  # doctest: +SKIP
>>> task.gold(next(task.instances()))  # doctest: +SKIP
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
from harness.tasks.concodeeval import data as datasets
from harness.tasks.concodeeval.asking import NAMES, Asking
from harness.tasks.concodeeval.data import Label, SchemaRow, refuse_broken
from harness.tasks.concodeeval.data import Sample as SampleRow
from harness.tasks.concodeeval.positions import Constraints, sample_third
from harness.tasks.concodeeval.representations import Representation, Wording
from harness.tasks.concodeeval.representations import render as rendered
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
        self.dataset, self.representation, self.mode = dataset, representation, mode
        self.outputs = outputs
        if not outputs or len(set(outputs)) < len(outputs):
            raise ConfigError("task.outputs names formats, each once.", "Write [json, yaml, xml].")
        self.wording: Wording = wording or ("paper" if prompt == "paper" else "corrected")
        self._asking = Asking("validation", prompt, representation, data)
        self._benchmark = datasets.read(dataset, data)
        if not any(self._benchmark.samples.values()):
            raise ConfigError(
                f"The data set {dataset!r} has schemas and no samples to be judged.",
                "Take builtin, or make one: harness build concodeeval.",
            )
        refuse_broken(self._benchmark.schemas, mode)

    def instances(self) -> Iterator[Instance[Item]]:
        """Each sample in each output format; those of schemas that say the same are one cluster.

        Of a sample that is not valid, the groups tell the violated ``keyword``, in which third of
        the prompted schema that stands, and in which third of the sample what violates it.

        Raises: DataInvalid for a sample that has no text in a format, or another label than its
            schema gives it.
        """
        for row in self._benchmark.schemas:
            text = rendered(row.schema, self.representation, wording=self.wording)
            constraints = Constraints.of(row.schema, self.representation, self.wording)
            for found in self._benchmark.samples[row.id]:
                label, violation = self._judged(row, found)
                for output in self.outputs:
                    sample = render(found.value, output)
                    groups: dict[str, str] = {
                        "label": label,
                        "output": output,
                        "representation": self.representation,
                        "root": row.root,
                        **({"range": row.range} if row.range else {}),
                    }
                    if violation is not None:
                        groups["keyword"] = violation.keyword
                        # In the value's text alone: paper labels do not depend on the format.
                        at = sample_third(sample, output, violation.path, "strict")
                        groups["sample_third"] = at
                        if violation.schema_path in constraints.thirds:
                            groups["schema_third"] = constraints.thirds[violation.schema_path]
                    item = Item(row, text, sample, output, label, violation)
                    yield Instance(f"{found.id}/{output}", item, groups, cluster=row.digest)

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
        return {
            "dataset": self.dataset,
            "dataset_sha256": self._benchmark.digest,
            "prompt_sha256": self._asking.sha256,
        }

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
        return self._asking.messages(fields, shown)

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

    def gold(self, instance: Instance[Item]) -> str:
        """yes or no."""
        return instance.data.label

    def wrong(self, instance: Instance[Item]) -> str:
        """The other one."""
        return "no" if instance.data.label == "yes" else "yes"

    def gives_away(self, instance: Instance[Item], shot: Instance[Item]) -> bool:
        """Whether the shot is about the same schema: its answer tells of the instance's."""
        return instance.data.row.digest == shot.data.row.digest

    def constraint(self, instance: Instance[Item]) -> DecodingConstraint:
        """yes or no."""
        return DecodingConstraint(choices=("yes", "no"))


plugin = ConCodeEvalValidation
