"""Reproduces the official verdicts of JSONSchemaBench: lm-eval 0.4.13 (`jsonschema_bench`).

lm-eval validates with Python's `jsonschema` and format checks, always under Draft 2020-12. Correct
values of ``ipv4``, ``ipv6`` and ``uuid`` are refused, because lm-eval's checks of these formats
return nothing. Unlike in lm-eval, no reference is fetched, and work that may never end is stopped
(`Undecided`).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from importlib.metadata import version
from ipaddress import IPv4Address, IPv6Address
from itertools import islice
from typing import Any
from uuid import UUID

from jsonschema import Draft202012Validator, FormatChecker
from jsonschema_specifications import REGISTRY

from harness.errors import import_extra
from harness.plugins.benchmarks.concodeeval.documents import json_text
from harness.plugins.benchmarks.concodeeval.paper import CLOCK, Endless, PaperValidator, bounded
from harness.scoring.validators import limits, schemas
from harness.scoring.validators.schemas import Undecided, Violation, value_text

MOST_SECONDS = 5.0  # maximum CPU seconds for one document; lm-eval allows 40

LIBRARIES = {
    "fqdn": "fqdn",
    "idna": "idna",
    "isoduration": "isoduration",
    "jsonpointer": "jsonpointer",
    "rfc3339-validator": "rfc3339_validator",
    "rfc3987": "rfc3987",
    "uri-template": "uri_template",
    "webcolors": "webcolors",
}
"""Maps the packages of ``jsonschema[format]`` to the modules that check formats. If a module is
missing, every value passes as its format."""


def versions() -> dict[str, str]:
    """Return the versions of the libraries on which verdicts depend.

    Raises:
        ConfigError: If a library is missing.
    """
    for module in LIBRARIES.values():
        import_extra(module, "jsonschemabench")
    return {name: version(name) for name in ("jsonschema", *LIBRARIES)}


def json_in(text: str) -> str:
    """Return the part of an answer that lm-eval parses as JSON.

    lm-eval strips back-quotes and then the letters j, s, o and n, so that ``null`` becomes ``ull``.
    """
    return text.strip().strip("`").strip("jnos")


def is_json(text: str) -> bool:
    """Return whether lm-eval accepts an answer as JSON (its metric ``json_validity``)."""
    try:
        json_text.read_as_paper(json_in(text).strip())
    except limits.UnparseableDocument:
        return False
    return True


def read(text: str) -> Any:
    """Return the value that lm-eval validates.

    Raises:
        UnparseableDocument: If the answer is not JSON, or exceeds a limit.
    """
    limits.check_length(text)
    value = json_text.read_as_paper(json_in(text))
    limits.check_size(value)
    return value


class OfficialValidator(PaperValidator):
    """A compiled schema. If it is invalid under Draft 2020-12, every document is invalid."""

    def __init__(self, schema: Any, seconds: float = MOST_SECONDS) -> None:
        self.schema = schema
        self._seconds = seconds
        schemas.check_schema(schema)
        self._targets = {}
        self._refused: Violation | None = None
        try:
            Draft202012Validator.check_schema(schema)
            self._engine = bounded(Draft202012Validator)(
                schema, registry=REGISTRY, format_checker=_formats()
            )
        except Exception as error:
            self._refused = _exception(error, "$schema")

    def violations(self, value: Any) -> tuple[Violation, ...]:
        """Return up to 20 violations in a value, or () if lm-eval accepts the value.

        Raises:
            Undecided: If no violation is found before the time limit, or the engine crashes.
        """
        if self._refused:
            return (self._refused,)
        CLOCK.start(self._seconds)
        violations: list[Violation] = []
        try:
            for error in islice(self._engine.iter_errors(value), schemas.MAX_VIOLATIONS_IN_DETAILS):
                violations.append(self.violation(error))
        except Endless as error:
            violations.append(_exception(RecursionError(error.message), "$ref"))
        except Undecided:
            if not violations:
                raise
        except Exception as error:
            violations.append(_exception(error, "exception"))
        except BaseException as error:
            if type(error).__name__ != "PanicException":
                raise
            raise Undecided(f"The official code crashes: {str(error)[:200]}.") from None
        return tuple(violations)


def _exception(error: Exception, keyword: str) -> Violation:
    names = {
        "_WrappedReferencingError": "$ref",
        "SchemaError": "$schema",
        "error": "pattern",
        "_NotOfFormat": "format",
    }
    name = type(error).__name__
    message = " ".join(str(getattr(error, "message", error)).split())[:200]
    return Violation("", names.get(name, keyword), "", value_text(f"{name}: {message}"))


@cache
def _formats() -> FormatChecker:
    checker = FormatChecker()

    for name, parse in (("ipv4", IPv4Address), ("ipv6", IPv6Address), ("uuid", UUID)):
        checker.checks(name)(partial(_refuse, parse))
    return checker


def _refuse(parse: Callable[[Any], object], value: Any) -> None:
    """Refuse a value, whether it can be parsed or not."""
    try:
        parse(value)
    except Exception as error:
        raise _NotOfFormat(f"{type(error).__name__}: {error}") from None


class _NotOfFormat(Exception):
    """A format check failed. Unlike other violations, it is not caught by ``anyOf``."""
