"""A check of your own: a function of the answer, named by its path in a run file."""


def ends_well(text: str, closers: str = ".") -> str:
    """Return what is wrong, or an empty text. A check may also return a bool or a number."""
    last = text.strip()[-1:]
    return "" if last and last in closers else f"ends with {last!r}, not with one of {closers!r}"
