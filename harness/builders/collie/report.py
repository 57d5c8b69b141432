"""The report of a built data set, in Markdown.

It says what became of the text, how hard the instances are, and shows some.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from statistics import median

from harness.builders.collie.audit import TRIVIAL, Audited, AuditRow
from harness.builders.collie.extraction import Yield
from harness.builders.collie.structure import Structure
from harness.builders.markdown import Cell, document, inline, quoted, table

EXAMPLES = 2
"""Instances of each structure that the report shows."""
LONGEST = 600
"""Characters of one."""


def report(
    structures: Sequence[Structure],
    yields: Mapping[str, Yield],
    rows: Sequence[AuditRow],
    audited: Sequence[Audited],
) -> str:
    """Write the report: what became of the text, what the instances are like, and examples."""
    unreadable = [
        f"- {inline(name)}: {inline(why)}"
        for found in yields.values()
        for name, why in found.problems.items()
    ]
    return document(
        "# Report of the build",
        "## Text",
        table(
            {
                "source": name,
                "documents": found.documents,
                "unreadable": found.unreadable,
                "characters": found.characters,
                "paragraphs": found.paragraphs,
            }
            for name, found in yields.items()
        ),
        "Unreadable:\n\n" + "\n".join(unreadable) if unreadable else "",
        "## Left out by filters",
        "Share of the paragraphs or sentences that were looked at; the first filter that applies "
        "is counted. Of a passage: surviving paragraphs that no passage may contain.",
        table(_filters(yields)),
        "## Structures",
        "Texts that were tried and that satisfied the structure. Suspicious texts were left out: "
        "one of their targets does not begin and end with a letter or digit.",
        table(
            {
                "structure": structure.name,
                "source": source,
                "tried": found.texts[structure.level],
                "satisfied": found.satisfied.get(structure.name, 0),
                "suspicious": found.suspicious.get(structure.name, 0),
                "instances": sum((r.structure, r.source) == (structure.name, source) for r in rows),
            }
            for structure in structures
            for source, found in yields.items()
            if structure.level in found.texts
        ),
        "## Audit",
        f"Difficulty is the share of some natural texts that pass; from {TRIVIAL:.0%} on an "
        "instance is trivial. `audit.jsonl` has the findings of every instance.",
        table(_audit(structure.name, audited) for structure in structures),
        "## Examples",
        *(
            f"**{inline(row.id)}**: {inline(row.prompt)}\n\n{quoted(row.example or '', LONGEST)}"
            for structure in structures
            for row in [row for row in rows if row.structure == structure.name][:EXAMPLES]
        ),
    )


def _filters(yields: Mapping[str, Yield]) -> Iterator[dict[str, Cell]]:
    for name, found in yields.items():
        surviving = found.paragraphs - sum(found.filtered.get("paragraph", {}).values())
        sizes = {
            "paragraph": found.paragraphs,
            "sentence": found.sentences,
            "passage": surviving if "passage" in found.texts else 0,
        }
        for unit, size in sizes.items():
            counts = found.filtered.get(unit, {})
            for reason, n in [*sorted(counts.items()), ("all of them", sum(counts.values()))]:
                if size:
                    of: dict[str, Cell] = {"source": name, "unit": unit, "filter": reason}
                    yield of | {"left out": n, "share": n / size}


def _audit(structure: str, audited: Sequence[Audited]) -> dict[str, Cell]:
    own = [one for one in audited if one.structure == structure]
    shares = [one.share for one in own if one.share is not None]
    return {
        "structure": structure,
        "instances": len(own),
        "reference passes": sum(one.passes is True for one in own),
        "near misses": sum(len(one.near_misses) for one in own),
        "with an unbroken part": sum(bool(one.unbroken) for one in own),
        "with problems": sum(bool(one.problems) for one in own),
        "duplicates": sum(one.same_as is not None for one in own),
        "trivial": sum(one.trivial for one in own),
        "median share": median(shares) if shares else None,
    }
