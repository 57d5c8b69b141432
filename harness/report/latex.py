"""Text from data in LaTeX."""

from __future__ import annotations

from harness.report.ablation_figures import whole

_SIGNS = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    "±": r"$\pm$",
    "—": "---",
    **{sign: f"\\{sign}" for sign in "&%$#_{}"},
}


def escaped_latex(text: str) -> str:
    r"""On one line, with nothing that LaTeX or a terminal would obey.

    >>> escaped_latex("50 % of a_b")
    '50 \\% of a\\_b'
    """
    return "".join(_SIGNS.get(character, character) for character in whole(text))
