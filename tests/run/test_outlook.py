from pathlib import Path

from harness.records import messages_hash
from harness.run.outlook import foresee
from harness.run.plan import Plan
from harness.store.index import AttemptIndex
from tests.conftest import Sums, run_file


def test_each_judge_judges_each_attempt_to_come_at_most(tmp_path: Path) -> None:
    plan = Plan(Sums(4), run_file(samples=2, rounds={"max": 3}))

    def judge_calls(judges: int) -> int:
        return foresee(
            plan,
            AttemptIndex(tmp_path / "none"),
            lambda request: messages_hash(request.messages),
            lambda _: False,
            judges=lambda _: judges,
        ).judge_calls

    assert [judge_calls(judges) for judges in (0, 1, 2)] == [0, 24, 48]
