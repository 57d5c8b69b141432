"""Which fault and which latency a request draws."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from harness.plugins.mock.faults import BATCH_FAULTS, FAULTS, FaultMix, Latency, draw, parse_shares
from harness.plugins.mock.wire import MockError


def test_shares_are_kept() -> None:
    mix = FaultMix(parse_shares(["429=0.1", "reset=0.02"]))
    picks = [mix.pick((n + 0.5) / 1000) for n in range(1000)]
    assert picks.count("429") == 100
    assert picks.count("reset") == 20
    assert picks.count(None) == 880


def test_shares_may_fill_the_whole() -> None:
    ten = FaultMix(dict.fromkeys(FAULTS[:10], 0.1))
    assert ten.pick(0.999) is not None


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["rest=0.1"], "Unknown fault 'rest'. Did you mean 'reset'?"),
        (["nonsense=0.1"], "Faults: 400, 401, 402"),
        (["reset"], "Write NAME=PROBABILITY"),
        (["finish=0.1"], "as in finish:network_error"),
        (["error_body:200=0.1"], "as in error_body:429"),
        (["reset:429=0.1"], "Did you mean 'reset'?"),
        (["reset=often"], "Write NAME=PROBABILITY"),
        (["reset=1.5"], "must be in 0..1"),
        (["reset=0.6", "stall=0.6"], "add up to 1.2"),
    ],
)
def test_invalid_faults_are_refused(options: list[str], message: str) -> None:
    with pytest.raises(MockError) as raised:
        FaultMix(parse_shares(options))
    assert message in str(raised.value)


@pytest.mark.parametrize(
    ("spec", "at_start", "at_half"),
    [
        (0, 0, 0),
        ("0.05", 0.05, 0.05),
        ("uniform:0.1:0.3", 0.1, 0.2),
        ("lognormal:0.05:0.6", 0, 0.05),
    ],
)
def test_latency_quantiles(spec: float | str, at_start: float, at_half: float) -> None:
    latency = Latency(spec)
    assert latency.seconds(0.0) == pytest.approx(at_start)
    assert latency.seconds(0.5) == pytest.approx(at_half)


def test_lognormal_spread_is_sigma() -> None:
    one_sigma_up = 0.841344746
    assert Latency("lognormal:1:0.5").seconds(one_sigma_up) == pytest.approx(1.64872, rel=1e-5)


@pytest.mark.parametrize("spec", ["0.05", "uniform:0.1:0.3", "lognormal:0.05:0.6"])
def test_latency_is_written_as_it_is_read(spec: str) -> None:
    assert Latency(spec).spec == spec


@pytest.mark.parametrize(
    "spec", [-1, "fast", "uniform:1", "uniform:2:1", "gamma:1:2", "inf", "nan", "constant:1:2"]
)
def test_invalid_latency_names_the_valid_forms(spec: float | str) -> None:
    with pytest.raises(MockError, match="uniform:LOW:HIGH"):
        Latency(spec)


def test_draw_depends_on_seed_body_and_attempt_only() -> None:
    assert draw(0, "aa", 1) == draw(0, "aa", 1)
    assert len({draw(0, "aa", 1), draw(1, "aa", 1), draw(0, "ab", 1), draw(0, "aa", 2)}) == 4


def test_draw_is_uniform() -> None:
    draws = [draw(0, f"{n:x}", 1) for n in range(10_000)]
    for numbers in zip(*draws, strict=True):
        assert all(0 <= number < 1 for number in numbers)
        for tenth in range(1, 10):
            assert abs(sum(n < tenth / 10 for n in numbers) / 10_000 - tenth / 10) < 0.02


def test_the_documentation_lists_every_fault() -> None:
    page = (Path(__file__).parents[3] / "docs" / "mock.md").read_text()
    names = set(re.findall(r"`([a-z0-9_]+)[`:]", page))
    assert {*FAULTS, *BATCH_FAULTS} <= names
