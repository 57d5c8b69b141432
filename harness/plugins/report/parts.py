"""The document that the page draws: JSON with formatted texts, tables and figures of runs.

Its content is safe. Markup is escaped. Characters that change a line's direction, have no width or
control a terminal are made visible here, and in the browser by ``web/src/text.tsx``. Data are
compressed and base64-encoded, so they cannot end their element. Scripts are allowed by their hash,
so no other code can run.

>>> visible("user\\u202egpj.exe")
'user⟨U+202E⟩gpj.exe'
"""

from __future__ import annotations

import gzip
import hashlib
from base64 import b64encode
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any, Literal

import msgspec
import regex
from jinja2 import Environment, FileSystemLoader, StrictUndefined, Template
from markupsafe import Markup, escape
from msgspec import Struct

from harness.analysis.metrics import Statistic
from harness.plugins.comparisons.comparison_document import ShownUnit
from harness.plugins.report.figure import Figure
from harness.records import replace_surrogates
from harness.report.table import Cell, Row, Table

STYLES = {"green": "good", "yellow": "warn", "red": "bad", "bold": "bold", "dim": "dim"}
"""Classes of cells on the page, by the word of a terminal's style."""


class CellPart(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A cell of a table: its text, sort key, tooltip and style, and a link to attempts."""

    text: str
    sort: float | None = None
    title: str = ""
    style: str = ""
    href: str = ""


class ColumnPart(Struct, frozen=True):
    """A column of a table. Neighbouring columns may share ``over``, a heading above their own."""

    heading: str
    over: str = ""
    numeric: bool = False


class RowPart(Struct, frozen=True):
    """A row of a table, with ``marks``: warnings about its run."""

    cells: list[CellPart]
    marks: Sequence[str] = ()


class TablePart(Struct, frozen=True, kw_only=True, tag_field="kind", tag="table"):
    """A table, whose first ``names`` columns hold the names of its rows."""

    title: str
    names: int = 1
    headless: bool = False
    folded: bool = False
    columns: list[ColumnPart]
    rows: list[RowPart]
    footer: RowPart | None = None
    notes: Sequence[str] = ()


class FigurePart(Struct, frozen=True, kw_only=True, tag_field="kind", tag="figure"):
    """A chart, and a table of the numbers in it."""

    name: str
    title: str
    caption: str
    chart: Mapping[str, Any]
    table: TablePart


class NotePart(Struct, frozen=True, tag_field="kind", tag="note"):
    """A paragraph of text."""

    text: str


Part = TablePart | FigurePart | NotePart


class PageSection(Struct, frozen=True):
    """A section of a page, with its anchor, title and parts."""

    id: str
    title: str
    parts: list[Part]


ScoreKind = Literal["check", "judge", "panel", "score"]


class RateValue(Struct, frozen=True, kw_only=True):
    """A run's primary metric with its 95% interval, over n samples."""

    value: float | None
    low: float | None
    high: float | None
    n: int


class ScoreMean(Struct, frozen=True, kw_only=True):
    """The mean of one of a run's scores, excluding the ``missing`` samples without a value."""

    name: str
    kind: ScoreKind
    value: float | None
    low: float | None
    high: float | None
    n: int
    missing: int
    unit: str  # "%" for a fraction


class FailureShare(Struct, frozen=True, kw_only=True):
    """A reason for failures of a run's last answers or calls."""

    reason: str
    n: int
    of: int  # the run's failed samples or, if calls failed for this reason, its failed calls
    hint: str
    example: tuple[str, int, int]  # instance, sample, round
    alone: bool  # whether the example failed for this reason alone
    filter: Mapping[str, str]  # of the grid of attempts


class WithoutJudges(Struct, frozen=True, kw_only=True):
    """A run's verdicts, leaving out the deciding judges that were not validated."""

    judges: Sequence[str]
    value: float | None  # the pass rate; None if nothing else decides
    failed: int  # samples
    alone: int  # failed samples that nothing else fails


class RunOverview(Struct, frozen=True, kw_only=True):
    """The figures of one run."""

    name: str
    full_name: str
    task: str
    model: str
    marks: Sequence[str]
    recorded: bool
    samples: int
    planned: int | None
    attempts: int
    included: int  # attempts that the page has
    rate: RateValue
    measure: str
    unit: str
    scores: list[ScoreMean]
    failures: list[FailureShare]
    n_failed: int
    n_failed_calls: int  # samples whose last call failed
    without: WithoutJudges | None
    not_judged: int
    outcomes: Mapping[str, int]
    cost_usd: float | None
    computed_usd: float  # part of the cost, as in `Metrics`
    cost_per_solved_usd: float | None
    latency_s: Mapping[str, float] | None  # of a call
    sample_s: Mapping[str, float] | None  # of a sample's calls in all its rounds
    calls: int


class Difference(Struct, frozen=True, kw_only=True):
    """The difference of a run from the baseline."""

    run: str
    difference: float | None
    low: float | None
    high: float | None
    p: float | None
    p_adjusted: float | None
    better: int
    worse: int
    n: int


class ComparisonOverview(Struct, frozen=True, kw_only=True):
    """The comparison of all other runs with the baseline."""

    baseline: str
    score: str
    unit: str
    round: int | None
    rows: list[Difference]
    notes: Sequence[str]


class Mark(Struct, frozen=True):
    """A warning that applies to some runs, such as SIMULATED."""

    text: str
    runs: list[str]
    note: str


class Headline(Struct, frozen=True):
    """The sentence at the top of a page, and the sentences that support it."""

    sentence: str
    support: list[str]


class Overview(Struct, frozen=True, kw_only=True):
    """The document that a page draws."""

    title: str
    made_at: datetime
    live: bool = False
    digits: int
    answer: Headline
    marks: list[Mark] = []
    warnings: list[str] = []
    prefix: str = ""
    runs: list[RunOverview] = []
    differences: TablePart | None = None
    comparison: ComparisonOverview | None = None
    sections: list[PageSection] = []
    judges: Mapping[str, str] = {}  # whether each judge was validated, in words
    groups: Mapping[str, Mapping[str, str]] = {}
    method: list[str] = []
    provenance: list[TablePart] = []


def table_part(table: Table, unit: ShownUnit, *, folded: bool = False) -> TablePart:
    """Convert a table for the page. Values in columns marked `rate` are shown in ``unit``."""
    columns = []
    for place, column in enumerate(table.columns):
        numeric = place >= table.names and not column.text
        columns.append(ColumnPart(column.heading, column.over, numeric))
    footer = None
    if table.footer is not None:
        footer = _row(table, table.footer, unit)
    return TablePart(
        title=table.title,
        names=0 if table.headless else table.names,
        headless=table.headless,
        folded=folded,
        columns=columns,
        rows=[_row(table, row, unit) for row in table.rows],
        footer=footer,
        notes=table.notes,
    )


def _row(table: Table, row: Row, unit: ShownUnit) -> RowPart:
    cells = []
    for column, value in zip(table.columns, row.cells, strict=True):
        cell = value if isinstance(value, Cell) else Cell(value)
        text = cell.text
        if text is None:
            text = unit.show(cell.value, column)
        words = [STYLES[word] for word in cell.style.split() if word in STYLES]
        style = " ".join(words)
        sort = _sort(cell.value)
        cells.append(CellPart(text=text, sort=sort, title=cell.title, style=style, href=cell.href))
    return RowPart(cells, row.marks)


def _sort(value: object) -> float | None:
    if isinstance(value, Statistic):
        value = value.mean
    elif isinstance(value, tuple) and value:
        value = value[0]
    if isinstance(value, int | float) and not isinstance(value, bool):
        return value
    return None


def figure_part(figure: Figure) -> FigurePart:
    """Convert a figure for the page."""
    columns = []
    for position, heading in enumerate(figure.headings):
        columns.append(ColumnPart(heading, "", position > 0))
    rows = []
    for row in figure.rows:
        rows.append(RowPart([CellPart(text=text) for text in row]))
    return FigurePart(
        name=figure.name,
        title=figure.title,
        caption=figure.caption,
        chart=figure.chart,
        table=TablePart(title=figure.title, columns=columns, rows=rows),
    )


LEVEL = 6  # compression level: 9 takes twice as long for 2% less

# Invisible characters. Variation selectors 15 and 16 are kept, since emoji use them.
_HIDDEN = regex.compile(
    r"(?![\n\t])([\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f"
    r"\u2800\u3164\ufe00-\ufe0d\uffa0\U000e0100-\U000e01ef])"
)


@cache
def built(name: str) -> str:
    """Return the text of a file that ``scripts/web`` built, such as the page's script."""
    return (files("harness.plugins.report") / "dist" / name).read_text(encoding="utf-8")


def visible(text: str) -> str:
    """Return text in which escapes such as ``⟨U+202E⟩`` replace invisible characters."""
    if text.isascii() and text.isprintable():
        return text
    return str(_HIDDEN.sub(lambda match: _escape(match[0]), text))


def marked(text: str) -> Markup:
    """Return text as HTML, with each escape in a span to tell it from a literal ``⟨U+202E⟩``."""
    html = []
    for position, part in enumerate(_HIDDEN.split(text)):
        if position % 2:  # every second part is a separator
            html.append(Markup('<span class="escape">{}</span>').format(_escape(part)))
        else:
            html.append(escape(part))
    return Markup("").join(html)


@cache
def page_template(path: Path) -> Template:
    """Return an HTML template, which escapes markup and makes invisible characters visible.

    Its filter ``marked`` also marks the escapes of these.
    """
    environment = Environment(
        loader=FileSystemLoader(path.parent),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_inert,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["marked"] = marked
    return environment.get_template(path.name)


def _inert(value: Any) -> Any:
    if isinstance(value, str) and not isinstance(value, Markup):
        return visible(value)
    return value


def all_visible(value: Any) -> Any:
    """Return a JSON value with `visible` applied to all strings, including keys."""
    return _each_text(value, visible)


def _each_text(value: Any, change: Callable[[str], str]) -> Any:
    if isinstance(value, str):
        return change(value)
    if isinstance(value, Mapping):
        return {change(str(key)): _each_text(item, change) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_each_text(item, change) for item in value]
    return value


def _escape(character: str) -> str:
    return f"⟨U+{ord(character):04X}⟩"


def block(name: str, data: bytes) -> str:
    """Return a script element that holds compressed data. ``name`` is the element's id."""
    packed = b64encode(gzip.compress(data, LEVEL, mtime=0)).decode("ascii")
    return f'<script type="application/octet-stream" id="{name}">{packed}</script>\n'


def to_json(value: Any) -> bytes:
    """Encode a value as JSON. Lone surrogates become the replacement character."""
    try:
        return msgspec.json.encode(value)
    except UnicodeEncodeError:
        return msgspec.json.encode(_each_text(msgspec.to_builtins(value), replace_surrogates))


def policy(styles: Sequence[str], scripts: Sequence[str]) -> Markup:
    """Return a content security policy that allows these styles and scripts, and inline images."""
    script_hashes = " ".join(map(source_hash, scripts))
    style_hashes = " ".join(map(source_hash, styles))
    return Markup(  # noqa: S704 (of hashes)
        f"default-src 'none'; script-src {script_hashes}; "
        f"style-src {style_hashes}; img-src data: blob:; "
        "connect-src 'none'; base-uri 'none'; form-action 'none'"
    )


def source_hash(text: str) -> str:
    """Return a script's or style's hash for the content security policy.

    Raises:
        ValueError: If the text could end or hide its element.
    """
    lowered = text.lower()
    if any(end in lowered for end in ("</script", "</style", "<!--")):
        raise ValueError("The text would end or hide the element that contains it.")
    digest = hashlib.sha256(text.encode()).digest()
    return f"'sha256-{b64encode(digest).decode('ascii')}'"
