import pytest

from harness.mock.faults import Latency
from harness.mock.wire import MockError


@pytest.mark.parametrize(
    ("spec", "at_start", "at_half"),
    [
        (0, 0, 0),
        ("0.05", 0.05, 0.05),
        ("uniform:0.1:0.3", 0.1, 0.2),
        ("lognormal:0.05:0.6", 0, 0.05),
    ],
)
def test_quantiles(spec: float | str, at_start: float, at_half: float) -> None:
    latency = Latency.of(spec)
    assert latency.seconds(0.0) == pytest.approx(at_start)
    assert latency.seconds(0.5) == pytest.approx(at_half)


def test_lognormal_spread_is_sigma() -> None:
    one_sigma_up = 0.841344746
    assert Latency.of("lognormal:1:0.5").seconds(one_sigma_up) == pytest.approx(1.64872, rel=1e-5)


@pytest.mark.parametrize("spec", ["0.05", "uniform:0.1:0.3", "lognormal:0.05:0.6"])
def test_is_written_as_it_is_read(spec: str) -> None:
    assert str(Latency.of(spec)) == spec


@pytest.mark.parametrize(
    "spec", [-1, "fast", "uniform:1", "uniform:2:1", "gamma:1:2", "inf", "nan", "constant:1:2"]
)
def test_nonsense_is_refused_with_the_valid_forms(spec: float | str) -> None:
    with pytest.raises(MockError, match="uniform:LOW:HIGH"):
        Latency.of(spec)
