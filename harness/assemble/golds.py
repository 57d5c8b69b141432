"""The gold answers of a run's instances, written down for a judge to score."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from harness.assemble.judges import JudgeModel, calling, register_judges
from harness.errors import DataMissing
from harness.ports import Task
from harness.store.golds import Gold, Unit, gold_folder, read_units, record_golds
from harness.store.run_folder import RunFolder


def prepare_golds(folder: RunFolder, task: Task[Any], judge: JudgeModel) -> RunFolder:
    """Write down what a judge is to score, and that it does; the folder of it.

    Raises: DataMissing where there is no gold that the judge would be asked about;
        DataInvalid, StoreFailed.
    """
    golds = list(_golds(task, judge, read_units(folder.attempts)))
    if not golds:
        raise DataMissing(
            f"There is no gold answer to any instance of the run {folder.name!r} that the judge "
            f"{judge.name!r} is for.",
            "Leave --gold out: it scores the run's own answers then.",
        )
    place = gold_folder(folder)
    record_golds(place, golds)
    register_judges(place, task, [judge], later=True)
    return place


def _golds(task: Task[Any], judge: JudgeModel, units: dict[str, Unit]) -> Iterator[Gold]:
    is_for = calling(task, judge.name)
    for instance in task.instances():
        unit = units.get(instance.id)
        if unit is None or not is_for(instance):
            continue
        text = task.gold(instance)
        if text and text.strip() and judge.judge.requests(instance, text):
            yield Gold(instance.id, unit, text)
