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

SELF_PREFERENCE_MARK = "†"  # follows names of scores by judges of the model's family


def has_related_judge(metrics: Metrics, score: str) -> bool:
    """Return whether a run's score comes from a judge of the same family as its model."""
    judge_name, _, score_name = score.partition(".")
    judge = metrics.judges.get(judge_name)
    return bool(score_name) and judge is not None and judge.family is not None


def self_preference_warnings(metrics: Metrics, judges: Collection[str] | None = None) -> list[str]:
    """Return a warning for each judge or panel of the same family as the run's model.

    Args:
        metrics: The run's metrics.
        judges: The names of the judges to consider, or None for all.
    """
    warnings = []
    for name, judge in metrics.judges.items():
        if judge.family is None or (judges is not None and name not in judges):
            continue
        subject = f"the judge {name!r} asks {judge.model}"
        if judge.of:
            related = []
            for member_name in judge.of:
                member = metrics.judges.get(member_name)
                if member is not None and member.family:
                    related.append(f"{member_name!r}, which asks {member.model}")
            subject = f"the panel {name!r} has the judge {' and '.join(related)}"
        warnings.append(f"self-preference: {subject}, of the model's own family ({judge.family})")
    return warnings


_NAMES = yaml.safe_load(Path(__file__).with_name("families.yaml").read_text("utf-8"))
_FAMILIES = {family: re.compile(rf"(?<![a-z0-9])(?:{names})") for family, names in _NAMES.items()}


@lru_cache(maxsize=1024)
def families(name: str) -> frozenset[str]:
    """Return the model families, such as Llama, that can be recognised in a model's name."""
    base_name = _base_name(name)
    return frozenset(family for family, regex in _FAMILIES.items() if regex.search(base_name))


def common_family(judge: str, model: str) -> str | None:
    """Return the families that a judge and a model share, separated by commas.

    If they share none, the result is ``judge`` if both names denote the same model, or else None.
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
