"""IFEval: instructions that a program can verify (Zhou et al. 2023, arXiv 2311.07911).

A text follows an instruction strictly, or only loosely: after its first line, its last line, its
asterisks, or several of these have been removed. An answer passes if it strictly follows all
instructions of its prompt.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, ClassVar, TypeAlias

from msgspec import Meta, Struct, to_builtins
from typing_extensions import override

from harness.datasets.folder import DataFolder, sha256
from harness.datasets.rows import Row, convert_row, read_unique, row_messages
from harness.errors import DataInvalid, reraise_as
from harness.plugins.benchmarks.ifeval import instructions as verifiable
from harness.plugins.benchmarks.ifeval.instructions import (
    Verdicts,
    VerifiableInstruction,
    splitter,
)
from harness.ports import Task, read_paper
from harness.records import Instance, JsonObject, Message, Score
from harness.scoring.patterns import PatternTooSlow
from harness.scoring.text import Uncountable

# Names of the scores; ``n_instructions`` is also a label.
STRICT = "strict"
LOOSE = "loose"
STRICT_SHARE = "strict_instructions"
LOOSE_SHARE = "loose_instructions"
COUNT = "n_instructions"
NOW_PASSED = "corrected_to_pass"
NOW_FAILED = "corrected_to_fail"


class IFEvalItem(Struct, frozen=True):
    """A prompt with its instructions and, if known, a right and a wrong answer."""

    id: str
    messages: tuple[Message, ...]
    instructions: tuple[VerifiableInstruction, ...]
    reference: str | None = None
    wrong: str | None = None


One: TypeAlias = Instance[IFEvalItem]


class IFEvalTask(Task[IFEvalItem]):
    """Instructions that a program can verify (Zhou et al. 2023).

    Args:
        dataset: ``builtin`` (a small example), ``public`` (the published prompts), or a path to a
            file in the published format, with messages allowed instead of prompt.
        verdicts: ``official`` agrees with the published code. ``corrected`` replaces the checks
            that misread some answers, and counts the verdicts that this changes.
    """

    on_truncated = "grade"
    table = read_paper(__file__).table
    _public: ClassVar[str] = "ifeval/input_data.jsonl"
    _builtin: ClassVar[Path] = Path(__file__).with_name("builtin.jsonl")

    def __init__(
        self, dataset: str = "builtin", verdicts: Verdicts = "official", *, data: DataFolder
    ) -> None:
        self.dataset = dataset
        self._verdicts = verdicts
        names = {"builtin": str(self._builtin), "public": self._public}
        self.path = data.file(names.get(dataset, dataset))

    def instances(self) -> Iterator[One]:
        """Yield the prompts in file order, with their number of instructions as their group."""
        for item in read_unique(self.path, partial(read_item, verdicts=self._verdicts)):
            yield Instance(item.id, item, {COUNT: str(len(item.instructions))})

    def fingerprint(self) -> Mapping[str, str]:
        """Return the data's name and hash, and what else verdicts depend on."""
        fields = {
            **self._data_fingerprint(),
            "verdicts": self._verdicts,
            "instructions": verifiable.VERSION,
            "splitter": splitter().name,
        }
        ids: set[str] = set()
        for instance in self.instances():
            ids.update(instruction.id for instruction in instance.data.instructions)
        return fields | verifiable.versions(ids)

    def _data_fingerprint(self) -> Mapping[str, str]:
        return {"dataset": self.dataset, "dataset_sha256": sha256(self.path)}

    def messages(self, instance: One, shots: Sequence[One]) -> tuple[Message, ...]:
        """Return the row's conversation, without ``shots``."""
        return instance.data.messages

    def score(self, instance: One, text: str) -> Mapping[str, Score]:
        """Return the verdicts, and the shares of instructions that the answer follows.

        - ``strict``: whether it follows all instructions. This alone decides whether it passes.
        - ``loose``: whether it follows all instructions loosely (see the module's docstring).
        - ``strict_instructions``, ``loose_instructions``: the share of instructions that it
          follows. The mean weighted by ``n_instructions`` (their number, also a score) is the
          paper's accuracy by instruction.
        - ``corrected_to_pass``, ``corrected_to_fail`` (only for corrected verdicts): on how many
          instructions the strict verdict passes or fails, unlike the official one.

        If a check takes too long, or cannot divide the text into words or sentences, there are only
        ``strict`` and ``loose``, both without a value.
        """
        instructions = instance.data.instructions
        try:
            verdicts = verifiable.judge(instructions, text)
            official = verdicts
            if self._verdicts == "corrected":
                official = verifiable.judge(list(map(_as_published, instructions)), text)
        except PatternTooSlow as error:
            return dict.fromkeys((STRICT, LOOSE), Score(None, None, error.message))
        except Uncountable as error:
            return dict.fromkeys((STRICT, LOOSE), error.score())
        constraints: list[JsonObject] = []
        details = {"instructions": to_builtins(verdicts), "constraints": constraints}
        for instruction, verdict in zip(instructions, verdicts, strict=True):
            constraints.append({
                "constraint": instruction.id,
                "kind": instruction.id,
                "passed": verdict.strict,
                "reason": verdict.reason,
                "groups": {"instruction": instruction.id, "family": instruction.family},
            })  # fmt: skip
            details |= instruction.warning(text)
        strict = [verdict.strict for verdict in verdicts]
        loose = [verdict.loose for verdict in verdicts]
        reasons = [f"{verdict.id}: {verdict.reason}" for verdict in verdicts if not verdict.strict]
        scores = {
            STRICT: Score(all(strict), all(strict), "; ".join(reasons), details),
            LOOSE: Score(all(loose)),
            STRICT_SHARE: Score(sum(strict) / len(verdicts), share=True),
            LOOSE_SHARE: Score(sum(loose) / len(verdicts), share=True),
            COUNT: Score(len(verdicts)),
        }
        if self._verdicts == "corrected":
            changes = [new - old.strict for new, old in zip(strict, official, strict=True)]
            scores[NOW_PASSED] = Score(changes.count(1))
            scores[NOW_FAILED] = Score(changes.count(-1))
        return scores

    @override
    def score_of_no_answer(self, instance: One) -> Mapping[str, Score]:
        """Return the scores of a blank answer, which follows no instruction."""
        return self.score(instance, "")

    def feedback(self, instance: One, text: str, scores: Mapping[str, Score]) -> str:
        """Return which instructions the answer does not follow, and why."""
        strict = scores[STRICT]
        if strict.value is None:
            return "Your answer could not be checked. Please answer again, in a simpler form."
        if strict.passed:
            return "Your answer follows all instructions."
        verdicts = strict.details["instructions"]
        failed = [f"- {row['id']}: {row['reason']}" for row in verdicts if not row["strict"]]
        opening = "Your answer does not follow these instructions yet:"
        return "\n".join([opening, *failed, "Please write the whole answer again."])

    def reference(self, instance: One) -> str | None:
        """Return an answer that passes, or None if the row has none."""
        return instance.data.reference

    @override
    def wrong_answer(self, instance: One) -> str | None:
        """Return a plausible answer that fails, or None if the row has none."""
        return instance.data.wrong


