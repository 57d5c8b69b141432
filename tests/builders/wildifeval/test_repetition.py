from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from harness.builders.wildifeval.pipeline import not_repeated
from harness.builders.wildifeval.replies import DecomposedTask, Decomposition
from harness.builders.wildifeval.screening import Step
from harness.config.curation import ConstraintsSection


def tasks(*constraints: tuple[str, ...]) -> list[DecomposedTask]:
    return [
        DecomposedTask(f"t{n}", "Write.", Decomposition("", "", own))
        for n, own in enumerate(constraints)
    ]


def left(
    found: list[DecomposedTask], most_tasks: int = 40, most: int = 8, seed: int = 0
) -> tuple[list[DecomposedTask], Step]:
    by = ConstraintsSection(most_tasks=most_tasks, most_of_a_task=most)
    return not_repeated(found, by, seed)


def test_tasks_of_too_many_constraints_go() -> None:
    kept, step = left(tasks(tuple("abcdefgh"), tuple("abcdefghi")))
    assert [task.id for task in kept] == ["t0"]
    assert step.removed == {"too many constraints": 1}


def test_a_constraint_that_many_have_is_left_to_as_many_as_are_allowed() -> None:
    found = tasks(*[("Be brief.", f"{n}") for n in range(60)], *[(f"own {n}",) for n in range(5)])
    kept, step = left(found)
    assert sum("Be brief." in task.apart.constraints for task in kept) == 40
    assert len(kept) == 45
    assert step.removed == {"repeated constraint": 20}
    assert step.examples["repeated constraint"][0].detail == "be brief (60 tasks)"
    assert kept == [task for task in found if task in kept]  # in their order


def test_how_it_is_written_makes_no_difference() -> None:
    kept, _ = left(tasks(("Be brief.",), ("be  brief",), ("BE BRIEF!",)), most_tasks=2)
    assert len(kept) == 2


def test_the_seed_draws() -> None:
    found = tasks(*[("Be brief.",)] * 60)
    drawn = {tuple(task.id for task in left(found, seed=seed)[0]) for seed in range(4)}
    assert len(drawn) == 4
    assert left(found, seed=2) == left(found, seed=2)


@given(
    st.lists(st.sets(st.sampled_from("abcdef"), min_size=1).map(tuple), max_size=40),
    st.integers(1, 5),
)
def test_none_is_left_too_often_and_none_goes_without_need(
    constraints: list[tuple[str, ...]], most: int
) -> None:
    found = tasks(*constraints)
    kept, step = left(found, most_tasks=most)
    counts = Counter(one for task in kept for one in task.constraints)
    assert all(n <= most for n in counts.values())
    assert step.left == len(kept)
    for task in found:
        if task not in kept:
            assert any(counts[one] == most for one in task.constraints)
