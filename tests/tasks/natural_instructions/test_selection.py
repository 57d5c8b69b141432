import pytest

from harness.tasks.natural_instructions.schema import Entry, Example, Instruction, NaturalTask
from harness.tasks.natural_instructions.selection import evaluated, most_that_fit, shown


@pytest.mark.parametrize(("n", "step"), [(160, 1), (176, 1), (430, 3), (500, 4), (6500, 64)])
def test_the_authors_hundred(n: int, step: int) -> None:
    assert evaluated(n, 100) == list(range(60, 60 + 100 * step, step))


@pytest.mark.parametrize("n", [1, 8, 60, 159, 160, 430])
def test_a_larger_number_takes_the_same_ones_and_more(n: int) -> None:
    for wanted in range(1, 100):
        fewer, more = evaluated(n, wanted), evaluated(n, wanted + 1)
        assert len(fewer) == min(n, wanted)
        if n >= 160:
            assert more[: len(fewer)] == fewer


def test_all_and_more_than_there_are() -> None:
    assert evaluated(8, None) == evaluated(8, 50) == list(range(8))
    assert evaluated(200, None) == evaluated(200, 500) == list(range(60, 200))
    assert evaluated(70, 20) == list(range(50, 70))


def task(*entries: Entry, positive: tuple[Example, ...] = ()) -> NaturalTask:
    return NaturalTask("t", Instruction(positive=positive), entries)


def test_evaluated_instances_are_no_examples() -> None:
    entries = [Entry(str(n), f"in {n}", (f"out {n}", "other")) for n in range(4)]
    own = (Example("snow", "white", "It is."),)
    assert shown(task(*entries, positive=own), [1, 2]) == (
        own,
        (Example("in 0", "out 0"), Example("in 3", "out 3")),
    )


def test_nor_is_one_that_gives_an_answer_away() -> None:
    entries = (Entry("0", "grass ", ("Green.", "x")), Entry("1", "grass", ("green",)))
    own = (Example(" grass", "green"), Example("grass", "blue"))
    assert shown(task(*entries, positive=own), [1]) == ((own[1],), ())


@pytest.mark.parametrize(("budget", "fitting"), [(9, 0), (10, 0), (13, 1), (16, 2), (1000, 20)])
def test_as_many_as_fit(budget: int, fitting: int) -> None:
    assert most_that_fit(20, lambda n: 10 + 3 * n, budget) == fitting
