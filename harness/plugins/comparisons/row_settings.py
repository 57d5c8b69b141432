"""The settings that tell the rows of a results table apart."""

from __future__ import annotations

from typing import Any

from harness.plugins.comparisons.comparable import Variant, section_of
from harness.plugins.comparisons.run_differences import changed, setting_text

SHOTS = "task.shots"


def distinguishing(first: Variant, second: Variant) -> list[str]:
    """Return the keys of settings that distinguish two runs in a table."""
    keys = []
    for key in changed(first, second):
        ours = _section(key, first)
        theirs = _section(key, second)
        parts = [
            part
            for part in ours.keys() & theirs.keys()
            if setting_text(ours[part]) != setting_text(theirs[part])
        ]
        keys += [part for part in parts or [key] if setting(first, part) != setting(second, part)]
    return keys


def _section(key: str, run: Variant) -> dict[str, Any]:
    value = run.settings.get(key)
    if isinstance(value, dict):
        return value
    return {f"{key}.n": value} if key == SHOTS and isinstance(value, int) else {}


def setting(run: Variant, key: str) -> str:
    """Return a run's value of a setting as text ("null" if not set)."""
    section = section_of(key)
    value = run.settings.get(key) if key == section else _section(section, run).get(key)
    return setting_text(value, f"{key}.")
