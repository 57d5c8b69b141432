"""Which instances of a task are evaluated, and which may be examples for them.

The authors keep a task's first 60 instances for examples and spread 100 evenly over the rest
(their ``encodeinstruction.py``); the paper's GPT-3 figures are of the first 50 of these.

>>> evaluated(430, 3)
[60, 63, 66]
>>> evaluated(8, 50)
[0, 1, 2, 3, 4, 5, 6, 7]
"""

from __future__ import annotations

from collections.abc import Callable, Collection

from harness.scoring.overlap.match import bare
from harness.tasks.natural_instructions.schema import Example, NaturalTask

KEPT = 60
SPREAD = 100


def evaluated(n_entries: int, wanted: int | None) -> list[int]:
    """The places of the evaluated instances, in order.

    wanted: how many at most; None for all that are not kept for examples. A larger number takes
        the same ones and more, up to 100. A task with too few instances for the authors' rule
        keeps for examples what is not wanted.
    """
    wanted = n_entries if wanted is None else wanted
    if n_entries < KEPT + SPREAD:
        kept = min(KEPT, max(0, n_entries - wanted))
        return list(range(kept, n_entries))[:wanted]
    step = max(1, (n_entries - KEPT) // max(SPREAD, wanted))
    return list(range(KEPT, n_entries, step))[:wanted]


def shown(
    task: NaturalTask, chosen: Collection[int]
) -> tuple[tuple[Example, ...], tuple[Example, ...]]:
    """All examples that may be shown: the task's own, and instances with their first output.

    chosen: the evaluated instances. None of them is an example, nor is one that gives away the
        answer to one of them: the same input with an output that is right.
    """
    answers: dict[str, set[str]] = {}
    for index in chosen:
        entry = task.entries[index]
        answers.setdefault(entry.input.strip(), set()).update(map(bare, entry.outputs))

    def harmless(example: Example) -> bool:
        return bare(example.output) not in answers.get(example.input.strip(), ())

    taken = frozenset(chosen)
    others = (
        Example(entry.input, entry.outputs[0])
        for index, entry in enumerate(task.entries)
        if index not in taken
    )
    return (
        tuple(filter(harmless, task.instruction.positive)),
        tuple(filter(harmless, others)),
    )


def most_that_fit(available: int, tokens: Callable[[int], int], budget: int) -> int:
    """The largest number of examples whose prompt is within a budget of tokens; 0 where none is.

    tokens: the longest prompt's tokens with so many examples, growing with their number.
    """
    fitting, too_many = 0, available + 1
    while too_many - fitting > 1:
        tried = (fitting + too_many) // 2
        if tokens(tried) <= budget:
            fitting = tried
        else:
            too_many = tried
    return fitting
