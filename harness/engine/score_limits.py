"""The limits of scores: what every command can read back from a run's files.

All scores pass `recordable` before they are used or written, whether they come from a task, a
checker, a user's own check, a judge or a panel.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec.structs import replace

from harness.errors import ConfigError
from harness.records import LARGEST, Score, nesting_depth, without_arrays
from harness.store.json_lines import UNREADABLE, encode

MAX_DEPTH = 100
"""Maximum levels of details. Decoders fail at about 1,000, less the depth of their callers."""

_SCORES = "Scores are a mapping of names to harness.records.Score."
_VALUES = f"A value is True, False, None or a number from {-LARGEST:g} to {LARGEST:g}."
_SHARES = "A share is from 0 to 1. Without share=True, a number has no limits."
_VERDICTS = "A verdict (passed) is True, False or None."
_REASONS = "A reason is a string."
_DETAILS = f"Details are a mapping of JSON values, at most {MAX_DEPTH} levels deep."


def recordable(scores: Mapping[str, Score], instance: str, remedy: str) -> Mapping[str, Score]:
    """Return scores in the form in which they are recorded: NumPy's values become Python's.

    Args:
        scores: The scores of an answer, by name.
        instance: The id of the answer's instance, for the error message.
        remedy: What the user should do, for the error message.

    Raises:
        ConfigError: If a score could not be written, or not be read back. The message names the
            score, its value and the limit.
    """
    where = f"of instance {instance!r:.60}"
    if not isinstance(scores, Mapping):
        raise ConfigError(f"The scores {where} are {_value_text(scores)}.", f"{_SCORES} {remedy}")
    checked = {}
    for name, score in scores.items():
        if not (isinstance(name, str) and isinstance(score, Score)):
            problem = f"The score {_value_text(name)} {where} is {_value_text(score)}."
            raise ConfigError(problem, f"{_SCORES} {remedy}")
        try:
            checked[name] = _recordable(score)
        except ConfigError as error:
            problem = f"The score {name!r:.60} {where} has {error.message}."
            raise ConfigError(problem, f"{error.remedy} {remedy}") from None
    return checked


def _recordable(score: Score) -> Score:
    """Raise ConfigError with the faulty part and its limit if a score cannot be recorded."""
    value = without_arrays(score.value)
    if isinstance(value, int | float) and type(value) not in (bool, int, float):
        value = float(value)  # subclasses cannot be encoded
    is_valid = isinstance(value, int | float) and -LARGEST <= value <= LARGEST  # false for NaN
    if value is not None and not is_valid:
        raise ConfigError(f"the value {_value_text(value)}", _VALUES)
    passed = without_arrays(score.passed)
    if passed is not None and not isinstance(passed, bool):
        raise ConfigError(f"the verdict {_value_text(passed)}", _VERDICTS)
    if not isinstance(score.reason, str):
        raise ConfigError(f"the reason {_value_text(score.reason)}", _REASONS)
    details = score.details
    if not isinstance(details, Mapping):
        raise ConfigError(f"the details {_value_text(details)}", _DETAILS)
    if details:
        details = _recordable_details(details)
    share: bool | msgspec.UnsetType = msgspec.UNSET
    if isinstance(value, int | float) and not isinstance(value, bool):
        share = score.share is True
        if share and not 0 <= value <= 1:
            raise ConfigError(f"the share {_value_text(value)}", _SHARES)
    if (
        value is score.value
        and passed is score.passed
        and details is score.details
        and share is score.share
    ):
        return score
    return replace(score, value=value, passed=passed, details=details, share=share)


def _recordable_details(details: Mapping[str, Any]) -> Mapping[str, Any]:
    try:
        text, plain = _encoded(details)
        decoded = msgspec.json.decode(text)
    except (TypeError, ValueError, OverflowError, *UNREADABLE) as error:
        problem = f"details that cannot be recorded ({str(error)[:160]})"
        raise ConfigError(problem, _DETAILS) from None
    brackets = text.count(b"[") + text.count(b"{")  # an upper bound on the depth
    if brackets > MAX_DEPTH and nesting_depth(decoded) > MAX_DEPTH:
        raise ConfigError("details that are nested too deeply", _DETAILS)
    return plain


def _encoded(details: Mapping[str, Any]) -> tuple[bytes, Mapping[str, Any]]:
    """Return details as JSON, and without values of NumPy if they have any."""
    try:
        return encode(details), details
    except TypeError:
        plain = msgspec.to_builtins(details, str_keys=True, enc_hook=_builtin)
        return encode(plain), plain


def _builtin(value: Any) -> Any:
    if isinstance(value, Mapping):
        return dict(value)
    plain = without_arrays(value)
    if plain is value:
        raise TypeError(f"a value is of type {type(value).__name__}")
    return plain


def _value_text(value: Any) -> str:
    try:
        return f"{value!r:.60}"
    except Exception:  # of an integer with thousands of digits, or of a user's own class
        return f"of type {type(value).__name__}"
