"""Validators: compiled once for each schema, the engine by mode.

``strict`` (the default) is right: the draft that ``$schema`` names, else the configured one;
formats asserted; numbers exact. ``paper`` gives the verdicts of ConCodeEval's authors: Draft 7, no
formats, floats.

>>> validator({"type": "integer", "maximum": 3}).violations(4)[0].message
'4 is more than 3'
"""

from __future__ import annotations

import json
from collections import OrderedDict
from threading import Lock
from typing import Any, Protocol

from harness.errors import DataInvalid
from harness.scoring.validators.documents import Mode
from harness.scoring.validators.drafts import Draft, draft_of
from harness.scoring.validators.schemas import check_schema
from harness.scoring.validators.violations import Violation

MOST_COMPILED = 2_048
"""Schemas that are kept compiled: of the order of 10 to 100 KB each."""


class Validator(Protocol):
    """A compiled schema."""

    def violations(self, value: Any) -> tuple[Violation, ...]:
        """All that a value violates; none where it is valid.

        Raises: `harness.scoring.validators.schemas.Undecided` where that cannot be found out in a
            bounded time.
        """
        ...


_compiled: OrderedDict[tuple[str, str], Validator] = OrderedDict()
_lock = Lock()


def validator(schema: Any, *, mode: Mode = "strict", draft: Draft = "2020-12") -> Validator:
    """The validator of a schema.

    draft: for a schema that does not name its own; `paper` mode takes Draft 7 always.

    Raises: DataInvalid where the schema is none, breaks its draft's rules, or refers to what is not
        within it: nothing is fetched.
    """
    chosen = "paper" if mode == "paper" else draft
    try:
        key = (chosen, json.dumps(schema, default=_number))
    except (TypeError, ValueError, RecursionError):
        check_schema(schema)  # says what it is that no schema can hold
        raise DataInvalid("This is no JSON Schema: it cannot be written as JSON.") from None
    with _lock:
        found = _compiled.get(key)
        if found is not None:
            _compiled.move_to_end(key)
            return found
    made = _made(schema, mode, draft)
    with _lock:
        _compiled[key] = made
        while len(_compiled) > MOST_COMPILED:
            _compiled.popitem(last=False)
    return made


def _made(schema: Any, mode: Mode, draft: Draft) -> Validator:
    if mode == "paper":
        from harness.scoring.validators.paper import PaperValidator

        return PaperValidator(schema)
    from harness.scoring.validators.strict import StrictValidator

    check_schema(schema)
    return StrictValidator(schema, draft_of(schema, draft))


def _number(value: Any) -> Any:
    from decimal import Decimal

    if isinstance(value, Decimal):
        return {"\0decimal": str(value)}
    raise TypeError(f"{type(value).__name__} is no type of JSON")
