"""A benchmark like WildIFEval (Lior et al. 2025, arXiv 2503.06573), made from one's own chat logs.

The paper's steps: first user messages are read (`chats`) and screened without a model
(`screening`); a model says which of them are constrained generation tasks (`selection`), and takes
these apart (`decomposition`); constraints that repeat are thinned out (`repetition`), and
constraints and tasks named (`labels`). The folder is written with a card and a report.

`harness.run.curation` asks the models.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.builders import folder
from harness.builders.stages import Stages, key_of
from harness.builders.wildifeval.asking import Asking
from harness.builders.wildifeval.chats import read_chats
from harness.builders.wildifeval.pipeline import Curated, Pipeline
from harness.builders.wildifeval.prompts import Prompts
from harness.builders.wildifeval.report import card, report
from harness.builders.wildifeval.screening import UNREADABLE, Screened, screen
from harness.config.curation import Curation
from harness.datasets.folder import sha256
from harness.errors import DataMissing
from harness.records import encodable

KIND = "wildifeval"
VERSION = 2
"""Version of the screening and of what a seed draws: another one, another data set."""

TASKS = "tasks.jsonl"
CARD = "card.md"
REPORT = "report.md"
FILES = (TASKS, CARD, REPORT)


@dataclass(frozen=True, slots=True)
class Built:
    """What was built.

    facts: what the manifest says.
    report: for people, in Markdown.
    """

    folder: Path
    tasks: int
    facts: dict[str, Any]
    report: str


def stages_folder(out: Path) -> Path:
    """Where a build keeps its stages. They stay when it has ended: its answers were paid for."""
    whole = out.absolute()  # "." has no name
    return whole.with_name(f"{whole.name}.stages")


def screened(
    sources: Sequence[Path], curation: Curation, stages: Stages, told: Callable[[str], None]
) -> Screened:
    """The chats that need no model to be left out, read anew where the sources have changed.

    Raises: as `read_chats` and `screen`.
    """
    told("Reading the chats")
    hashes = [of["sha256"] for of in _source_facts(sources)]
    key = key_of(VERSION, curation.screen.model_dump(mode="json"), hashes)
    found = stages.result(
        "screen", key, Screened, lambda: screen(read_chats(sources), curation.screen)
    )
    if unreadable := found.step.removed.get(UNREADABLE):
        first = found.step.examples[UNREADABLE][0]
        told(
            f"{unreadable:,} of {found.step.before:,} chats cannot be read, such as {first.detail}"
        )
    return found


async def build(
    curation: Curation,
    sources: Sequence[Path],
    out: Path,
    asking: Asking,
    stages: Stages,
    told: Callable[[str], None] = lambda _: None,
) -> Built:
    """Build the data set and write its folder.

    stages: of `stages_folder`, held by this process alone.
    told: is told what is being done.

    Raises: as `Asking.ask`; RunConflict where out is there and was not built here; DataInvalid
        where no chat can be read, or nothing is left.
    """
    folder.refuse_other(out, KIND, FILES)
    prompts = Prompts(curation.prompts)
    found = screened(sources, curation, stages, told)
    curated = await Pipeline(curation, prompts, asking).run(found)
    facts = {
        "version": VERSION,
        "paper": "arXiv 2503.06573",
        "curation": curation.model_dump(mode="json"),
        "sources": _source_facts(sources),
        "prompts": prompts.hashes,
        **asking.facts(),
        **_counts(curated),
    }
    said = report(curated)
    folder.write(
        out,
        KIND,
        {TASKS: curated.rows},
        facts,
        texts={CARD: card(out.name, facts, curated), REPORT: said},
    )
    return Built(out, len(curated.rows), facts, said)


def _source_facts(sources: Sequence[Path]) -> list[dict[str, str]]:
    """Name and hash of each file. Raises: DataMissing."""
    found = []
    for path in sources:
        try:
            found.append({"name": encodable(path.name), "sha256": sha256(path)})
        except OSError as error:
            raise DataMissing(
                f"Cannot read {path}: {error.strerror}.", "Check the path and its permissions."
            ) from None
    return found


def _counts(curated: Curated) -> dict[str, Any]:
    constraints = [one for row in curated.rows for one in row.constraints]
    return {
        "steps": [
            {"name": step.name, "before": step.before, "removed": step.removed, "left": step.left}
            for step in curated.steps
        ],
        "mark": curated.mark,
        "tasks": len(curated.rows),
        "constraints": len(constraints),
        "categories": dict(Counter(one.category for one in constraints)),
        "domains": dict.fromkeys(curated.domains, 0)
        | dict(Counter(row.domain for row in curated.rows)),
        "proposed_domains": curated.proposed,
    }
