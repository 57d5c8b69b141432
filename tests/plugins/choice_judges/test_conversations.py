"""A judge of pairs and conversations."""

from tests.cli.test_conversations import Counting, Run, counting, run

__all__ = ["counting", "run"]


def test_conversations_of_another_run_are_refused_before_a_call(
    run: Run, counting: Counting
) -> None:
    run.harness("run", run.file())
    asked = counting.asked.total()
    against = {"name": "pairwise", "against": "talk", "model": run.model("judge")}
    assert "several turns" in run.refused("run", run.file(judges=[against]), "--name", "other")
    assert counting.asked.total() == asked
