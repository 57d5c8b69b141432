from harness.mock.limits import MAX_MODELS, MAX_NAME, OTHER_MODELS, tracked_name


def test_made_up_names_come_to_an_end() -> None:
    known: dict[str, int] = {}
    for number in range(3 * MAX_MODELS):
        known[tracked_name(f"model-{number}", known)] = number
    assert len(known) == MAX_MODELS + 1
    assert known[OTHER_MODELS] == 3 * MAX_MODELS - 1
    assert tracked_name("model-0", known) == "model-0"


def test_long_names_are_not_kept() -> None:
    assert tracked_name("m" * MAX_NAME, {}) == "m" * MAX_NAME
    assert tracked_name("m" * (MAX_NAME + 1), {}) == OTHER_MODELS
