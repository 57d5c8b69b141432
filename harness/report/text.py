"""Formats names, numbers and amounts of money in the same way for every output.

Names, prompts and answers are data, so anything that a terminal would interpret is escaped.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from datetime import datetime
from decimal import ROUND_HALF_UP, Decimal
from math import floor, log10

from rich.cells import cell_len
from rich.text import Text

from harness.wording import format_count

UNKNOWN = "n/a"
_MAX_NAME_CHARS = 120
MIN_LARGE = 1e15  # numbers from here on have an exponent
MAX_SMALL = 1e-6  # numbers below this have an exponent, except rounding errors
ROUNDING = 1e-12  # numbers up to this are rounding errors of 0


def format_task(task: str) -> str:
    """Format a task's name for tables: without the folders if it is the path of a Python file."""
    return re.sub(r"^.*[/\\](?=[^/\\]*\.py(:|$))", "", task)


def escape_unprintable(text: str, allowed: str = "") -> str:
    """Escape all unprintable characters of a text, except those in ``allowed``."""
    if text.isprintable():
        return text
    characters = []
    for character in text:
        if character not in allowed and not character.isprintable():
            character = character.encode("unicode_escape").decode()
        characters.append(character)
    return "".join(characters)


def escape_name(name: str) -> Text:
    """Return the first 120 characters of a name, escaped, as a line without markup."""
    return join_in_line(Text(escape_unprintable(name[:_MAX_NAME_CHARS])))


def escape_text(text: str) -> Text:
    """Return a text without markup, escaped except for its line breaks and tabs."""
    return Text(escape_unprintable(text, "\n\t"))


def join_in_line(*parts: Text) -> Text:
    """Join texts in one line, which ends in an ellipsis if it is too long for the terminal."""
    return Text.assemble(*parts, no_wrap=True, overflow="ellipsis")


def wrap_name(name: str, width: int) -> Text:
    """Wrap a name after ``_``, dots, hyphens or spaces, to lines of at most ``width`` cells."""
    lines = [""]
    for segment in re.findall(r"-?[^_.\s-]+[_.\s-]?|[_.\s-]", escape_unprintable(name)):
        if cell_len(lines[-1]) + cell_len(segment.rstrip()) > width and lines[-1]:
            lines.append("")
        lines[-1] += segment
    return Text("\n".join(line.rstrip() for line in lines), overflow="fold")


def format_number(value: float | None, digits: int = 3, sign: bool = False) -> str:
    """Format a number with fixed decimals, or ``n/a`` for None.

    A very large or small number has an exponent, unless it is so small that it is a rounding error.
    A number that would be rounded to 0, 1 or 100 has more decimals, so that it differs from these:
    2,599 of 2,600 are not all.

    Args:
        value: The number.
        digits: The number of decimals.
        sign: Whether a number above 0 has a plus sign.

    >>> [format_number(value) for value in (0.25, 1e99, -2e-8, 1e-17, 2599 / 2600)]
    ['0.250', '1.000e+99', '-2.000e-08', '0.000', '0.9996']
    """
    if value is None:
        return UNKNOWN
    plus = "+" if sign else ""
    if abs(value) >= MIN_LARGE or ROUNDING < abs(value) < MAX_SMALL:
        return f"{value:{plus}.{digits}e}"
    for exact in (0, 1, 100):
        differs = abs(abs(value) - exact) > ROUNDING * max(1, exact)
        while differs and round(abs(value), digits) == exact:
            digits += 1
    if abs(value) <= ROUNDING:
        plus = ""
    return f"{value:{plus}z.{digits}f}"


def format_with_error(
    value: float | None, stderr: float | None, digits: int = 3, sign: bool = False
) -> str:
    """Format a value and its standard error as ``0.500 ± 0.100``, with ``n/a`` for None.

    An error of 0 is left out: equal values do not make the result certain.

    >>> format_with_error(0.5, 0.1), format_with_error(1.0, 0.0)
    ('0.500 ± 0.100', '1.000')
    """
    if value is None:
        return UNKNOWN
    text = format_number(value, digits, sign)
    if is_zero_error(stderr):
        return text
    return f"{text} ± {format_number(stderr, digits)}"


def is_zero_error(stderr: float | None) -> bool:
    """Return whether a standard error is 0 apart from rounding."""
    return stderr is not None and stderr < ROUNDING


