"""Builds a benchmark like WildIFEval (Lior et al. 2025, arXiv 2503.06573) from your chat logs.

The steps are those of the paper. `harness.plugins.builders.wildifeval.curation` calls the models.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import harness
from harness.datasets.folder import sha256
from harness.errors import cannot_read
from harness.plugins.benchmarks.wildifeval.task import CATEGORIES, OTHER
from harness.plugins.builders import folder
from harness.plugins.builders.folder import (
    BuiltFolder,
    Cell,
    Stages,
    card,
    document,
    inline,
    key_of,
    quoted,
    table,
)
from harness.plugins.builders.loaders import FileRows
from harness.plugins.builders.wildifeval.asking import Asking, CurationPrompts
from harness.plugins.builders.wildifeval.curation_file import Curation
from harness.plugins.builders.wildifeval.pipeline import Curated, CuratedRow, curated
from harness.plugins.builders.wildifeval.screening import (
    UNREADABLE,
    Screened,
    Step,
    examine,
    log_files,
    read_chats,
    screen,
)
from harness.records import encodable

KIND = "wildifeval"
VERSION = 2  # incremented when the screening, or what a seed draws, changes

TASKS = "tasks.jsonl"
CARD = "card.md"
REPORT = "report.md"
FILES = (TASKS, CARD, REPORT)
EXAMPLES = 5  # number of tasks in the report
LONGEST = 600  # characters of an example
MOST_TITLES = 20
UNNAMED = "(the model named none)"


def stages_folder(out: Path) -> Path:
    """Return the folder next to ``out`` in which a build keeps its stages."""
    whole = out.absolute()  # "." has no name
    return whole.with_name(f"{whole.name}.stages")


def screened(
    sources: Sequence[Path], curation: Curation, stages: Stages, status: Callable[[str], None]
) -> Screened:
    """Screen the chats in files or folders, or return the saved result if nothing has changed."""
    status("Reading the chats")
    logs: list[FileRows] = []
    facts: list[dict[str, str]] = []
    for place in sources:
        for rows in log_files(place):
            name = rows.path.name
            if place.is_dir():
                name = rows.path.relative_to(place.absolute()).as_posix()
            facts.append({"name": encodable(name), "sha256": _sha256(rows.path)})
            logs.append(rows)
    key = key_of(VERSION, curation.screen.model_dump(mode="json"), facts)

    def make() -> Screened:
        chats = chain.from_iterable(map(read_chats, logs))
        return screen(examine(chats, curation.screen), facts)

    found = stages.result("screen", key, Screened, make)
    if unreadable := found.step.removed.get(UNREADABLE):
        first = found.step.examples[UNREADABLE][0].detail
        status(f"{unreadable:,} of {found.step.before:,} chats cannot be read, such as {first}")
    return found


async def build(
    curation: Curation,
    prompts: CurationPrompts,
    found: Screened,
    out: Path,
    asking: Asking,
    status: Callable[[str], None],
) -> BuiltFolder:
    """Build the data set from screened chats (``found``), and write the folder ``out``.

    ``asking`` calls the models, and ``status`` is called with progress messages.

    Raises:
        ConfigError: If a setting is invalid, or if a model's first replies cannot be read.
        DataInvalid: If a stage drops all chats, or the model names no domains.
        DataMissing: If a file cannot be read.
        RunConflict: If ``out`` contains anything but an unchanged earlier build.
        HarnessError: If some calls to models have failed.
        Stopping: If the build was stopped or its budget is spent.
        StoreFailed: If ``out`` cannot be written.
    """
    folder.refuse_other(out, KIND, FILES)
    result = await curated(curation, prompts, asking, found)
    rows = result.rows
    constraints = [one for row in rows for one in row.constraints]
    facts = {
        "version": VERSION,
        "paper": "arXiv 2503.06573",
        "curation": curation.model_dump(mode="json"),
        "sources": found.sources,
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
        "unread": {stage: sum(lost.values()) for stage, lost in result.unread.items()},
    }
    for stage, n in facts["unread"].items():
        if n:
            status(f"{n:,} replies of the stage {stage!r} name no label on its list: see {REPORT}")
    text = report(result)
    texts = {CARD: card(out.name, about(facts), facts), REPORT: text}
    folder.write(out, KIND, {TASKS: rows}, facts, texts)
    return BuiltFolder(out, len(rows), facts, text)


def _sha256(path: Path) -> str:
    try:
        return sha256(path)
    except OSError as error:
        raise cannot_read(path, error) from None


def about(facts: Mapping[str, Any]) -> str:
    """Return the description of the data set for its card, from the facts in its manifest."""
    costs = [of["cost_usd"] for of in facts["calls"].values()]
    cost = "not known" if None in costs else f"${sum(costs):,.4f}"
    return (
        f"{facts['tasks']:,} tasks with {facts['constraints']:,} constraints, in the form of "
        f"WildIFEval ({facts['paper']}), built by harness {harness.__version__}."
        + (" The models were simulated: this is not data." if facts["simulated"] else "")
        + f" Total cost: {cost}. Answers from the cache were paid for earlier.\n\n"
        "Constraints are a model's reading of the messages; they were not checked. The filters "
        "of language and toxicity are statistical and miss some of what they should leave out. "
        "The messages are real people's words, and may be about real people."
    )


def report(curated: Curated) -> str:
    """Return the build's report in Markdown."""
    rows = curated.rows
    constraints = [one for row in rows for one in row.constraints]
    kinds = Counter(one.category or UNNAMED for one in constraints)
    titles = Counter(one.title for one in constraints if one.category == OTHER and one.title)
    areas = Counter(row.domain or UNNAMED for row in rows)
    return document(
        "# Report of the curation",
        "## What was left out",
        "Each message is counted once, under the first reason that applies.",
        table(_steps(curated.steps)),
        *_left_out(curated.steps),
        "## Constraints",
        table(
            {"category": name, "constraints": kinds[name], "share": kinds[name] / len(constraints)}
            for name in (*CATEGORIES, OTHER, UNNAMED)
        ),
        table(
            {"title in Other": name, "constraints": n}
            for name, n in titles.most_common(MOST_TITLES)
        ),
        "## Domains",
        f"{len(curated.proposed):,} were proposed, {len(curated.domains):,} remain.",
        table(
            {"domain": name, "tasks": areas[name], "share": areas[name] / len(rows)}
            for name in (*curated.domains, UNNAMED)
        ),
        "## Replies without a label on the list",
        table(
            {"stage": stage, "reply": said, "replies": n}
            for stage, lost in curated.unread.items()
            for said, n in Counter(lost).most_common(MOST_TITLES)
        ),
        "## Examples",
        *(_example(row) for row in rows[:EXAMPLES]),
    )


def _steps(steps: Sequence[Step]) -> Iterator[dict[str, Cell]]:
    for step in steps:
        for reason, n in [*step.removed.items(), ("all of them", step.before - step.left)]:
            left = step.left if reason == "all of them" else None
            of: dict[str, Cell] = {"step": step.name, "left out": reason, "tasks": n}
            yield of | {"share": n / max(1, step.before), "left": left}


def _left_out(steps: Sequence[Step]) -> Iterator[str]:
    for step in steps:
        for reason, examples in step.examples.items():
            yield f"### {inline(step.name)}: {inline(reason)}"
            for one in examples:
                detail = f" ({inline(one.detail)})" if one.detail else ""
                yield f"{inline(one.id)}{detail}:"
                yield quoted(one.text.strip(), LONGEST)


def _example(row: CuratedRow) -> str:
    constraints = "\n".join(
        f"- {inline(one.text)} ({inline(one.category or UNNAMED)})" for one in row.constraints
    )
    title = f"### {inline(row.id)}: {inline(row.domain or UNNAMED)}"
    return f"{title}\n\n{quoted(row.task, LONGEST)}\n\n{constraints}"
