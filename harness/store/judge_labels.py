"""What people say of a run's answers: labels in JSONL, to validate a judge against.

One line for each verdict::

    {"instance": "tale", "sample": 0, "criterion": "Be brief.", "label": true}

``criterion`` is the criterion's text, its place in the judge's list, from 0, or the name of a
score; it may be left out where the judge gives one verdict on an answer. ``label`` is null where
the person could not decide. ``sample`` is 0 where it is left out. ``run`` names the run, which it
has to where several are validated together; ``attempt`` the text that was labelled, by its hash in
``judgements.jsonl``, so that a label is not taken for one of an answer that was made anew;
``note`` is the person's own.

>>> read_labels(Path("labels.jsonl"))[0].label  # doctest: +SKIP
True
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import msgspec

from harness.errors import DataInvalid, DataMissing

FORM = (
    'A line has the form {"instance": …, "sample": 0, "criterion": index or text, '
    '"label": true or false} (docs/judge_validation.md).'
)


class Label(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a person says of one criterion of one answer.

    instance: its name.
    label: None where the person could not decide.
    criterion: its place in the judge's list, from 0, or its text; None for the only one.
    run: None for the only one.
    attempt: hash of the text that was labelled; None for the one that the run has.
    """

    instance: str
    label: bool | None
    sample: Annotated[int, msgspec.Meta(ge=0)] = 0
    criterion: Annotated[int, msgspec.Meta(ge=0)] | str | None = None
    run: str | None = None
    attempt: str | None = None
    note: Any = None


def read_labels(path: Path) -> list[Label]:
    """The labels of a file, in its order.

    Raises: DataInvalid with file and line; DataMissing where it cannot be read.
    """
    decode = msgspec.json.Decoder(Label).decode
    found: list[Label] = []
    seen: dict[tuple[str | None, str, int, int | str | None], int] = {}
    try:
        content = path.read_bytes()
    except OSError as error:
        raise DataMissing(f"Cannot read {path}: {error.strerror}.", "Check the path.") from None
    for number, line in enumerate(content.splitlines(), start=1):
        if not line.strip():
            continue
        try:
            label = decode(line)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            raise DataInvalid(f"{path}, line {number}: {str(error)[:160]}.", FORM) from None
        key = (label.run, label.instance, label.sample, label.criterion)
        if key in seen:
            raise DataInvalid(
                f"{path}, line {number}: the same criterion was labelled in line {seen[key]}.",
                "Keep one label for each: that of one person, or what several agreed on.",
            )
        seen[key] = number
        found.append(label)
    if not found:
        raise DataInvalid(f"{path} holds no labels.", FORM)
    return found
