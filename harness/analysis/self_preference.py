"""What must be said where a judge and the model that it judges are of one family.

Models tend to prefer what they, or their kind, have written: Panickssery et al. 2024, arXiv
2404.13076; Zheng et al. 2023, arXiv 2306.05685. A score is not changed for that; it is told.

>>> notes(metrics)  # doctest: +SKIP
["self-preference: the judge 'coherence' asks gpt-4, of the model's own family (OpenAI)"]
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from harness.analysis.metrics import Metrics

MARK = "†"
"""Behind the names of scores that such a judge has given."""


def marked(metrics: Metrics, score: str) -> bool:
    """Whether a score of a run is given by a judge of the model's own family."""
    judge, _, name = score.partition(".")
    found = metrics.judges.get(judge)
    return bool(name) and found is not None and found.family is not None


def notes(metrics: Metrics, judges: Collection[str] | None = None) -> list[str]:
    """A line for each such judge of a run.

    judges: of whom; by default all.
    """
    return [
        f"self-preference: {_who(metrics, name)}, of the model's own family ({found.family})"
        for name, found in metrics.judges.items()
        if found.family is not None and (judges is None or name in judges)
    ]


def _who(metrics: Metrics, name: str) -> str:
    """A judge with the model that it asks; a panel with those of its judges that are meant."""
    found = metrics.judges[name]
    if not found.of:
        return f"the judge {name!r} asks {found.model}"
    members = [(one, metrics.judges[one]) for one in found.of if one in metrics.judges]
    own = [f"{one!r}, which asks {it.model}" for one, it in members if it.family is not None]
    return f"the panel {name!r} has the judge {' and '.join(own)}"


def unequal(runs: Sequence[tuple[str, Metrics]]) -> Iterator[str]:
    """Sentences on judges that are of one family with the models of some runs and not of others.

    runs: by the names that readers know them by.
    """
    judges = dict.fromkeys(name for _, metrics in runs for name in metrics.judges)
    for judge in judges:
        judged = [(run, one.judges[judge]) for run, one in runs if judge in one.judges]
        own = [(run, found) for run, found in judged if found.family is not None]
        others = [run for run, found in judged if found.family is None]
        if own and others:
            families = ", ".join(dict.fromkeys(str(found.family) for _, found in own))
            what = "panel" if own[0][1].of else "judge"
            yield (
                f"The {what} {judge!r} is of one family ({families}) with the model of "
                f"{', '.join(run for run, _ in own)} and not with that of {', '.join(others)}: it "
                "may prefer its own kind."
            )
