import os
import subprocess
import sys
from collections import Counter

from harness.plugins.builders.draws import Draws


def numbers(draws: Draws) -> list[int]:
    return [draws.integer(0, 999) for _ in range(5)]


def test_a_stream_is_its_name_and_its_seed() -> None:
    assert numbers(Draws(0, "a", 1)) == numbers(Draws(0, "a", 1))
    assert numbers(Draws(0, "a", 1)) != numbers(Draws(0, "a", "1"))
    assert numbers(Draws(0, "a")) != numbers(Draws(1, "a"))


def test_a_stream_does_not_move_another() -> None:
    first = numbers(Draws(0, "x"))
    numbers(Draws(0))
    assert numbers(Draws(0, "x")) == first


def test_draws_are_where_they_should_be() -> None:
    draws = Draws(3)
    assert {draws.integer(2, 4) for _ in range(200)} == {2, 3, 4}
    assert sorted(draws.shuffled(range(9))) == list(range(9))
    assert len(draws.sample("abc", 7)) == 3
    assert 550 < sum(draws.chance(0.6) for _ in range(1000)) < 650
    drawn = Counter(draws.weighted({"a": 3, "b": 1, "c": 0}) for _ in range(1000))
    assert 680 < drawn["a"] < 820
    assert not drawn["c"]


def test_known_draws() -> None:
    """These change only with VERSION, since every benchmark of every seed changes with them."""
    assert numbers(Draws(0, "schemas")) == [271, 685, 448, 688, 46]


def test_the_same_in_every_process() -> None:
    code = (
        "from harness.plugins.builders.draws import Draws\n"
        "print([Draws(0, 'schemas', n).integer(0, 999) for n in range(5)])"
    )
    said = {
        subprocess.run(
            [sys.executable, "-c", code],
            env=os.environ | {"PYTHONHASHSEED": seed},
            capture_output=True,
            check=True,
        ).stdout
        for seed in ("0", "77")
    }
    assert len(said) == 1
