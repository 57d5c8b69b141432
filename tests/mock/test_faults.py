import pytest

from harness.mock.faults import Fault, FaultMix, parse_shares
from harness.mock.wire import MockError


def test_shares_are_kept() -> None:
    mix = FaultMix.of(parse_shares(["429=0.1", "reset=0.02"]))
    picks = [mix.pick((n + 0.5) / 1000) for n in range(1000)]
    assert picks.count(Fault.RATE_LIMITED) == 100
    assert picks.count(Fault.RESET) == 20
    assert picks.count(None) == 880


def test_shares_may_fill_the_whole() -> None:
    ten = FaultMix.of(dict.fromkeys([fault.value for fault in list(Fault)[:10]], 0.1))
    assert ten.pick(0.999) is not None


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["rest=0.1"], "Unknown fault 'rest'. Did you mean 'reset'?"),
        (["nonsense=0.1"], "Faults: 400, 429, 500"),
        (["reset"], "Write NAME=PROBABILITY"),
        (["reset=often"], "Write NAME=PROBABILITY"),
        (["reset=1.5"], "must be in 0..1"),
        (["reset=0.6", "stall=0.6"], "add up to 1.2"),
    ],
)
def test_nonsense_is_refused(options: list[str], message: str) -> None:
    with pytest.raises(MockError) as raised:
        FaultMix.of(parse_shares(options))
    assert message in str(raised.value)
