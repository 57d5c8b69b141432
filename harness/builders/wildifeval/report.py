"""The report of a data set made from chats, in Markdown: what became of them, with examples."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from importlib.metadata import version
from typing import Any

from harness.builders.markdown import Cell, document, inline, quoted, table
from harness.builders.wildifeval.pipeline import Curated, CuratedRow
from harness.builders.wildifeval.screening import Step
from harness.tasks.wildifeval import CATEGORIES, OTHER

EXAMPLES = 5
"""Tasks that the report shows."""
LONGEST = 600
"""Characters of one."""
MOST_TITLES = 20

UNNAMED = "(the model named none)"


def about(facts: Mapping[str, Any]) -> str:
    """Return the card's text about the data set."""
    costs = [of["cost_usd"] for of in facts["calls"].values()]
    cost = "not known" if None in costs else f"${sum(costs):,.4f}"
    return (
        f"{facts['tasks']:,} tasks with {facts['constraints']:,} constraints, in the form of "
        f"WildIFEval ({facts['paper']}), built by harness {version('harness')}."
        + (" The models were simulated: this is not data." if facts["simulated"] else "")
        + f" Total cost: {cost}. Answers from the cache were paid for earlier.\n\n"
        "Constraints are a model's reading of the messages; nobody has checked them. The filters "
        "of language and toxicity are statistical and miss some of what they should leave out. "
        "The messages are real people's words, with whatever they say about persons."
    )


def report(curated: Curated) -> str:
    """Write the report: what became of the chats, and what the tasks are like."""
    rows = curated.rows
    constraints = [one for row in rows for one in row.constraints]
    kinds = Counter(one.category or UNNAMED for one in constraints)
    titles = Counter(one.title for one in constraints if one.category == OTHER and one.title)
    areas = Counter(row.domain or UNNAMED for row in rows)
    return document(
        "# Report of the curation",
        "## What was left out",
        "Each message is counted once, under the first reason that applies.",
        _steps(curated.steps),
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
        "## Examples",
        *(_example(row) for row in rows[:EXAMPLES]),
    )


def _steps(steps: Sequence[Step]) -> str:
    def rows() -> Iterator[dict[str, Cell]]:
        for step in steps:
            gone = step.before - step.left
            for reason, n in [*step.removed.items(), ("all of them", gone)]:
                left = step.left if reason == "all of them" else None
                of: dict[str, Cell] = {"step": step.name, "left out": reason, "tasks": n}
                yield of | {"share": n / max(1, step.before), "left": left}

    return table(rows())


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
