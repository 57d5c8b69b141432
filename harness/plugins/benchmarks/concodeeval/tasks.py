"""ConCodeEval's tasks (Kammakomati et al. 2024, arXiv 2407.03387).

``concodeeval_generation``: write a sample that satisfies a schema written as code.

``concodeeval_validation``: decide whether a sample satisfies a schema. The answer is a reply's
first word, if that is yes or no. Otherwise it is the last line, if that is only yes or no, or else
the word after the last "answer" or "answer is". Without any of these, it is the yes or no that
stands alone anywhere in the reply, which must not contain both. A "no" before a noun ("no errors",
'no "required" member') does not count, nor does "Yes/No".
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, NamedTuple, TypeAlias, cast

from msgspec.structs import replace
from pydantic import AfterValidator, Field, ValidationInfo
from typing_extensions import override

from harness.datasets.folder import DataFolder
from harness.errors import ConfigError, DataInvalid, Unparseable
from harness.plugins.benchmarks.concodeeval import documents
from harness.plugins.benchmarks.concodeeval.documents import FORMATS, Format, Mode, render
from harness.plugins.benchmarks.concodeeval.documents.json_text import root_type_violated
from harness.plugins.benchmarks.concodeeval.schema import (
    Constraints,
    Representation,
    Wording,
    sample_third,
)
from harness.plugins.benchmarks.concodeeval.setting import (
    NAMES,
    ConCodeEval,
    Label,
    SchemaRow,
)
from harness.plugins.benchmarks.concodeeval.setting import Sample as SampleRow
from harness.ports import read_paper
from harness.records import ConstraintKind, DecodingConstraint, Instance, Message, Score
from harness.scoring.extraction import can_read
from harness.scoring.validators import (
    BlockExtraction,
    NoAnswerBlock,
    Undecided,
    UnparseableDocument,
    Violation,
    validator,
)
from harness.scoring.validators.schemas import score_violations


class GenerationItem(NamedTuple):
    """A schema, its text in the prompt, its constraints, and the requested format."""

    row: SchemaRow
    text: str
    constraints: Constraints
    output: Format


GenerationInstance: TypeAlias = Instance[GenerationItem]

# By prompt (others: ``fence``). The authors' prompts end with an open code block.
DEFAULT_EXTRACTION = {"paper": "open_fence", "plain": "open_fence"}


def _chosen(extraction: str | None, info: ValidationInfo) -> str:
    """Return the extraction, or else the prompt's default."""
    return extraction or DEFAULT_EXTRACTION.get(info.data.get("prompt", ""), "fence")


ChosenExtraction = Annotated[str | None, AfterValidator(_chosen), Field(validate_default=True)]