def format_interval(bounds: tuple[float, float] | None, digits: int = 3, sign: bool = False) -> str:
    """Format an interval as ``0.100-0.300``, or ``-0.100 to 0.300`` if a bound is negative.

    With ``sign``, both bounds have a sign: ``-0.100 to +0.300``. None is formatted as ``n/a``.
    """
    if bounds is None:
        return UNKNOWN
    low, high = (format_number(bound, digits, sign) for bound in bounds)
    if sign or bounds[0] < 0:
        return f"{low} to {high}"
    return f"{low}-{high}"


def format_range(numbers: Collection[int]) -> str:
    """Format the range of numbers, such as "10 to 12", or "10" if all are equal."""
    low = min(numbers)
    high = max(numbers)
    if low == high:
        return f"{low:,}"
    return f"{low:,} to {high:,}"


SIGNIFICANCE_LEVELS = (0.05, 0.01)  # of significance


def format_p_value(p: float | None) -> str:
    """Format a p value with three decimals, as ``<0.001`` if it is smaller, or ``n/a`` for None.

    A value below a level of significance is not rounded up to the level.

    >>> format_p_value(0.0498), format_p_value(0.0502), format_p_value(0.0004)
    ('0.0498', '0.050', '<0.001')
    """
    if p is None:
        return UNKNOWN
    if p < 0.001:
        return "<0.001"
    digits = 3
    while any(p < level <= round(p, digits) for level in SIGNIFICANCE_LEVELS):
        digits += 1
    return f"{p:.{digits}f}"


def format_percent(count: int, total: int, digits: int = 1) -> str:
    """Format count / total as a percentage, or ``n/a`` if the total is 0."""
    return format_share(count / total, digits) if total else UNKNOWN


def format_share(share: float | None, digits: int = 1, sign: bool = False) -> str:
    """Format a fraction as a percentage, or ``n/a`` for None.

    A share that is neither 0 nor 1 is not rounded to 0% or 100%.

    Args:
        share: The fraction.
        digits: The number of decimals.
        sign: Whether it is a difference, which is formatted with a sign and without a unit.

    >>> format_share(0.995, 0), format_share(0.125, 0), format_share(-0.333, 0, sign=True)
    ('>99%', '13%', '-33')
    """
    if share is None:
        return UNKNOWN
    step = Decimal(10) ** -digits
    rounded = Decimal(100 * share).quantize(step, ROUND_HALF_UP)  # as browsers do
    if sign:
        return f"{rounded:+zf}"
    if 0 < share < 1:
        last_place = 10**-digits
        if 100 * share < last_place / 2:
            return f"<{last_place:g}%"
        if 100 * share >= 100 - last_place / 2:
            return f">{100 - last_place:.{digits}f}%"
    return f"{rounded:zf}%"


COMPUTED_NOTE = "≈: computed from recorded tokens, at a price that was set after the calls."


def format_usd(cost: float | None, *, computed: float = 0.0) -> str:
    """Format an amount in US dollars, or ``unknown`` for None.

    If an amount was ``computed`` after the calls, the text begins with ≈ (see `COMPUTED_NOTE`).

    >>> [format_usd(cost) for cost in (1234.5, 0.0164, 0.0000172, None)]
    ['$1,234.50', '$0.0164', '$0.000017', 'unknown']
    >>> format_usd(3, computed=1)
    '≈$3.00'
    """
    if cost is None:
        return "unknown"
    prefix = "≈" if computed else ""
    if cost >= 1 or cost == 0:
        return f"{prefix}${cost:,.2f}"
    digits = 4
    if cost < 0.001:
        digits = 1 - floor(log10(cost))
    return f"{prefix}${cost:.{digits}f}"


def format_clusters(n_samples: int, n_clusters: int) -> str:
    """Format a number of clusters, and explain how to set them if there are few for the samples."""
    text = format_count(n_clusters, "cluster")
    if n_clusters == 1 < n_samples or 10 * n_clusters <= n_samples:
        text += " (a row can set its own with the field 'cluster')"
    return text


def format_date(seconds: float) -> str:
    """Format a time in epoch seconds as a local date, YYYY-MM-DD."""
    return datetime.fromtimestamp(seconds).astimezone().date().isoformat()


def format_time(seconds: float) -> str:
    """Format a time in epoch seconds as a local date and time, YYYY-MM-DD HH:MM."""
    return f"{datetime.fromtimestamp(seconds).astimezone():%Y-%m-%d %H:%M}"


def format_size(size: float) -> str:
    """Format a size in bytes with a decimal unit, such as ``1.2 MB``."""
    if size < 999.95:
        return f"{size:.0f} B"
    for unit in ("kB", "MB"):
        size /= 1000
        if size < 999.95:
            return f"{size:.1f} {unit}"
    return f"{size / 1000:.1f} GB"
