"""The bounds that options or the section ``check`` of a run file give."""

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from harness.config.run_file import RunFile
from harness.config.validation import validated
from harness.datasets.folder import DataFolder
from harness.engine.run_files import RUN_FILE
from harness.errors import ConfigError
from harness.plugins.gate.section import CheckSection

BOUND_EXAMPLES = {"min": "pass_rate=0.9", "max": "latency_p95=2"}


def read_bounds(option: str, values: Iterable[str] | None) -> dict[str, float]:
    """Return the bounds in a repeatable option's values (``SCORE=BOUND``), by score."""
    by_score = {}
    for text in values or ():
        name, _, value = text.partition("=")
        if not name or not re.fullmatch(r"-?\d*\.?\d+", value):
            remedy = f"Write {option} {BOUND_EXAMPLES[option[-3:]]}."
            if name and (share := re.fullmatch(r"(-?\d*\.?\d+) ?%", value)):
                remedy = f"Write {option} {name}={float(share[1]) / 100:.10g}."
            raise ConfigError(f"{option} {text!r:.60} is not a bound.", remedy)
        by_score[name] = float(value)
    return by_score


def check_section(
    run: RunFile, arguments: Mapping[str, Any], example: str = "--min pass_rate=0.9"
) -> CheckSection:
    """Return the bounds to check.

    If there are none, the error suggests ``example`` as a way to set one.

    If the command line (``arguments``) sets ``min``, ``max`` or ``baseline``, it replaces the
    section ``check`` of ``run``; only the section's ``baseline`` remains the default for
    ``max_drop``. Otherwise, the command line overrides single keys of the section.
    """
    check = {key: value for key, value in arguments.items() if value not in ("", None, {})}
    default = {} if run.check is None else run.check.model_dump()
    baseline = default.get("baseline")
    if baseline and Path(baseline).suffix in RUN_FILE:
        default["baseline"] = DataFolder(Path(), run.folder).own(baseline)
    if not check.keys() & {"min", "max", "baseline"}:
        if not default and "max_drop" not in check:
            remedy = f"Set one, such as {example}, or the run file's section 'check'"
            remedy += " (harness docs check)."
            raise ConfigError("There is no bound to check.", remedy)
        check = default | check
    elif "max_drop" in check:
        check = {"baseline": default.get("baseline")} | check
    return validated(CheckSection, check, "check")
