from harness.mock.faults import draw


def test_depends_on_seed_body_and_attempt_only() -> None:
    assert draw(0, "aa", 1) == draw(0, "aa", 1)
    assert len({draw(0, "aa", 1), draw(1, "aa", 1), draw(0, "ab", 1), draw(0, "aa", 2)}) == 4


def test_is_uniform() -> None:
    draws = [draw(0, f"{n:x}", 1) for n in range(10_000)]
    for numbers in zip(*draws, strict=True):
        assert all(0 <= number < 1 for number in numbers)
        for tenth in range(1, 10):
            assert abs(sum(n < tenth / 10 for n in numbers) / 10_000 - tenth / 10) < 0.02
