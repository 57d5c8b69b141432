"""Tasks left out for their constraints: those that have too many, and those that repeat one.

Logs hold templates: the same condition in hundreds of messages. Of the tasks with a constraint that
more than ``most_tasks`` have, as many are drawn; a task goes as a whole, for its message asks for
all of its constraints.

>>> [task.id for task in not_repeated([Task("a", "…", Decomposition("", "", ("Be brief.",)))],
...                                   ConstraintsSection(), 0, Step("constraints", 1))]
['a']
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from msgspec import Struct

from harness.builders.draws import Draws
from harness.builders.wildifeval.replies import Decomposition, sameness
from harness.builders.wildifeval.steps import Step
from harness.config.curation import ConstraintsSection


class Task(Struct, frozen=True):
    """A message that passed the filters, taken apart."""

    id: str
    text: str
    apart: Decomposition

    @property
    def constraints(self) -> frozenset[str]:
        """What tells its constraints from others."""
        return frozenset(map(sameness, self.apart.constraints))


def not_repeated(
    tasks: Sequence[Task], by: ConstraintsSection, seed: int, step: Step
) -> list[Task]:
    """The tasks that stay, in their order; the others are counted.

    Whether a task stays is drawn: tasks are looked at in an order that the seed gives, and one
    stays while none of its constraints has its tasks already.
    """
    few = list[Task]()
    for task in tasks:
        n = len(task.apart.constraints)
        if n > by.most_of_a_task:
            step.leave_out("too many constraints", task.id, task.text, f"{n} constraints")
        else:
            few.append(task)
    frequent = Counter(one for task in few for one in task.constraints)
    kept_with = Counter[str]()
    repeated = dict[str, str]()
    for task in Draws(seed, "repetition").shuffled(few):
        full = [one for one in task.constraints if kept_with[one] >= by.most_tasks]
        if full:
            repeated[task.id] = min(full)
        else:
            kept_with.update(task.constraints)
    for task in few:
        if one := repeated.get(task.id):
            detail = f"{one} ({frequent[one]:,} tasks)"
            step.leave_out("repeated constraint", task.id, task.text, detail)
    return [task for task in few if task.id not in repeated]
