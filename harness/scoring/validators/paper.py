"""The paper's engine: `jsonschema.Draft7Validator`, as the authors of ConCodeEval call it.

Draft 7 whatever ``$schema`` says, no formats, `multipleOf` by division of floats (so 0.3 is no
multiple of 0.1), and values that only YAML has, such as dates. What differs from the original never
changes a verdict that it gives: references are not fetched, and work without end is stopped
(`Undecided`).
"""

from __future__ import annotations

import re
import time
from typing import Any

from harness.errors import DataInvalid
from harness.scoring.validators.paper_engine import CLOCK, MOST_SECONDS, engine
from harness.scoring.validators.schema_paths import referred
from harness.scoring.validators.schemas import Undecided, check_schema, measured
from harness.scoring.validators.unreadable import MOST_CHARACTERS, MOST_NODES
from harness.scoring.validators.violations import Violation, pointer, shown

MOST_WORK = 5_000_000
"""Values of the schema times those of the document (16 characters count as one): some 5 seconds."""


class PaperValidator:
    """A schema, as it is: the authors do not check it against its meta-schema.

    Raises: DataInvalid where it is no schema at all, or beyond the limits.
    """

    def __init__(self, schema: Any) -> None:
        from jsonschema_specifications import REGISTRY

        self.schema = schema
        self._values = check_schema(schema)
        self._referred: dict[tuple[str, int], tuple[str | int, ...] | None] = {}
        try:
            self._engine = engine()(schema, registry=REGISTRY)  # of the drafts alone: no fetching
        except Exception as error:  # an $id that is no text
            raise DataInvalid(
                f"Draft7Validator does not take the schema ({type(error).__name__}: {error}).",
                "Mend the schema.",
            ) from None

    def violations(self, value: Any) -> tuple[Violation, ...]:
        """All that the value violates, in the engine's order.

        Raises: DataInvalid for a reference that leads nowhere and for a broken pattern; Undecided
            where there is no answer in a bounded time, or the original has none.
        """
        from referencing.exceptions import Unresolvable

        if self._values * (MOST_NODES + MOST_CHARACTERS // 16) > MOST_WORK:
            nodes, characters, _ = measured(value)
            if self._values * (nodes + characters // 16) > MOST_WORK:
                raise Undecided(
                    f"A document of {nodes:,} values and {characters:,} characters is too much"
                    f" for a schema of {self._values:,} values."
                )
        CLOCK.ends, CLOCK.inside = time.thread_time() + MOST_SECONDS, 0
        try:
            return tuple(self._violation(one) for one in self._engine.iter_errors(value))
        except Undecided:
            raise
        except Unresolvable as error:
            raise DataInvalid(
                f"A $ref of the schema leads to nothing within it: {str(error)[:200]}.",
                "References are not fetched: copy what they name into definitions.",
            ) from None
        except re.error as error:
            raise DataInvalid(
                f"A pattern of the schema is no regular expression: {error}.", "Mend it."
            ) from None
        except BaseException as error:
            # What the original raises for a schema or a value that it cannot take; its registry
            # is Rust, and panics where the stack ends (an exception of no importable class).
            if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
                raise
            raise Undecided(
                f"Draft7Validator fails ({type(error).__name__}: {str(error)[:200]})."
            ) from None

    def _violation(self, error: Any) -> Violation:
        path: tuple[str | int, ...] | None = tuple(error.absolute_schema_path)
        if hasattr(error, "referred"):  # behind a reference: the engine leaves that out
            reference, target, inside = error.referred
            key = (reference, id(target))
            if key not in self._referred:
                self._referred[key] = referred(reference, target, self.schema)
            start = self._referred[key]
            path = None if start is None else (*start, *inside)
        return Violation(
            pointer(error.absolute_path),
            "falseSchema" if error.validator is None else str(error.validator),
            shown(error.validator_value) if error.validator is not None else "false",
            shown(error.instance),
            pointer(path or ()),
        )
