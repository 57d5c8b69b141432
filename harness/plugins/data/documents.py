"""Describes and presents what a data set holds: its tables, and its criteria."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from itertools import combinations
from math import log
from pathlib import Path

import msgspec
from msgspec import Struct

from harness.errors import import_extra
from harness.ports import DataTable
from harness.records import Criterion
from harness.report.table import Column, Note, Table, TableDocument, table
from harness.report.text import format_percent

CATEGORY = "category"
NONE = "(none)"  # The group of a criterion without the label
SUBJECT = ("you", "must")  # prepended for tagging, because an instruction begins with a verb
MODAL = "VM0"  # The tag of must, should, …; not counted as verbs, as in the Penn Treebank


class Together(Struct, frozen=True):
    """Two groups of criteria: the number of tasks with both, and the groups' `pmi`."""

    first: str
    second: str
    n: int
    pmi: float | None


class CriteriaDescription:
    """Statistics of a data set's criteria, as in Lior et al. 2025 (arXiv 2503.06573), section 3.

    The attributes are the keys of the JSON document.

    Args:
        tasks: For each task, its group for each label, and its criteria.
        label: The label of criteria by which to group them.
        verbs: Finds the verbs in a criterion's text. Without it, none are counted.
    """

    def __init__(
        self,
        tasks: Iterable[tuple[Mapping[str, str], Sequence[Criterion]]],
        label: str = CATEGORY,
        verbs: Callable[[str], list[str]] = lambda text: [],
    ) -> None:
        by_count = Counter[int]()
        by_group = Counter[str]()
        texts = Counter[str]()
        groups_by_count = defaultdict[int, Counter[str]](Counter)
        labels = defaultdict[str, Counter[str]](Counter)
        pairs = Counter[tuple[str, str]]()
        for groups_of_task, criteria in tasks:
            for name, group in groups_of_task.items():
                labels[name][group] += 1
            groups = []
            for criterion in criteria:
                groups.append(criterion.groups.get(label, NONE))
                texts[criterion.text] += 1
            by_count[len(criteria)] += 1
            groups_by_count[len(criteria)].update(groups)
            by_group.update(set(groups))
            pairs.update(combinations(sorted(set(groups)), 2))
        openings = Counter[str]()
        anywhere = Counter[str]()
        for text, n in texts.items():
            bases = verbs(text)
            openings.update(dict.fromkeys(filter(None, bases[:1]), n))
            anywhere.update(dict.fromkeys(filter(None, bases), n))
        counts = sum(groups_by_count.values(), Counter[str]())
        self.label = label
        self.n_tasks = by_count.total()
        self.n_criteria = counts.total()
        self.n_distinct = len(texts)
        self.mean = self.n_criteria / self.n_tasks if self.n_tasks else None  # criteria per task
        self.tasks_by_count = dict(sorted(by_count.items()))  # by number of criteria
        self.groups = _falling(counts)  # criteria by group of the label (figure 2a)
        self.tasks_by_group = _falling(by_group)
        # By a task's number of criteria (figure 11).
        self.groups_by_count = {n: _falling(groups_by_count[n]) for n in self.tasks_by_count}
        self.repeated = dict(sorted(Counter(texts.values()).items()))  # texts that occur once, …
        self.verbs = _falling(anywhere)  # criteria that contain each verb (figure 4b)
        self.openings = _falling(openings)  # criteria that begin with each verb
        self.together: list[Together] = []  # every two groups (figure 3)
        for first, second in combinations(sorted(by_group), 2):
            n = pairs[first, second]
            value = pmi(n, by_group[first], by_group[second], self.n_tasks)
            self.together.append(Together(first, second, n, value))
        self.labels = {name: _falling(groups) for name, groups in labels.items()}  # tasks


def verbs(text: str) -> list[str]:
    """Return an entry for each word of a text: the base form of a verb, or "" for any other word.

    Modals, and placeholders (words with an underscore), do not count as verbs. The tagger is
    HanTa's for English (Wartena 2019, "A Probabilistic Morphology Model for German Lemmatization").
    docs/wildifeval.md compares it with NLTK's.
    """
    from harness.plugins.benchmarks import punkt  # imports NLTK

    bases: list[str] = []
    for sentence in punkt.own().tokenize(text.replace("\u2019", "'")):
        first, *others = punkt.word_tokens(sentence)
        words = [*SUBJECT, first if "_" in first else first.lower(), *others]
        for word, base, tag in _tagger()(words)[len(SUBJECT) :]:
            is_verb = tag.startswith("V") and tag != MODAL and "_" not in word
            bases.append(base.lower() if is_verb else "")
    return bases


