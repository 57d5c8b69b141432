"""The card and the report of a data set made from chats, in Markdown.

The card says what it is made of and how; the report what became of the chats on the way, with some
that were left out, and some that stayed.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from importlib.metadata import version
from statistics import mean
from typing import Any

from harness.builders.markdown import Cell, inline, quoted, table
from harness.builders.wildifeval.pipeline import Curated, Row
from harness.builders.wildifeval.steps import Step
from harness.tasks.wildifeval.categories import CATEGORIES, OTHER

EXAMPLES = 5
"""Tasks that the report shows."""
LONGEST = 600
"""Characters of one."""

UNNAMED = "(the model named none)"


def card(name: str, facts: Mapping[str, Any], curated: Curated) -> str:
    """What the data set is, and all that is needed to build it again."""
    costs = [of["cost_usd"] for of in facts["calls"].values()]
    whole = "not known" if None in costs else f"${sum(costs):,.4f}"
    sections = [
        f"# {inline(name)}",
        f"{facts['tasks']:,} tasks with {facts['constraints']:,} constraints, in the form of "
        f"WildIFEval ({facts['paper']}), built by harness {version('harness')} (version "
        f"{facts['version']} of the pipeline) with seed {facts['curation']['seed']}."
        + (" The models were simulated: this is no data." if facts["simulated"] else ""),
        "`manifest.json` has all of this for programs, and the files' SHA-256.",
        "## Sources",
        table(["file", "SHA-256"], [[of["name"], of["sha256"]] for of in facts["sources"]]),
        "## Filters",
        _steps(curated.steps),
        f"The lowest probability of yes that was kept is {curated.mark:.3f}.",
        "## Settings",
        *(_settings(facts["curation"])),
        "## Models and prompts",
        table(
            [
                *("stage", "backend", "model", "answers", "from the cache", "tokens in"),
                *("tokens out", "US dollars"),
            ],
            [_model(stage, facts) for stage in facts["models"]],
        ),
        f"Together: {whole}. An answer that was in the cache was paid for before.",
        table(["prompt", "SHA-256"], [[name, key] for name, key in facts["prompts"].items()]),
        "## What can be wrong with it",
        "Constraints are a model's reading of the messages, and nobody has checked them. The "
        "filters of language and toxicity are statistical: some of what they should have left out "
        "is here. The messages are people's own words: what they tell of persons is in them.",
    ]  # fmt: skip
    return "\n\n".join(sections) + "\n"


def report(curated: Curated) -> str:
    """What became of the chats, and what the tasks are like."""
    constraints = [one for row in curated.rows for one in row.constraints]
    kinds = Counter(one.category or UNNAMED for one in constraints)
    titles = Counter(one.title for one in constraints if one.category == OTHER and one.title)
    sizes = Counter(len(row.constraints) for row in curated.rows)
    areas = Counter(row.domain or UNNAMED for row in curated.rows)
    sections = [
        "# Report of the curation",
        "## What was left out",
        "Each message is counted once, under the first reason that holds.",
        _steps(curated.steps),
        *_left_out(curated.steps),
        "## Constraints",
        table(
            ["category", "constraints", "share"],
            [
                [name, kinds[name], kinds[name] / len(constraints)]
                for name in (*CATEGORIES, OTHER, UNNAMED)
            ],
        ),
        *(
            ["Titles of those in Other:", table(["title", "constraints"], titles.most_common(20))]
            if titles
            else []
        ),
        "## Constraints of a task",
        table(["constraints", "tasks"], [[str(n), sizes[n]] for n in sorted(sizes)]),
        "Characters of a message: "
        f"{mean(len(row.task) for row in curated.rows):,.0f} on average, "
        f"{max(len(row.task) for row in curated.rows):,} at most.",
        "## Domains",
        f"{len(curated.proposed):,} were proposed, {len(curated.domains):,} are left.",
        table(
            ["domain", "tasks", "share"],
            [[name, areas[name], areas[name] / len(curated.rows)]
             for name in (*curated.domains, UNNAMED)],
        ),
        "## Examples",
        *(_example(row) for row in curated.rows[:EXAMPLES]),
    ]  # fmt: skip
    return "\n\n".join(sections) + "\n"


def _steps(steps: Sequence[Step]) -> str:
    rows: list[Sequence[Cell]] = []
    for step in steps:
        for reason, n in step.removed.items():
            rows.append([step.name, reason, n, step.share(reason), None])
        gone = step.before - step.left
        rows.append([step.name, "all of them", gone, gone / max(1, step.before), step.left])
    return table(["step", "left out", "tasks", "share", "left"], rows)


def _left_out(steps: Sequence[Step]) -> Iterator[str]:
    for step in steps:
        for reason, examples in step.examples.items():
            yield f"### {inline(step.name)}: {inline(reason)}"
            for one in examples:
                detail = f" ({inline(one.detail)})" if one.detail else ""
                yield f"{inline(one.id)}{detail}:"
                if one.text.strip():
                    yield quoted(one.text, LONGEST)


def _settings(curation: Mapping[str, Any]) -> Iterator[str]:
    rows = [
        [f"{section}.{key}", json.dumps(value)]
        for section in ("screen", "filter", "decompose", "constraints", "domains")
        for key, value in curation[section].items()
    ]
    yield table(["setting", "value"], rows)


def _model(stage: str, facts: Mapping[str, Any]) -> list[Cell]:
    model, calls = facts["models"][stage], facts["calls"][stage]
    cost = calls["cost_usd"]
    return [
        stage,
        model["backend"],
        model["name"] or "-",
        calls["answers"],
        calls["cached"],
        calls["input_tokens"],
        calls["output_tokens"],
        "not known" if cost is None else f"{cost:,.4f}",
    ]


def _example(row: Row) -> str:
    constraints = "\n".join(
        f"- {inline(one.text)} ({inline(one.category or UNNAMED)})" for one in row.constraints
    )
    return (
        f"### {inline(row.id)}: {inline(row.domain or UNNAMED)}\n\n"
        f"{quoted(row.task, LONGEST)}\n\n{constraints}"
    )
