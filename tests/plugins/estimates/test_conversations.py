"""The estimated cost of conversations."""

from tests.cli.test_conversations import Run, counting, row, run

__all__ = ["counting", "run"]


def test_a_dry_run_counts_and_prices_every_turn(run: Run) -> None:
    price = {"input": 0, "output": 1_000_000}  # one dollar a token
    model = {**run.model("m"), "price": price}
    judge = {"name": "yes_no", "model": {**run.model("judge"), "price": price}, "max_tokens": 2}
    plan = {"model": model, "decoding": {"max_tokens": 10}, "samples": 2}
    said = " ".join(run.harness("run", run.file(**plan), "--dry-run").split())
    assert "calls to pay 120 " in said
    assert "reference answers 40 of 40 pass" in said
    assert "$1,200.00" in said
    rows = [{**row("Bonn"), "criteria": ["It names a town."]}]
    rows[0]["turns"][1] = {"content": "Remember it.", "criteria": ["It agrees.", "It is polite."]}
    said = " ".join(run.harness("run", run.file(rows, judges=[judge], **plan), "--dry-run").split())
    assert "6 for answers, at most 6 for judges" in said