class ConCodeEvalGeneration(ConCodeEval):
    """ConCodeEval: write a sample in JSON, YAML or XML that satisfies a schema written as code.

    Args:
        dataset: ``builtin``, ``recorded``, a folder made by ``harness build concodeeval``, or a
            JSONL file of schemas.
        representation: How the schema is shown: json, yaml, xml, python or natural_language.
        outputs: The requested formats.
        prompt: chat (our wording), paper (the authors' prompt with their system message for Llama),
            plain (the authors' prompt without it), or your own template file.
        wording: For natural_language: corrected, or paper (the authors' text, which says "greater"
            for some maxima). Default: paper with the authors' prompts, else corrected.
        mode: strict (Draft 2020-12, formats asserted, exact numbers, XML read by its schema) or
            paper (Draft 7, no formats, floats, xmltodict).
        extraction: How to find the sample in a reply: fence, open_fence, last_fence, whole, json,
            tags:NAME or brackets:NAME. Default: open_fence with the authors' prompts, else fence.
    """

    part = "generation"
    prompts = ("chat", "paper", "plain")
    prompt_fields = frozenset({"schema", "input", "output", "shots"})
    table = read_paper(__file__, "generation.yaml").table

    def __init__(
        self,
        dataset: str = "builtin",
        representation: Representation = "json",
        outputs: list[Format] = list(FORMATS),  # noqa: B006 (read only)
        prompt: str = "chat",
        wording: Wording | None = None,
        mode: Mode = "strict",
        extraction: ChosenExtraction = None,
        *,
        data: DataFolder,
    ) -> None:
        super().__init__(dataset, representation, outputs, prompt, wording, mode, data=data)
        self._extraction = BlockExtraction(extraction or DEFAULT_EXTRACTION.get(prompt, "fence"))
        self._samples: dict[tuple[str, Format], tuple[str, Any] | None] = {}

    def instances(self) -> Iterator[GenerationInstance]:
        """Yield an instance per schema and output format. Equal schemas form one cluster."""
        for row, text, constraints in self.schemas:
            for output in self.outputs:
                item = GenerationItem(row, text, constraints, output)
                groups = self.groups(row, output)
                yield Instance(f"{row.id}/{output}", item, groups, row.digest)

    def messages(
        self, instance: GenerationInstance, shots: Sequence[GenerationInstance]
    ) -> tuple[Message, ...]:
        """Return the conversation, with those shots whose schema has a valid sample."""
        item = instance.data
        examples = []
        for shot in shots:
            sample = self._sample(shot.data)
            if sample is not None:
                examples.append({"schema": shot.data.text, "sample": sample[0]})
        return self.conversation({"schema": item.text, "output": NAMES[item.output]}, examples)

    def score(self, instance: GenerationInstance, text: str) -> Mapping[str, Score]:
        """Return ``valid``, which alone decides whether an answer passes, and the kinds of failure.

        - ``no_block``: the reply has no sample.
        - ``unparseable``: the sample is not valid in its format.
        - ``invalid_sample``: either of these (the paper's IS%).
        - ``root_type_violated``: the type of the sample's root is not the one in the schema (the
          paper's RTV%). Integers and floats are both numbers.

        The details of ``valid`` list the `Constraints` that apply to the sample. If the validator
        cannot decide, ``valid`` has no value.

        Raises:
            NoAnswerBlock, UnparseableDocument: If the sample cannot be found or read. The error has
                the scores.
        """
        item = instance.data
        try:
            sample = self._extraction.read(text)
            value = documents.read(sample, item.output, mode=self.mode, schema=item.row.schema)
        except (NoAnswerBlock, UnparseableDocument) as error:
            error.scores = _unread(error.kind == "no answer block")
            raise
        counted = dict.fromkeys(("no_block", "unparseable", "invalid_sample"), Score(False))
        counted["root_type_violated"] = Score(root_type_violated(value, item.row.schema))
        try:
            violations = self._violations(item, value)
        except Undecided as error:
            return {"valid": Score(None, reason=str(error)[:300]), **counted}
        valid = score_violations(violations)
        met = item.constraints.met(violations, value, sample, item.output, self.mode)
        return {"valid": replace(valid, details={**valid.details, "constraints": met}), **counted}

    @override
    def extracted(self, instance: GenerationInstance, text: str) -> str | None:
        """Return the sample in a reply, or None if it has none."""
        try:
            return self._extraction.read(text)
        except NoAnswerBlock:
            return None

    @override
    def score_of_no_answer(self, instance: GenerationInstance) -> Mapping[str, Score]:
        """Return the scores of a reply without a sample."""
        return _unread(no_block=True)

    def feedback(self, instance: GenerationInstance, text: str, scores: Mapping[str, Score]) -> str:
        """Return feedback that calls the sample valid or names the constraints that it violates."""
        valid = scores["valid"]
        if valid.value is None:
            return "The sample could not be checked. Please write a simpler one, in the same form."
        if valid.passed:
            return "That sample is valid."
        problem = f"The sample does not obey the schema: {valid.reason}."
        return f"{problem} Please write it again, in the same form."

    def reference(self, instance: GenerationInstance) -> str | None:
        """Return an answer with a valid sample, or None if the data set has none for the schema."""
        sample = self._sample(instance.data)
        return None if sample is None else self._extraction.write(sample[0])

    @override
    def wrong_answer(self, instance: GenerationInstance) -> str | None:
        """Return an answer that fails, or None if a simulated model should write a sentence."""
        item = instance.data
        all_samples = self.benchmark.samples.get(item.row.id, ())
        samples = [sample for sample in all_samples if sample.label == "no"]
        chance = random.Random(instance.id)
        kind = chance.choice(("sample", "sample", "sentence", "broken"))
        if kind == "sentence" or not samples:
            return None
        text = "{[ <"
        if kind != "broken":
            text = documents.render(chance.choice(samples).value, item.output)
        answer = self._extraction.write(text.removesuffix("\n"))
        try:
            passes = self.score(instance, answer)["valid"].passed
        except Unparseable:
            return answer
        return None if passes else answer

    @override
    def leaks(self, instance: GenerationInstance, shot: GenerationInstance) -> bool:
        """Return whether the shot's sample is also valid under the instance's schema."""
        sample = self._sample(shot.data)
        return sample is not None and not self._violations(instance.data, sample[1])

    def _violations(self, item: GenerationItem, value: Any) -> Sequence[Violation]:
        return validator(item.row.schema, mode=self.mode).violations(value)

    def _sample(self, item: GenerationItem) -> tuple[str, Any] | None:
        """Return the text and value of a schema's first valid sample, if there is one."""
        key = (item.row.id, item.output)
        if key not in self._samples:
            self._samples[key] = self._first_valid(item)
        return self._samples[key]

    def _first_valid(self, item: GenerationItem) -> tuple[str, Any] | None:
        for candidate in self.benchmark.samples.get(item.row.id, ()):
            if candidate.label == "yes" and (sample := self._tried(item, candidate.value)):
                return sample
        return None

    def _tried(self, item: GenerationItem, value: Any) -> tuple[str, Any] | None:
        """Return a value's text and the value read back from it, or None if the text is invalid."""
        try:
            text = documents.render(value, item.output).removesuffix("\n")
            back = documents.read(text, item.output, mode=self.mode, schema=item.row.schema)
        except (DataInvalid, UnparseableDocument):
            return None
        # The authors' xmltodict reads any XML as an object, never as a number.
        return None if self._violations(item, back) else (text, back)

    @override
    def prompt_errors(self) -> list[str]:
        """Return a warning if the extraction cannot read the form that the prompt asks for."""
        text = self._user.text
        name = self._extraction.name
        opens = re.search(r"```\w*\s*\Z", text) is not None and text.count("```") % 2 == 1
        readable = can_read(self._extraction, "[1]\n```" if opens else "```\n[1]\n```")
        if name == "whole":
            readable = list(self.outputs) == ["json"]  # decoding may be constrained to the sample
        if readable or (self._own_prompt and not opens):
            return []
        problem = f"a block (```), where the extraction {name!r} finds no sample."
        if opens:
            return [f"The prompt opens {problem} Set task.extraction to open_fence."]
        return [f"The prompt asks for {problem} Set task.extraction to fence."]

    @property
    @override
    def constraint_kind(self) -> ConstraintKind:
        """The kind of decoding constraint: ``json_schema``.

        Raises:
            ConfigError: If the outputs or the extraction do not suit this constraint.
        """
        if list(self.outputs) != ["json"] or self._extraction.name not in ("whole", "json"):
            raise ConfigError(
                "decoding.constraint: a schema constrains answers to JSON, without a code block.",
                "Set task.outputs to [json] and task.extraction to whole.",
            )
        return "json_schema"

    @override
    def constraint(self, instance: GenerationInstance) -> DecodingConstraint:
        """Return the instance's schema as the decoding constraint."""
        return DecodingConstraint(json_schema=dict(instance.data.row.schema))


