"""The comparison with other tools, on the harness alone and few rows."""

import sys

import pytest

from scripts.bench_peers import HARNESS, Bench, main


def test_its_help_names_the_tools(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", ["bench_peers.py", "--help"])
    with pytest.raises(SystemExit, match="0"):
        main()
    shown = capsys.readouterr().out
    assert all(option in shown for option in ("--inspect", "--promptfoo", "--lm-eval"))


def test_the_harness_makes_no_call_twice_and_counts_failures_apart() -> None:
    bench = Bench(20, {"harness": f"{sys.executable} -m harness"})
    assert bench.again(HARNESS) == "0"
    assert bench.failing(HARNESS) == "1.00, 1 failed"
