"""The card and the report of a data set made from chats, in Markdown.

The card says what it is made of and how; the report says what became of the chats, with examples of
what was left out and of what stayed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from importlib.metadata import version
from statistics import mean
from typing import Any

from harness.builders.markdown import Cell, inline, quoted, settings, table
from harness.builders.wildifeval.pipeline import Curated, CuratedRow
from harness.builders.wildifeval.screening import Step
from harness.tasks.wildifeval.categories import CATEGORIES, OTHER

EXAMPLES = 5
"""Tasks that the report shows."""
LONGEST = 600
"""Characters of one."""
MOST_TITLES = 20

UNNAMED = "(the model named none)"


def card(name: str, facts: Mapping[str, Any], curated: Curated) -> str:
    """Write the card: what the data set is, and everything needed to build it again."""
    costs = [of["cost_usd"] for of in facts["calls"].values()]
    cost = "not known" if None in costs else f"${sum(costs):,.4f}"
    chosen = {
        f"{section}.{key}": value
        for section in ("screen", "filter", "decompose", "constraints", "domains")
        for key, value in facts["curation"][section].items()
    }
    head = ["stage", "backend", "model", "answers", "from the cache", "tokens in", "tokens out"]
    sections = [
        f"# {inline(name)}",
        f"{facts['tasks']:,} tasks with {facts['constraints']:,} constraints, in the form of "
        f"WildIFEval ({facts['paper']}), built by harness {version('harness')} (version "
        f"{facts['version']} of the pipeline) with seed {facts['curation']['seed']}."
        + (" The models were simulated: this is not data." if facts["simulated"] else ""),
        "`manifest.json` has all of this for programs, and the SHA-256 of the files.",
        "## Sources",
        table(["file", "SHA-256"], [[of["name"], of["sha256"]] for of in facts["sources"]]),
        "## Filters",
        _steps(curated.steps),
        f"The lowest probability of yes that was kept is {curated.mark:.3f}.",
        "## Settings",
        settings(chosen),
        "## Models and prompts",
        table([*head, "US dollars"], [_model(stage, facts) for stage in facts["models"]]),
        f"Total cost: {cost}. Answers from the cache were paid for earlier.",
        table(["prompt", "SHA-256"], list(facts["prompts"].items())),
        "## Limitations",
        "Constraints are a model's reading of the messages; nobody has checked them. The filters "
        "of language and toxicity are statistical and miss some of what they should leave out. "
        "The messages are real people's words, with whatever they say about persons.",
    ]
    return "\n\n".join(sections) + "\n"


def report(curated: Curated) -> str:
    """Write the report: what became of the chats, and what the tasks are like."""
    rows = curated.rows
    constraints = [one for row in rows for one in row.constraints]
    kinds = Counter(one.category or UNNAMED for one in constraints)
    titles = Counter(one.title for one in constraints if one.category == OTHER and one.title)
    sizes = Counter(len(row.constraints) for row in rows)
    areas = Counter(row.domain or UNNAMED for row in rows)
    lengths = [len(row.task) for row in rows]
    sections = [
        "# Report of the curation",
        "## What was left out",
        "Each message is counted once, under the first reason that applies.",
        _steps(curated.steps),
        *_left_out(curated.steps),
        "## Constraints",
        _shares("category", "constraints", {n: kinds[n] for n in (*CATEGORIES, OTHER, UNNAMED)}),
        *(
            [table(["title in Other", "constraints"], titles.most_common(MOST_TITLES))]
            * bool(titles)
        ),
        "## Constraints of a task",
        table(["constraints", "tasks"], [[str(n), sizes[n]] for n in sorted(sizes)]),
        f"A message has {mean(lengths):,.0f} characters on average, {max(lengths):,} at most.",
        "## Domains",
        f"{len(curated.proposed):,} were proposed, {len(curated.domains):,} remain.",
        _shares("domain", "tasks", {name: areas[name] for name in (*curated.domains, UNNAMED)}),
        "## Examples",
        *(_example(row) for row in rows[:EXAMPLES]),
    ]
    return "\n\n".join(sections) + "\n"


def _shares(of: str, what: str, counts: Mapping[str, int]) -> str:
    total = sum(counts.values())
    return table([of, what, "share"], [[name, n, n / total] for name, n in counts.items()])


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


def _model(stage: str, facts: Mapping[str, Any]) -> list[Cell]:
    model, calls = facts["models"][stage], facts["calls"][stage]
    names = [stage, model["backend"], model["name"] or "-"]
    cost = calls["cost_usd"]
    numbers = [calls[key] for key in ("answers", "cached", "input_tokens", "output_tokens")]
    return [*names, *numbers, "not known" if cost is None else f"{cost:,.4f}"]


def _example(row: CuratedRow) -> str:
    constraints = "\n".join(
        f"- {inline(one.text)} ({inline(one.category or UNNAMED)})" for one in row.constraints
    )
    title = f"### {inline(row.id)}: {inline(row.domain or UNNAMED)}"
    return f"{title}\n\n{quoted(row.task, LONGEST)}\n\n{constraints}"
