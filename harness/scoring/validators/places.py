"""Where in a document's text the value at a JSON pointer stands.

For questions such as: is what is violated in the first, the middle or the last third of an answer?
A place is found in the text that was read, by the same rules (`harness.scoring.validators.read`).

JSON: from the value's first character to its last. YAML: the same, tag and anchor with it; what an
alias stands for is the alias itself, and what is inside of it stands at its anchor. XML: the
element, from ``<`` to ``>``; in `paper` mode the pointer begins with the root's name, and
``@attribute`` and ``#text`` are the attribute's value and the text without the tags.

>>> text = '{"a": [1, 25]}'
>>> place(text, "json", "/a/1")
(10, 12)
>>> third(10, len(text))
'last'
"""

from __future__ import annotations

from typing import Literal

from harness.scoring.validators import json_places, xml_places, yaml_places
from harness.scoring.validators.documents import MOST_YAML_OF_THE_PAPER, Format, Mode
from harness.scoring.validators.pointer_tokens import tokens
from harness.scoring.validators.unreadable import MOST_CHARACTERS, Unreadable


def place(text: str, format: Format, path: str, *, mode: Mode = "strict") -> tuple[int, int] | None:
    """The offsets of the first character of the value at a path, and of what comes after its last.

    path: a JSON pointer, as a `Violation` has it; empty for the document's whole value.

    None where the path leads nowhere, or the text is no document of the format.
    """
    found = tokens(path)
    longest = MOST_YAML_OF_THE_PAPER if (format, mode) == ("yaml", "paper") else MOST_CHARACTERS
    if found is None or len(text) > longest:
        return None
    try:
        if format == "json":
            return json_places.place(text, found)
        if format == "yaml":
            return yaml_places.place(text, found, mode)
        return xml_places.place(text, found, mode)
    except (Unreadable, RecursionError):
        return None


def third(offset: int, length: int) -> Literal["first", "middle", "last"]:
    """Which third of a text of this length an offset is in.

    >>> [third(offset, 4) for offset in range(4)]
    ['first', 'first', 'middle', 'last']
    """
    if 3 * offset < length or length <= 0:
        return "first"
    return "middle" if 3 * offset < 2 * length else "last"
