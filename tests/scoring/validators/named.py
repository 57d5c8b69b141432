"""Short names for parameters that are very long, or very deep."""

from typing import Any

from harness.scoring.validators.schemas import value_text
from harness.wording import truncate


def named(value: Any) -> str:
    return ascii(truncate(value_text(value), 30))