@cache
def _tagger() -> Callable[[list[str]], list[tuple[str, str, str]]]:
    hanta = import_extra("HanTa.HanoverTagger", "build")
    model = Path(hanta.__file__).with_name("morphmodel_en.pgz")  # not one in the current folder
    return hanta.HanoverTagger(str(model)).tag_sent  # type: ignore[no-any-return]


def pmi(both: int, first: int, second: int, n: int) -> float | None:
    """Return the pointwise mutual information of two groups, in nats (None for -∞).

    It is log(p(a, b) / (p(a) p(b))), as in Church and Hanks 1990, "Word Association Norms, Mutual
    Information, and Lexicography". The arguments are numbers of tasks: with both groups, with the
    first, with the second, and in total.
    """
    return log(both * n / (first * second)) if both else None


def _falling(counts: Counter[str]) -> dict[str, int]:
    return dict(sorted(counts.items(), key=lambda entry: (-entry[1], entry[0])))


MOST_ROWS = 20  # maximum rows in the tables on criteria; JSON has all


def data_document(task: str, tables: Sequence[DataTable]) -> TableDocument:
    """Build the document on a task's data set."""
    parts: list[Table | Note] = []
    data = []
    for data_table in tables:
        names = data_table.columns
        columns = [Column(name, digits=2, text=not place) for place, name in enumerate(names)]
        parts.append(table(columns, data_table.rows))
        if data_table.source:
            parts.append(Note(data_table.source))
        data.append({"source": data_table.source, "columns": names, "rows": data_table.rows})
    return TableDocument(title=task, parts=parts, data=data)


def criteria_document(task: str, description: CriteriaDescription) -> TableDocument:
    """Build the document on a data set's criteria."""
    mean = "" if description.mean is None else f", {description.mean:.2f} a task"
    summary = f"{description.n_tasks:,} tasks, {description.n_criteria:,} criteria{mean}; "
    summary += f"{description.n_distinct:,} different ones"
    counts_by_size = description.groups_by_count
    counts: list[list[object]] = [["tasks", *description.tasks_by_count.values()]]
    groups = []
    for name, n in description.groups.items():
        groups.append(
            [name, n, _share(n, description.n_criteria), description.tasks_by_group[name]]
        )
        counts.append([name, *[by_group.get(name, 0) for by_group in counts_by_size.values()]])
    repeated = {f"{k} x": n for k, n in description.repeated.items()}
    parts: list[Table | Note] = [
        Note(summary, ""),
        table((description.label, "criteria", "%", "tasks"), groups),
        table(("number", *map(str, counts_by_size)), counts),
        table(("occurs", "criteria", "%"), _frequent(repeated, description.n_distinct)),
    ]
    note = (
        f"PMI: ln(p(a, b) / (p(a) p(b))), where p is a share of the {description.n_tasks:,} "
        "tasks, or -∞ if no task asks for both; above the diagonal, the number of tasks that ask "
        "for both."
    )
    if description.verbs:
        note += " Verbs: base forms, and the criteria that begin with each or have it."
        frequent = list(description.verbs.items())[:MOST_ROWS]
        verbs = [[verb, description.openings.get(verb, 0), n] for verb, n in frequent]
        parts.append(table(("verb", "opening", "anywhere"), verbs))
    parts.append(_together(description))
    for label, tasks in description.labels.items():
        parts.append(table((label, "tasks", "%"), _frequent(tasks, description.n_tasks)))
    parts.append(Note(note))
    data = {"task": task, **msgspec.to_builtins(vars(description), str_keys=True)}
    return TableDocument(title=task, parts=parts, data=data)


def _together(description: CriteriaDescription) -> Table:
    groups = sorted(description.tasks_by_group)
    pairs = {(pair.first, pair.second): pair for pair in description.together}
    rows = []
    for place, name in enumerate(groups):
        row: list[object] = [f"{place + 1} {name}"]
        for before in groups[:place]:
            pmi = pairs[before, name].pmi
            row.append("-∞" if pmi is None else f"{pmi:+.2f}")
        row.append("·")
        row += [pairs[name, after].n for after in groups[place + 1 :]]
        rows.append(row)
    numbers = [str(number) for number in range(1, len(groups) + 1)]
    return table(["PMI", *numbers], rows)


def _frequent(counts: Mapping[str, int], total: int) -> list[list[object]]:
    listed = list(counts.items())
    rest = listed[MOST_ROWS:]
    rows: list[list[object]] = []
    for name, n in listed[:MOST_ROWS]:
        rows.append([name or "(none)", n, _share(n, total)])
    if rest:
        n = sum(count for _, count in rest)
        rows.append([f"{len(rest):,} others", n, _share(n, total)])
    return rows


def _share(n: int, total: int) -> str:
    return format_percent(n, total).removesuffix("%")
