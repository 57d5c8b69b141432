"""Your own check: a function of the answer. A run file names this file by its path.

Other parameters are options. Their values come from the run file, as in {closers: ".!?"}, or from a
field of the row, as in {closers: {field: NAME}}.
"""


def ends_well(text: str, closers: str = ".") -> str:
    """Return what is wrong, or "" if nothing is. A check may also return a boolean or a number."""
    last = text.strip()[-1:]
    return "" if last and last in closers else f"ends with {last!r}, not with one of {closers!r}"
