"""What may name a run or a variant.

>>> check_name("gpt4_collie.zero_shot")
'gpt4_collie.zero_shot'
"""

from __future__ import annotations

LONGEST_NAME = 200
"""Bytes of a run's name: file systems take 255, and files within are named after it."""


def check_name(name: str) -> str:
    """A run's or variant's name, fit to be a folder's.

    Raises: ValueError.
    """
    if len(name.encode(errors="replace")) > LONGEST_NAME:
        raise ValueError(f"'{name[:20]}…' cannot name a run: more than {LONGEST_NAME} bytes long")
    allowed = all(letter.isalnum() or letter in "._-" for letter in name)
    if not name or not allowed or name[0] in ".-":
        raise ValueError(
            f"{name!r} cannot name a run: letters, digits, '_', '-' and '.' only, "
            "beginning with a letter, digit or '_'"
        )
    return name
