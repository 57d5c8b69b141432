"""The card and the report of a built data set, in Markdown.

The card says what the data set is made of and how to build it again; the report says what became of
the text, how hard the instances are, and shows some.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from importlib.metadata import version
from statistics import mean, median
from typing import Any

from harness.builders.collie.audit import TRIVIAL, Audited, AuditRow
from harness.builders.collie.extraction import Yield
from harness.builders.collie.structure import Structure
from harness.builders.markdown import Cell, inline, quoted, settings, table

EXAMPLES = 2
"""Instances of each structure that the report shows."""
LONGEST = 600
"""Characters of one."""
MOST_FINDINGS = 20


def card(name: str, structures: Sequence[Structure], facts: Mapping[str, Any]) -> str:
    """Write the card: what the data set is, and everything needed to build it again."""
    counts: Mapping[str, Mapping[str, int]] = facts["counts"]
    sources = [source["name"] for source in facts["sources"]]
    total = sum(n for of in counts.values() for n in of.values())
    instances: list[Sequence[Cell]] = [
        [one.name, one.about, *(counts.get(one.name, {}).get(source, 0) for source in sources)]
        for one in structures
    ]
    sections = [
        f"# {inline(name)}",
        f"{total:,} instances in the form of COLLIE, built by harness {version('harness')} "
        f"(version {facts['version']} of the pipeline) with seed {facts['seed']}; at most "
        f"{facts['targets']:,} of a structure from a source. Sentences are split by "
        f"{facts['splitter']}. `manifest.json` has the SHA-256 of the files.",
        "## Instances",
        table(["structure", "asks for", *sources], instances),
        "## Sources",
        *(f"### {source['name']}\n\n{settings(source)}" for source in facts["sources"]),
        "## Structures and plug-ins",
        table(["structure", "hash of its content"], list(facts["structures"].items())),
        settings(facts["plugins"]),
    ]
    return "\n\n".join(sections) + "\n"


def report(
    structures: Sequence[Structure],
    yields: Mapping[str, Yield],
    rows: Sequence[AuditRow],
    audited: Sequence[Audited],
) -> str:
    """Write the report: what became of the text, what the instances are like, and examples."""
    sections = [
        "# Report of the build",
        "## Text",
        _text(yields),
        "## Left out by filters",
        "Share of the paragraphs or sentences that were looked at; the first filter that applies "
        "is counted. Of a passage: surviving paragraphs that no passage may contain.",
        _filters(yields),
        "## Structures",
        "Texts that were tried and that satisfied the structure. Suspicious texts were left out: "
        "one of their targets does not begin and end with a letter or digit.",
        _structures(structures, yields, rows),
        "## Audit",
        f"Difficulty is the share of some natural texts that pass; from {TRIVIAL:.0%} on an "
        "instance is trivial. `audit.jsonl` has every instance.",
        _audit(structures, audited),
        *_findings(audited),
        "## Examples",
        *_examples(structures, rows),
    ]
    return "\n\n".join(sections) + "\n"


def _text(yields: Mapping[str, Yield]) -> str:
    head = ["source", "documents", "unreadable", "characters", "paragraphs", "single paragraphs"]
    read: list[Sequence[Cell]] = [
        [name, each.documents, each.unreadable, each.characters, each.paragraphs, each.single]
        for name, each in yields.items()
    ]
    problems = [
        f"- {inline(name)}: {inline(why)}"
        for found in yields.values()
        for name, why in found.problems.items()
    ]
    lengths: list[Sequence[Cell]] = [
        [name, level, n, found.lengths[level] / n if n else None]
        for name, found in yields.items()
        for level, n in found.texts.items()
    ]
    parts = [table(head, read), "Unreadable:\n\n" + "\n".join(problems) if problems else ""]
    parts.append(table(["source", "level", "texts", "mean characters"], lengths))
    return "\n\n".join(filter(None, parts))


def _filters(yields: Mapping[str, Yield]) -> str:
    rows: list[Sequence[Cell]] = []
    for name, found in yields.items():
        sizes = {
            "paragraph": found.paragraphs,
            "sentence": found.sentences,
            "passage": found.surviving if "passage" in found.texts else 0,
        }
        for unit, size in sizes.items():
            counts = found.filtered.get(unit, {})
            rows += [[name, unit, reason, n, n / size] for reason, n in sorted(counts.items())]
            if size:
                total = sum(counts.values())
                rows.append([name, unit, "all of them", total, total / size])
    return table(["source", "unit", "filter", "left out", "share"], rows)


def _structures(
    structures: Sequence[Structure], yields: Mapping[str, Yield], rows: Sequence[AuditRow]
) -> str:
    lines: list[Sequence[Cell]] = []
    for structure in structures:
        name = structure.name
        for source, found in yields.items():
            if structure.level not in found.texts:
                continue
            own = [row for row in rows if (row.structure, row.source) == (name, source)]
            numbers = [found.texts[structure.level], found.satisfied.get(name, 0)]
            numbers += [found.suspicious.get(name, 0), len(own)]
            numbers.append(len({json.dumps([row.constraint, row.targets]) for row in own}))
            words = mean(len((row.example or "").split()) for row in own) if own else None
            lines.append([name, source, *numbers, words])
    head = ["structure", "source", "tried", "satisfied", "suspicious", "instances"]
    return table([*head, "different targets", "mean words"], lines)


def _audit(structures: Sequence[Structure], audited: Sequence[Audited]) -> str:
    lines: list[Sequence[Cell]] = []
    for structure in structures:
        own = [one for one in audited if one.structure == structure.name]
        shares = [one.share for one in own if one.share is not None]
        lines.append(
            [
                structure.name,
                len(own),
                sum(one.passes is True for one in own),
                sum(len(one.near_misses) for one in own),
                sum(bool(one.unbroken) for one in own),
                sum(bool(one.problems) for one in own),
                sum(one.same_as is not None for one in own),
                sum(one.trivial for one in own),
                median(shares) if shares else None,
            ]
        )
    head = ["structure", "instances", "reference passes", "near misses", "with an unbroken part"]
    return table([*head, "with problems", "duplicates", "trivial", "median share"], lines)


def _findings(audited: Sequence[Audited]) -> Iterator[str]:
    """Yield the most frequent findings, each with an example."""
    found: dict[str, list[str]] = {}
    for one in audited:
        lines = [*one.problems, *(f"no change violates: {part}" for part in one.unbroken)]
        lines += [f"most natural texts satisfy: {part}" for part in one.trivial_parts]
        for line in lines:
            found.setdefault(line, []).append(one.id)
    if found:
        most = sorted(found.items(), key=lambda pair: (-len(pair[1]), pair[0]))[:MOST_FINDINGS]
        yield "## Findings"
        yield "\n".join(
            f"- {inline(line)} ({len(ids):,}, for example {inline(ids[0])})" for line, ids in most
        )


def _examples(structures: Sequence[Structure], rows: Sequence[AuditRow]) -> Iterator[str]:
    for structure in structures:
        for row in [row for row in rows if row.structure == structure.name][:EXAMPLES]:
            example = quoted(row.example or "", LONGEST)
            yield f"**{inline(row.id)}**: {inline(row.prompt)}\n\n{example}"
