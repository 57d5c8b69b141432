"""The bounds of a release gate: options, or the run file's section ``check``."""

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from harness.config.run_file import RunFile
from harness.config.sections import CheckSection
from harness.config.validation import validated
from harness.datasets.folder import DataFolder
from harness.engine.run_files import RUN_FILE
from harness.errors import ConfigError

EXAMPLES = {"min": "pass_rate=0.9", "max": "latency_p95=2"}


def bounds(option: str, given: Iterable[str] | None) -> dict[str, float]:
    """Return the bounds in a repeatable option's values (``SCORE=BOUND``), by score."""
    found = {}
    for text in given or ():
        name, _, value = text.partition("=")
        if not name or not re.fullmatch(r"-?\d*\.?\d+", value):
            remedy = f"Write {option} {EXAMPLES[option[-3:]]}."
            if name and (share := re.fullmatch(r"(-?\d*\.?\d+) ?%", value)):
                remedy = f"Write {option} {name}={float(share[1]) / 100:.10g}."
            raise ConfigError(f"{option} {text!r:.60} is not a bound.", remedy)
        found[name] = float(value)
    return found


def section(
    run: RunFile, given: Mapping[str, Any], example: str = "--min pass_rate=0.9"
) -> CheckSection:
    """Return the bounds to check.

    If there are none, the error suggests ``example`` as a way to set one.

    If the command line (``given``) sets ``min``, ``max`` or ``baseline``, it replaces the section
    ``check`` of ``run``; only the section's ``baseline`` remains the default for ``max_drop``.
    Otherwise, the command line overrides single keys of the section.
    """
    given = {key: value for key, value in given.items() if value not in ("", None, {})}
    own = {} if run.check is None else run.check.model_dump()
    if own.get("baseline") and Path(own["baseline"]).suffix in RUN_FILE:
        own["baseline"] = DataFolder(Path(), run.folder).own(own["baseline"])
    if not given.keys() & {"min", "max", "baseline"}:
        if not own and "max_drop" not in given:
            remedy = f"Set one, such as {example}, or the run file's section 'check'"
            remedy += " (harness docs check)."
            raise ConfigError("There is no bound to check.", remedy)
        given = own | given
    elif "max_drop" in given:
        given = {"baseline": own.get("baseline")} | given
    return validated(CheckSection, given, "check")
