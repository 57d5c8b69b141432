"""What intervals, tests, bounds and stated powers promise holds in simulations."""

import pytest

from scripts.simulate_statistics import PARTS, Figure, main, share


@pytest.mark.exhaustive
@pytest.mark.parametrize("part", PARTS)
def test_each_part_is_within_its_limits(part: str, capsys: pytest.CaptureFixture[str]) -> None:
    """With few designs and repetitions, and a fixed seed."""
    code = main([part, "--quick"])
    printed = capsys.readouterr().out
    assert code == 0, printed
    assert "; 0 figures beyond" in printed


@pytest.mark.parametrize(
    ("covered", "missed"), [(0.95, False), (0.93, False), (0.9, True), (0.99, True)]
)
def test_a_figure_misses_its_limits_by_more_than_chance(covered: float, missed: bool) -> None:
    cases = [number < 1_000 * covered for number in range(1_000)]
    assert share("covered", cases, 0.94, 0.975).missed == missed


def test_a_figure_beyond_its_limits_is_marked_and_ends_with_1(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    figures = [Figure("covered", 0.9, low=0.94), Figure("failed", 0.02, high=0.05)]
    monkeypatch.setitem(PARTS, "rates", lambda settings: iter([("ten prompts", figures)]))
    assert main(["rates", "--quick"]) == 1
    printed = capsys.readouterr().out
    assert "covered 0.9000! failed 0.0200 \n" in printed
    assert "1 figures beyond their limits" in printed
