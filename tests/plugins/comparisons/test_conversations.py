"""Conversations are compared by their last turns alone."""

from tests.cli.test_conversations import Counting, Run, counting, run

__all__ = ["counting", "run"]


def test_a_round_of_conversations_is_not_compared(run: Run, counting: Counting) -> None:
    run.harness("run", run.file())
    run.harness("run", run.file(), "--name", "again")
    asked = counting.asked.total()
    assert "not compared" in run.refused("compare", "talk", "again", "--round", "1")
    assert "0.0000" in run.harness("compare", "talk", "again")
    assert counting.asked.total() == asked
