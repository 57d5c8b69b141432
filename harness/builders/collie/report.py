"""The card and the report of a built data set, in Markdown.

The card says what the data set is made of and can be made again from; the report what became of the
text on the way, how hard the instances are, and shows some.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from importlib.metadata import version
from statistics import mean, median
from typing import Any

from harness.builders.card import Cell, inline, quoted, table
from harness.builders.collie.audit import TRIVIAL, Audited
from harness.builders.collie.instances import Row
from harness.builders.collie.source import parts
from harness.builders.collie.structure import Structure
from harness.builders.collie.yields import Yield

EXAMPLES = 2
"""Of each structure, to look at."""
LONGEST = 600
"""Characters of one."""


def card(
    name: str,
    structures: Sequence[Structure],
    facts: Mapping[str, Any],
    yields: Mapping[str, Yield],
) -> str:
    """What the data set is, and all that is needed to build it again."""
    counts: Mapping[str, Mapping[str, int]] = facts["counts"]
    total = sum(n for of in counts.values() for n in of.values())
    about = {structure.name: structure.about for structure in structures}
    lines = [
        f"# {inline(name)}",
        "",
        f"{total:,} instances in the form of COLLIE, built by harness {version('harness')}"
        f" (version {facts['version']} of the pipeline) with seed {facts['seed']}; at most"
        f" {facts['targets']:,} of a structure from a source.",
        f"Sentences are split by {facts['splitter']}. `manifest.json` has the files' SHA-256.",
        "",
        "## Instances",
        "",
        table(
            ["structure", "asks for", *yields],
            ([s, about[s], *(counts.get(s, {}).get(name, 0) for name in yields)] for s in about),
        ),
        "",
        "## Sources",
    ]
    for source in facts["sources"]:
        [(loader, options)] = parts([source["load"]])
        lines += [
            "",
            f"### {source['name']}",
            "",
            f"- loaded by `{loader}`: {_plain(options)}",
            f"- {source['chosen']:,} of {source['available']:,} documents,"
            f" {source['unreadable']:,} of these unreadable,"
            f" {yields[source['name']].characters:,} characters; SHA-256 of names and texts"
            f" {source['sha256']}",
            f"- paragraphs parted at {_plain(source['delimiter'])}; at most"
            f" {source['strings'] or 'all'} texts of a level from a document",
            f"- filters: {_names(source['filters'])}; of passages, too:"
            f" {_names(source['passage_filters'])}",
            f"- post-processors: {_names(source['post_processors'])}",
            f"- paragraphs of a passage: {_plain(source['passages'] or 'as many as in a row')}",
        ]
    hashes = [[name, key] for name, key in facts["structures"].items()]
    foreign = [
        [name, f"{of['package']} {of['version']}", of["sha256"]]
        for name, of in facts["plugins"].items()
        if of["package"] != "harness"
    ]
    if foreign:
        lines += ["", "## Plug-ins", "", table(["plug-in", "package", "SHA-256 of code"], foreign)]
    lines += ["", "## Structures", "", table(["structure", "hash of its file's content"], hashes)]
    return "\n".join(lines) + "\n"


def report(
    structures: Sequence[Structure],
    yields: Mapping[str, Yield],
    rows: Sequence[Row],
    audited: Sequence[Audited],
) -> str:
    """What became of the text, what the instances are like, and examples."""
    sections = [
        "# Report of the build",
        *("## Text\n\n" + part for part in [_text(yields)]),
        "## Left out by filters\n\nShare of the paragraphs or sentences that were looked at; the"
        " first filter that holds counts. Of a passage: surviving paragraphs that none is made"
        " of.\n\n" + _filters(yields),
        "## Structures\n\nTried on texts, satisfied by some; suspicious are those with a target"
        " that begins or ends with neither letter nor digit: they are left out.\n\n"
        + _structures(structures, yields, rows),
        "## Audit\n\nThe share of natural texts (as many as 40 of a source and level) that pass"
        " tells how hard an instance is; from "
        f"{TRIVIAL:.0%} on it is trivial. `audit.jsonl` has every instance.\n\n"
        + _audit(structures, audited),
        *_findings(audited),
        "## Examples\n\n" + "\n\n".join(_examples(structures, rows)),
    ]
    return "\n\n".join(sections) + "\n"


def _text(yields: Mapping[str, Yield]) -> str:
    rows: list[Sequence[Cell]] = [
        [name, found.documents, found.unreadable, found.characters, found.paragraphs, found.single]
        for name, found in yields.items()
    ]
    head = ["source", "documents", "unreadable", "characters", "paragraphs", "single, no passage"]
    problems = [
        f"- {inline(name)}: {inline(why)}"
        for found in yields.values()
        for name, why in found.problems.items()
    ]
    lengths: list[Sequence[Cell]] = [
        [name, level, of.n, of.shortest, of.mean, of.longest]
        for name, found in yields.items()
        for level, of in found.strings.items()
    ]
    told = table(head, rows) + ("\n\nUnreadable:\n\n" + "\n".join(problems) if problems else "")
    lengths_head = ["source", "level", "texts", "shortest", "mean characters", "longest"]
    return f"{told}\n\n{table(lengths_head, lengths)}"


def _filters(yields: Mapping[str, Yield]) -> str:
    rows: list[Sequence[Cell]] = []
    for name, found in yields.items():
        looked_at_each = {
            "paragraph": found.paragraphs,
            "sentence": found.sentences,
            "passage": found.surviving if "passage" in found.strings else 0,
        }
        for unit, looked_at in looked_at_each.items():
            counts = found.filtered.get(unit, {})
            rows += [[name, unit, reason, n, n / looked_at] for reason, n in sorted(counts.items())]
            if looked_at:
                left_out = sum(counts.values())
                rows.append([name, unit, "all of them", left_out, left_out / looked_at])
    return table(["source", "unit", "filter", "left out", "share"], rows)


def _structures(
    structures: Sequence[Structure], yields: Mapping[str, Yield], rows: Sequence[Row]
) -> str:
    lines: list[Sequence[Cell]] = []
    for structure in structures:
        for source, found in yields.items():
            tried = found.strings.get(structure.level)
            if tried is None:
                continue
            own = [r for r in rows if (r.structure, r.source) == (structure.name, source)]
            words = [len(row.example.split()) for row in own]
            lines.append(
                [
                    structure.name,
                    source,
                    tried.n,
                    found.satisfied.get(structure.name, 0),
                    found.suspicious.get(structure.name, 0),
                    len(own),
                    len({json.dumps([row.constraint, row.targets]) for row in own}),
                    min(words, default=None),
                    mean(words) if words else None,
                    max(words, default=None),
                ]
            )
    head = ["structure", "source", "tried", "satisfied", "suspicious", "instances"]
    return table([*head, "different targets", "fewest words", "mean words", "most words"], lines)


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
    head = [
        "structure",
        "instances",
        "gold passes",
        "near misses that fail",
        "with an unbroken part",
    ]
    head += ["with problems", "the same twice", "trivial", "median share"]
    return table(head, lines)


def _findings(audited: Sequence[Audited]) -> Iterator[str]:
    """What the audit found, in a few lines: kinds of findings with an example of each."""
    found: dict[str, list[str]] = {}
    for one in audited:
        said = [*one.problems, *(f"nothing breaks: {part}" for part in one.unbroken)]
        said += [f"most natural texts satisfy: {part}" for part in one.trivial_parts]
        for line in said:
            found.setdefault(line, []).append(one.id)
    if found:
        most = sorted(found.items(), key=lambda pair: (-len(pair[1]), pair[0]))[:20]
        lines = [f"- {inline(line)} ({len(ids):,}, as {inline(ids[0])})" for line, ids in most]
        yield "## Findings\n\n" + "\n".join(lines)


def _examples(structures: Sequence[Structure], rows: Sequence[Row]) -> Iterator[str]:
    for structure in structures:
        for row in [row for row in rows if row.structure == structure.name][:EXAMPLES]:
            yield (f"**{inline(row.id)}**: {inline(row.prompt)}\n\n{quoted(row.example, LONGEST)}")


def _names(named: Sequence[Any]) -> str:
    said = [
        f"`{name}`" + (f" ({_plain(options)})" if options else "") for name, options in parts(named)
    ]
    return ", ".join(said) or "none"


def _plain(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{key} {_plain(each)}" for key, each in value.items())
    return f"`{json.dumps(value).replace('`', '')}`"
