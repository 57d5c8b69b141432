"""Short names for parameters that are very long, or very deep."""

from typing import Any

from harness.scoring import cut
from harness.scoring.validators.schemas import shown


def named(value: Any) -> str:
    return ascii(cut(shown(value), 30))
