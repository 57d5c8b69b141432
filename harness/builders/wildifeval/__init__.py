"""A benchmark like WildIFEval (Lior et al. 2025, arXiv 2503.06573), made from your own chat logs.

The paper's steps: first user messages are read (`chats`) and screened without a model
(`screening`); a model selects the constrained generation tasks and decomposes them; tasks that
repeat a constraint are thinned out; constraints and tasks are labelled (`pipeline`).
`harness.run.curation` calls the models.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

from harness.builders import folder
from harness.builders.folder import BuiltFolder
from harness.builders.markdown import card
from harness.builders.stages import Stages, key_of
from harness.builders.wildifeval.asking import Asking, CurationPrompts
from harness.builders.wildifeval.pipeline import curated
from harness.builders.wildifeval.report import about, report
from harness.builders.wildifeval.screening import UNREADABLE, Screened, read_chats, screen
from harness.config.curation import Curation
from harness.datasets.folder import cannot_read, sha256
from harness.records import encodable

KIND = "wildifeval"
VERSION = 2
"""Changes when the screening, or what a seed draws, changes."""

TASKS = "tasks.jsonl"
CARD = "card.md"
REPORT = "report.md"
FILES = (TASKS, CARD, REPORT)


def stages_folder(out: Path) -> Path:
    """Return the folder of a build's stages, which outlives the build."""
    whole = out.absolute()  # "." has no name
    return whole.with_name(f"{whole.name}.stages")


def screened(
    sources: Sequence[Path], curation: Curation, stages: Stages, status: Callable[[str], None]
) -> Screened:
    """Return the screened chats, from the saved stage unless the sources or settings have changed.

    Raises as `read_chats` and `screen`.
    """
    status("Reading the chats")
    hashes = [of["sha256"] for of in _source_facts(sources)]
    key = key_of(VERSION, curation.screen.model_dump(mode="json"), hashes)
    found = stages.result(
        "screen", key, Screened, lambda: screen(read_chats(sources), curation.screen)
    )
    if unreadable := found.step.removed.get(UNREADABLE):
        first = found.step.examples[UNREADABLE][0]
        status(
            f"{unreadable:,} of {found.step.before:,} chats cannot be read, such as {first.detail}"
        )
    return found


async def build(
    curation: Curation,
    sources: Sequence[Path],
    out: Path,
    asking: Asking,
    stages: Stages,
    status: Callable[[str], None],
) -> BuiltFolder:
    """Build the data set and write its folder; ``stages`` are those in `stages_folder`, locked.

    Raises:
        RunConflict: ``out`` exists and was not built here.
        DataInvalid: No chat can be read, or nothing is left. Otherwise as `Asking.ask`.
    """
    folder.refuse_other(out, KIND, FILES)
    prompts = CurationPrompts(curation.prompts)
    result = await curated(curation, prompts, asking, screened(sources, curation, stages, status))
    rows = result.rows
    constraints = [one for row in rows for one in row.constraints]
    facts = {
        "version": VERSION,
        "paper": "arXiv 2503.06573",
        "curation": curation.model_dump(mode="json"),
        "sources": _source_facts(sources),
        "prompts": prompts.hashes,
        **asking.facts(),
        "steps": [
            {"name": step.name, "before": step.before, "removed": step.removed, "left": step.left}
            for step in result.steps
        ],
        "mark": result.mark,
        "tasks": len(rows),
        "constraints": len(constraints),
        "categories": dict(Counter(one.category for one in constraints)),
        "domains": dict.fromkeys(result.domains, 0) | Counter(row.domain for row in rows),
        "proposed_domains": result.proposed,
    }
    text = report(result)
    texts = {CARD: card(out.name, about(facts), facts), REPORT: text}
    folder.write(out, KIND, {TASKS: rows}, facts, texts)
    return BuiltFolder(out, len(rows), facts, text)


def _source_facts(sources: Sequence[Path]) -> list[dict[str, str]]:
    """Return the name and hash of each file."""
    try:
        return [{"name": encodable(path.name), "sha256": sha256(path)} for path in sources]
    except OSError as error:
        raise cannot_read(error.filename, error) from None
