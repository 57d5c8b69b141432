"""Warns if a judge belongs to the same family as the model that it judges.

Families are recognised by the models' names. Models tend to prefer texts by models of their own
family: Panickssery et al. 2024, arXiv 2404.13076; Zheng et al. 2023, arXiv 2306.05685. Scores are
not changed.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from functools import lru_cache
from pathlib import Path

import yaml

from harness.analysis.metrics import Metrics

SELF_PREFERENCE_MARK = "†"  # appended to names of scores given by a judge of the model's own family


def has_related_judge(metrics: Metrics, score: str) -> bool:
    """Return whether a run's score comes from a judge of the model's own family."""
    judge, _, name = score.partition(".")
    judge_metrics = metrics.judges.get(judge)
    return bool(name) and judge_metrics is not None and judge_metrics.family is not None


def self_preference_warnings(metrics: Metrics, judges: Collection[str] | None = None) -> list[str]:
    """Return a warning for each of ``judges`` (default: all) that is of the model's own family."""
    warnings = []
    for name, judge in metrics.judges.items():
        if judge.family is None or (judges is not None and name not in judges):
            continue
        finding = f"the judge {name!r} asks {judge.model}"
        if judge.of:
            members = [name for name in judge.of if name in metrics.judges]
            related = []
            for member in members:
                if metrics.judges[member].family:
                    related.append(f"{member!r}, which asks {metrics.judges[member].model}")
            finding = f"the panel {name!r} has the judge {' and '.join(related)}"
        warnings.append(f"self-preference: {finding}, of the model's own family ({judge.family})")
    return warnings


_NAMES = yaml.safe_load(Path(__file__).with_name("families.yaml").read_text("utf-8"))
_FAMILIES = {family: re.compile(rf"(?<![a-z0-9])(?:{names})") for family, names in _NAMES.items()}


@lru_cache(maxsize=1024)
def families(name: str) -> frozenset[str]:
    """Return the model families, such as Llama, that can be recognised in a model's name."""
    base_name = _base_name(name)
    return frozenset(family for family, names in _FAMILIES.items() if names.search(base_name))


def common_family(judge: str, model: str) -> str | None:
    """Return the families that two models share, separated by commas.

    If they share none, return ``judge`` if both names denote the same model, otherwise None.
    """
    common = families(judge) & families(model)
    if common:
        return ", ".join(sorted(common))
    return judge if judge and _base_name(judge) == _base_name(model) else None


def _base_name(name: str) -> str:
    """Return a model's name in lower case, without provider, tag (``:free``) and fine-tuning."""
    last = name.strip().lower().rstrip("/").rpartition("/")[2]
    base, *tags = last.split(":")
    return tags[0] if base == "ft" and tags else base
