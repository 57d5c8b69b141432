"""The gold answers of a run's instances, written down for a judge to score."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from harness.config.panels import PanelSection
from harness.errors import DataMissing
from harness.ports import Task
from harness.run.judges import JudgeModel, calling, register_judges
from harness.store.judgements import read_register
from harness.store.references import (
    Reference,
    Unit,
    read_units,
    record_references,
    references_folder,
)
from harness.store.run_folder import RunFolder


def prepare_golds(
    folder: RunFolder, task: Task[Any], judge: JudgeModel | None, panels: Sequence[PanelSection]
) -> tuple[RunFolder, list[PanelSection]]:
    """Write down what a judge is to score, and that it does.

    judge: None where panels alone are to combine what judges have said of golds.
    panels: those that are to.

    Returns: the folder of the golds, and the panels all of whose judges score golds.

    Raises: DataMissing where there is no gold that the judge would be asked about, or none that
        a panel's judges have scored; DataInvalid, StoreFailed.
    """
    place = references_folder(folder)
    judges = [] if judge is None else [judge]
    known = {*read_register(place.path).judges, *(one.name for one in judges)}
    whole = [panel for panel in panels if known.issuperset(panel.of)]
    if judge is not None:
        golds = list(_golds(task, judge, read_units(folder.attempts)))
        if not golds:
            raise DataMissing(
                f"There is no gold answer to any instance of the run {folder.name!r} that the "
                f"judge {judge.name!r} is for.",
                "Leave --gold out: it scores the run's own answers then.",
            )
        record_references(place, golds)
    elif not whole:
        raise DataMissing(
            "The judges of the panel have not all scored the gold answers.",
            "Put them before each of these judges first: harness judge … --gold.",
        )
    register_judges(place, task, judges, whole, later=True)
    return place, whole


def _golds(task: Task[Any], judge: JudgeModel, units: dict[str, Unit]) -> Iterator[Reference]:
    is_for = calling(task, judge.name)
    for instance in task.instances():
        unit = units.get(instance.id)
        if unit is None or not is_for(instance):
            continue
        text = task.reference(instance)
        if text and text.strip() and judge.judge.questions(instance, text):
            yield Reference(instance.id, unit, text)
