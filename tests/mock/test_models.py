from harness.mock.models import LONGEST, MOST, OTHERS, kept_as


def test_made_up_names_come_to_an_end() -> None:
    known: dict[str, int] = {}
    for number in range(3 * MOST):
        known[kept_as(f"model-{number}", known)] = number
    assert len(known) == MOST + 1
    assert known[OTHERS] == 3 * MOST - 1
    assert kept_as("model-0", known) == "model-0"


def test_long_names_are_not_kept() -> None:
    assert kept_as("m" * LONGEST, {}) == "m" * LONGEST
    assert kept_as("m" * (LONGEST + 1), {}) == OTHERS
