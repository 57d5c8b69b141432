"""Made-up attempts."""

from __future__ import annotations

from typing import Any

from harness.records import Attempt, Score, Usage


def attempt(
    instance: str, sample: int = 0, round_: int = 1, passed: bool | None = True, **fields: Any
) -> Attempt:
    """An attempt that says which it is."""
    request: dict[str, Any] = {"messages_hash": "m", "follows": round_ - 1}
    if round_ == 1:
        prompt = fields.pop("prompt", f"Prompt of {instance}.")
        request = {"messages": [{"role": "user", "content": prompt}]}
    score = Score(passed, passed, "" if passed else f"{instance} is wrong in round {round_}")
    return Attempt(
        **(
            {
                "v": 1,
                "instance": instance,
                "sample": sample,
                "round": round_,
                "groups": {"shape": "round" if instance.endswith(("0", "2", "4")) else "square"},
                "cluster": instance,
                "request": request,
                "outcome": "ok",
                "started_at": 1.0,
                "ended_at": 2.0,
                "text": f"Answer {instance}, sample {sample}, round {round_}.",
                "finish_reason": "stop",
                "passed": passed,
                "scores": {"exact": score},
                "call_id": f"{abs(hash((instance, sample, round_))):032x}"[:32],
                "usage": Usage(10, 20),
                "cost_usd": 0.001,
                "latency_s": 0.5,
            }
            | fields
        )
    )


def before_and_after() -> tuple[list[Attempt], list[Attempt]]:
    """Six instances of two samples and up to two rounds; the second run is better in two of them,
    worse in one."""
    before, after = [], []
    for number in range(6):
        for sample in range(2):
            name = f"sum/{number}"
            before.append(attempt(name, sample, passed=number < 3))
            after.append(attempt(name, sample, passed=False, feedback=f"Try {name} again."))
            after.append(attempt(name, sample, 2, passed=number in (0, 1, 4, 5)))
    return before, after
