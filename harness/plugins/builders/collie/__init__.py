"""Builds a benchmark like COLLIE (arXiv 2307.08689) from your own corpus."""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median

from harness.datasets.folder import DataFolder
from harness.errors import ConfigError, DataInvalid
from harness.plugin_loader import kind
from harness.plugins.benchmarks.collie.constraints.check import splitter
from harness.plugins.benchmarks.collie.constraints.grammar import Base, Constraint, measure_name
from harness.plugins.benchmarks.collie.task import CollieItem
from harness.plugins.builders import folder
from harness.plugins.builders.collie import extraction
from harness.plugins.builders.collie.audit import TRIVIAL, Audited, audit
from harness.plugins.builders.collie.extraction import Extracted, ExtractionPlan, Segmenter, Yield
from harness.plugins.builders.collie.source import DocumentBatch, Documents, Source, parts
from harness.plugins.builders.collie.structure import Structure
from harness.plugins.builders.folder import BuiltFolder, Stages, key_of, locked_stages, rendered
from harness.workers import Workers

KIND = "collie"
VERSION = 2  # incremented when a seed gives different instances or near misses

INSTANCES = "instances.jsonl"
AUDIT = "audit.jsonl"
CARD = "card.md"
REPORT = "report.md"


@dataclass(frozen=True, slots=True)
class Recipe:
    """The settings of a build, with at most ``targets`` instances per structure and source."""

    structures: Sequence[Structure]
    sources: Sequence[Source]
    seed: int = 0
    targets: int = 100


def build(
    recipe: Recipe,
    out: Path,
    data: DataFolder,
    *,
    jobs: int = 1,
    status: Callable[[str], None] = lambda _: None,
) -> BuiltFolder:
    """Build a data set from a recipe, and write it to the folder ``out``.

    An interrupted build resumes at the next call, from results saved next to ``out``. The build
    runs in ``jobs`` processes, and calls ``status`` with progress messages.
    """
    structures = recipe.structures
    sources = recipe.sources
    out = out.resolve()
    nltk_data = data.root / "nltk_data"
    folder.refuse_other(out, KIND, (INSTANCES, AUDIT, CARD, REPORT))
    _refuse_mismatch(structures, sources)
    units = splitter(nltk_data)
    for source in sources:
        Segmenter(source, units, recipe.seed)  # reports mistyped filters before any work
    plan = ExtractionPlan(
        [dict(structure.plain) for structure in structures],
        {source.name: source.plain() for source in sources},
        _plugins(structures, sources),
        recipe.seed,
        recipe.targets,
        str(nltk_data),
        units.name,
    )
    key = key_of(VERSION, plan)
    with ExitStack() as stack:
        workers = stack.enter_context(Workers(jobs))
        corpora = {source.name: Documents(source, recipe.seed, data) for source in sources}
        stages = stack.enter_context(locked_stages(out.with_name(f".{out.name}.stages"), out))
        stack.enter_context(stages.deleted_on_mistakes())
        yields = _extracted(plan, corpora, key, stages, workers, status)
        items = extraction.instances(structures, yields)
        if not items:
            raise DataInvalid("No text of the sources fits any structure.", _remedy(yields))
        status(f"{len(items):,} instances; auditing them")
        background = {name: extracted.strings for name, extracted in yields.items()}
        audited = stages.result(
            "audit",
            key_of(key, items, background),
            list[Audited],
            lambda: audit(items, background, nltk_data, workers),
        )
        counts: dict[str, Counter[str]] = defaultdict(Counter)  # structure -> source -> instances
        for item in items:
            counts[item.structure][item.source] += 1
        source_facts = []
        for name, corpus in corpora.items():
            numbers = {"available": corpus.available, "chosen": corpus.chosen}
            numbers["unreadable"] = yields[name].unreadable
            source_facts.append(plan.sources[name] | numbers | {"sha256": corpus.sha256})
        facts = {
            "version": VERSION,
            "seed": recipe.seed,
            "targets": recipe.targets,
            "splitter": units.name,
            "structures": {structure.name: key_of(structure.plain) for structure in structures},
            "sources": source_facts,
            "plugins": plan.plugins,
            "counts": counts,
        }
        n = len(items)
        pairs = zip(items, audited, strict=True)
        rows = [item.row(findings.near_misses) for item, findings in pairs]
        text = report(structures, yields, items, audited)
        card = rendered("collie/card.md.j2", name=out.name, facts=facts, instances=n)
        texts = {CARD: card, REPORT: text}
        folder.write(out, KIND, {INSTANCES: rows, AUDIT: audited}, facts, texts)
        stages.delete()
    return BuiltFolder(out, n, facts, text, stages.resumed)


