"""`harness show`: a run's base constraints by a label, and what it must refuse."""

from pathlib import Path

import pytest

from tests.cli.command import harness, mistake
from tests.cli.test_compare import QUICK, on


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    runs = tmp_path_factory.mktemp("runs")
    ended = harness(*QUICK, "weak", "-o", "model.accuracy=0.2", env=on(runs))
    assert ended.returncode == 0, ended.stderr
    return runs


@pytest.mark.parametrize(
    "others", [(), ("--instance", "sent01/0"), ("--instance", "sent01/0", "--constraints")]
)
def test_by_goes_with_constraints_alone(runs: Path, others: tuple[str, ...]) -> None:
    said = mistake(harness("show", "weak", *others, "--by", "structure", env=on(runs)))
    assert "use it with --constraints" in said
    assert "harness show weak --constraints --by structure" in said