def _unread(no_block: bool) -> dict[str, Score]:
    reason = "no sample" if no_block else "a sample that cannot be read"
    return {
        "valid": Score(False, False, reason),
        "no_block": Score(no_block),
        "unparseable": Score(not no_block),
        "invalid_sample": Score(True),
        "root_type_violated": Score(False),
    }


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


ValidationInstance: TypeAlias = Instance[ValidationItem]


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
    table = read_paper(__file__, "validation.yaml").table

    def instances(self) -> Iterator[ValidationInstance]:
        """Yield each sample in each output format. Samples of equal schemas form one cluster.

        An invalid sample also has the groups ``keyword`` and ``sample_third`` and, if the keyword
        was located, ``schema_third``.
        """
        for row, text, constraints in self.schemas:
            for row_sample in self.benchmark.samples[row.id]:
                label, violation = self._judged(row, row_sample)
                for output in self.outputs:
                    sample = render(row_sample.value, output)
                    groups = {"label": label, **self.groups(row, output)}
                    if violation is not None:
                        # Read strictly in both modes: paper labels do not depend on the format.
                        place = sample_third(sample, output, violation.path, "strict")
                        groups |= {"keyword": violation.keyword, "sample_third": place}
                        groups |= constraints.found.get(violation.schema_path, {}).get("groups", {})
                    item = ValidationItem(row, text, sample, output, label, violation)
                    yield Instance(f"{row_sample.id}/{output}", item, groups, row.digest)

    def _judged(self, row: SchemaRow, sample: SampleRow) -> tuple[Label, Violation | None]:
        label = sample.label if self.mode == "strict" else sample.paper_label
        violations = validator(row.schema, mode=self.mode).violations(sample.value)
        if bool(violations) != (label == "no"):
            problem = violations[0].message if violations else "it is valid"
            complaint = (
                f"{sample.id!r:.80} is labelled {label!r}; its schema says otherwise ({problem})."
            )
            raise DataInvalid(complaint, "Rebuild the data set, or correct the label.")
        return label, next(iter(violations), None)

    def messages(
        self, instance: ValidationInstance, shots: Sequence[ValidationInstance]
    ) -> tuple[Message, ...]:
        """Return the conversation: the shots with their answers, the schema and the sample."""
        item = instance.data
        examples = []
        for shot in shots:
            example = {"schema": shot.data.text, "sample": shot.data.sample}
            examples.append(example | {"answer": shot.data.label})
        fields = {"schema": item.text, "sample": item.sample, "output": NAMES[item.output]}
        return self.conversation(fields, examples)

    def score(self, instance: ValidationInstance, text: str) -> Mapping[str, Score]:
        """Return the score ``correct``: whether the answer (yes or no) is right.

        Raises:
            Unparseable: If the reply has neither yes nor no, or both.
        """
        answer = yes_or_no(text)
        item = instance.data
        if answer == item.label:
            return {"correct": Score(True, True, details={"said": answer})}
        kind = "valid"
        reason = "said no of a valid sample"
        if item.violation is not None:
            kind = item.violation.keyword
            reason = f"said yes, but {item.violation.message}"
        details = {"said": answer, "keywords": {kind: 1}}
        return {"correct": Score(False, False, reason, details)}

    def feedback(self, instance: ValidationInstance, text: str, scores: Mapping[str, Score]) -> str:
        """Return feedback on whether the answer, yes or no, is right. It reveals the solution."""
        if scores["correct"].passed:
            return "That is right."
        return "That is not right. Please look at each constraint once more, and answer again."

    def reference(self, instance: ValidationInstance) -> str:
        """Return the correct answer, yes or no."""
        return instance.data.label

    @override
    def wrong_answer(self, instance: ValidationInstance) -> str:
        """Return the incorrect answer, yes or no."""
        return "no" if instance.data.label == "yes" else "yes"

    @override
    def leaks(self, instance: ValidationInstance, shot: ValidationInstance) -> bool:
        """Return whether shot and instance have the same schema, so that the shot is a hint."""
        return instance.data.row.digest == shot.data.row.digest

    @override
    def constraint(self, instance: ValidationInstance) -> DecodingConstraint:
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
        words = [first[1]]
    elif last := _LAST_LINE.fullmatch(last_line.strip()[:40]):
        words = [last[1]]
    else:
        words = _CONCLUSION.findall(text)[-1:] or _ANY.findall(text)
    answers = {word.lower() for word in words}
    if not answers:
        raise Unparseable("neither yes nor no")
    if len(answers) > 1:
        raise Unparseable("both yes and no")
    return cast("Label", answers.pop())