def _as_published(instruction: VerifiableInstruction) -> VerifiableInstruction:
    return VerifiableInstruction(instruction.id, instruction.arguments)


class _Row(Struct):
    key: int | str
    instruction_id_list: Annotated[list[str], Meta(min_length=1)]
    kwargs: list[JsonObject]
    reference: str | None = None
    wrong: str | None = None


def read_item(raw: Row, where: str, verdicts: Verdicts, multilingual: bool = False) -> IFEvalItem:
    """Return the item of a row in the published format.

    ``verdicts`` and ``multilingual`` select the version of the checks. Error messages begin with
    ``where``.
    """
    row = convert_row(raw, _Row, where)
    instructions = []
    with reraise_as(DataInvalid, f"{where}: "):
        messages = row_messages(raw)
        if not messages[-1].content.strip():
            raise DataInvalid("the prompt is empty.")
        if len(row.kwargs) != len(row.instruction_id_list):
            problem = f"{len(row.kwargs)} kwargs for {len(row.instruction_id_list)} instructions."
            raise DataInvalid(problem, "Write {} for an instruction without arguments.")
        for name, arguments in zip(row.instruction_id_list, row.kwargs, strict=True):
            instruction = verifiable.instruction(name, arguments, verdicts, multilingual)
            instructions.append(instruction)
    return IFEvalItem(str(row.key), messages, tuple(instructions), row.reference, row.wrong)
