from pathlib import Path

from harness.records import messages_hash
from harness.run.dry_run import count_work
from tests.conftest import Sums
from tests.run.toys import plan


def test_judgements_are_counted_for_all_rounds_still_possible(tmp_path: Path) -> None:
    """Three rounds of two samples of four instances, and five attempts of earlier sessions."""
    owed = plan(tmp_path / "none", Sums(4), samples=2, rounds={"max": 3})
    found = count_work(
        owed,
        lambda request: messages_hash(request.messages),
        lambda _: False,
        judgements=lambda sample: 5 if sample is None else 3,
    )
    assert found.judgements == 5 + 4 * 2 * 3
