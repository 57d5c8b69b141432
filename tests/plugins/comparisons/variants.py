"""Runs that were never run: variants with given means."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from harness.plugins.comparisons.comparable import Variant
from tests.analysis.summaries import metrics_of


def variant(
    name: str,
    values: Mapping[str, float | None],
    encoding: str = "",
    *,
    settings: Mapping[str, Any] | None = None,
    fingerprint: Mapping[str, str] | None = None,
    **more: Any,
) -> Variant:
    """A run ``abl.NAME`` with these means by task; 100 instances each, changed by ``more``."""
    return Variant(
        name,
        metrics_of(f"abl.{name}", values, encoding, **more),
        {"samples": 1, "model.name": "m"} | dict(settings or {}),
        {"dataset_sha256": "d"} if fingerprint is None else fingerprint,
    )
