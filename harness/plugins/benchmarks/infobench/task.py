"""InFoBench: instructions decomposed into requirements, which are yes-or-no questions.

Qin et al. 2024 (arXiv 2401.03601). Only judges decide: the judge ``infobench`` uses the published
prompt, and ``yes_no`` uses our own. Without a judge, answers have no verdict.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Any, TypeAlias

from msgspec import Meta, Struct
from msgspec.structs import replace
from typing_extensions import override

from harness.datasets.folder import DataFolder, sha256
from harness.datasets.rows import Row, converted, read_all
from harness.errors import DataInvalid
from harness.ports import PaperTable, TableFigure, Task
from harness.records import Criterion, Instance, Message, Score

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
    table = PaperTable(
        rows="",
        columns="subset",
        figures=(TableFigure("DRFR", "ratio", "infobench.met", per="infobench.decided"),),
        source="Qin et al. 2024 (arXiv 2401.03601), section 3",
    )

    def __init__(self, dataset: str = "builtin", *, data: DataFolder) -> None:
        self.dataset = dataset
        self.path = data.file({"builtin": str(BUILTIN), "public": PUBLIC}.get(dataset, dataset))

    def instances(self) -> Iterator[One]:
        """Yield the instructions in file order."""
        for item in read_items(self.path):
            groups = {"subset": item.subset or "", "category": item.category or ""}
            groups = {label: group for label, group in groups.items() if group}
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
        return f"{item.instruction}\n\n{item.input}" if item.input else item.instruction

    @override
    def criteria(self, instance: One) -> Sequence[Criterion]:
        """Return the requirements as criteria, with their labels as groups."""
        questions = instance.data.decomposed_questions
        labels = instance.data.question_label or [[] for _ in questions]
        return [
            Criterion(question, {"label": ", ".join(own)} if own else {})
            for question, own in zip(questions, labels, strict=True)
        ]

    def text_to_work_on(self, instance: One) -> str:
        """Return the instance's input text (empty if it has none), for a judge."""
        return instance.data.input or ""


def _item(raw: Row, where: str) -> InfoBenchItem:
    item = converted(raw, InfoBenchItem, where)
    n, labels = len(item.decomposed_questions), item.question_label
    if labels is not None and len(labels) != n:
        said = f"{n} questions, but {len(labels)} lists in 'question_label'"
        raise DataInvalid(f"{where}: {said}.", "Write one list of labels per question.")
    return replace(item, id=str(item.id or where.rpartition(" ")[2]))


read_items = partial(read_all, item=_item)  # yields the items; the default id is the row's number
plugin = InfoBenchTask