def _refuse_mismatch(structures: Sequence[Structure], sources: Sequence[Source]) -> None:
    for name, n in Counter(source.name for source in sources).items():
        if n > 1:
            message = f"There are two sources named {name!r}."
            raise ConfigError(message, "Name one: --source NAME=PATH.")
    levels = set().union(*(source.levels for source in sources))
    for structure in structures:
        level = structure.level
        if level in levels:
            continue
        message = f"{structure.name} needs texts of the level {level}, which no source has."
        remedy = "Add that level to 'levels' in a source's file"
        if level == "word":
            remedy = "Add a word list, --source words=FILE"
        raise ConfigError(f"The structure {message}", f"{remedy}, or omit the structure.")


def _plugins(
    structures: Sequence[Structure], sources: Sequence[Source]
) -> dict[str, dict[str, str]]:
    """Map each plug-in of a recipe, such as "filter url", to its package, version and hash."""
    used: set[tuple[str, str]] = set()
    for structure in structures:
        for base in _bases(structure.constraints):
            name = measure_name(base)
            if name is not None:
                used.add(("measures", name))
    for source in sources:
        plug_ins_by_group = {
            "loaders": [source.load],
            "filters": [*source.filters, *source.passage_filters],
            "post_processors": source.post_processors,
        }
        for group, plug_ins in plug_ins_by_group.items():
            used.update((group, name) for name, _ in parts(plug_ins))
    return {f"{kind(group).title} {name}": kind(group).origin(name) for group, name in sorted(used)}


def _bases(constraints: Sequence[Constraint]) -> Iterator[Base]:
    for constraint in constraints:
        if isinstance(constraint, Base):
            yield constraint
        else:
            yield from _bases(constraint.constraints)


def _extracted(
    plan: ExtractionPlan,
    corpora: Mapping[str, Documents],
    key: str,
    stages: Stages,
    workers: Workers,
    status: Callable[[str], None],
) -> dict[str, Yield]:
    yields = {name: Yield() for name in corpora}
    names = deque[tuple[str, str]]()  # source and stage of each batch in work

    def add(name: str, extracted: Extracted) -> None:
        total = yields[name]
        extraction.merge(total, extracted.found, plan)
        status(
            f"{name}: {total.documents:,} of {corpora[name].chosen:,} documents, "
            f"{total.characters / 1e6:.1f} million characters"
        )

    def new_batches() -> Iterator[DocumentBatch]:
        for name, documents in corpora.items():
            for place, batch in enumerate(documents.batches()):
                stage = f"{name}-{place:05}"
                saved = stages.saved(stage, key, Extracted)
                if saved is not None and saved.digests == batch.digests:
                    stages.resumed += 1
                    add(name, saved)
                else:
                    names.append((name, stage))
                    yield batch

    for extracted in workers.map_in_order(partial(extraction.extract_batch, plan), new_batches()):
        name, stage = names.popleft()
        stages.save(stage, key, extracted)
        add(name, extracted)
    for name, total in yields.items():
        if not total.documents:
            reason = next(iter(total.problems.values()), "it has none").rstrip(".")
            raise DataInvalid(f"No document of {name!r} can be read: {reason}.")
    return yields


def _remedy(yields: Mapping[str, Yield]) -> str:
    n_suspicious = sum(sum(extracted.suspicious.values()) for extracted in yields.values())
    if n_suspicious:
        return (
            f"{n_suspicious:,} texts do, but one of their targets does not begin and end with a "
            "letter or digit. Clean the text with post-processors, or ask for other positions."
        )
    for name, extracted in yields.items():
        if extracted.paragraphs == sum(extracted.filtered.get("paragraph", {}).values()):
            return f"The filters of {name!r} drop all {extracted.paragraphs:,} paragraphs."
    return "Widen the structures' ranges, or add text."


def report(
    structures: Sequence[Structure],
    yields: Mapping[str, Yield],
    items: Sequence[CollieItem],
    audited: Sequence[Audited],
) -> str:
    """Return the build's report in Markdown: texts kept and dropped, audit results and examples."""
    return rendered(
        "collie/report.md.j2",
        structures=structures,
        yields=yields,
        items=items,
        audited=audited,
        built=Counter((item.structure, item.source) for item in items),
        trivial=TRIVIAL,
        median=_median_share,
    )


def _median_share(findings: Sequence[Audited]) -> float | None:
    shares = [item.share for item in findings if item.share is not None]
    if not shares:
        return None
    return median(shares)
