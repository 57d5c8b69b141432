"""What a run would do, counted before anything is spent."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from harness.middleware.key import messages_hash
from harness.records import Message, Reply, Request
from harness.schedule.assessment import assess
from harness.schedule.plan import Plan
from harness.store.ledger import Ledger

CHARACTERS_PER_TOKEN = 4
"""A rule of thumb for English, good to a factor of about 1.5."""


@dataclass(frozen=True, slots=True)
class Outlook:
    """What a run would do.

    samples: of the whole run; owed_samples: those unfinished.
    calls: distinct first-round calls that are owed; cached: those of them that are paid for.
    most_calls: with every round of feedback, nothing shared and nothing cached after round 1.
    input_tokens: of the first-round calls to be paid, by rule of thumb.
    golds: gold answers there are; golds_failed: the instances whose gold answer fails.
    first: the first conversation that would be sent.
    """

    instances: int
    samples: int
    owed_samples: int
    calls: int
    cached: int
    most_calls: int
    input_tokens: int
    golds: int
    golds_failed: list[str]
    first: tuple[Message, ...] | None


def foresee(
    plan: Plan, ledger: Ledger, key: Callable[[Request], str], has: Callable[[str], bool]
) -> Outlook:
    """Go through what is owed without doing it.

    key: names a request's call; has: whether a call is in the cache.
    """
    samples, owed_samples = plan.count(ledger)
    calls: set[str] = set()
    cached = later = characters = 0
    first = None
    for instance, sample, number in plan.owed(ledger):
        later += plan.run.rounds.max - number
        if number > 1:
            later += 1
            continue
        messages = plan.task.messages(instance, ())
        first = first or messages
        name = key(plan.request(instance, sample, number, messages, messages_hash(messages)))
        if name in calls:
            continue
        calls.add(name)
        if has(name):
            cached += 1
        else:
            characters += sum(len(message.content) for message in messages)
    golds, golds_failed = _check_golds(plan)
    return Outlook(
        instances=samples // plan.run.samples,
        samples=samples,
        owed_samples=owed_samples,
        calls=len(calls),
        cached=cached,
        most_calls=len(calls) - cached + later,
        input_tokens=characters // CHARACTERS_PER_TOKEN,
        golds=golds,
        golds_failed=golds_failed,
        first=first,
    )


def _check_golds(plan: Plan) -> tuple[int, list[str]]:
    """How many gold answers there are, and the ids of the instances whose gold fails."""
    golds, failed = 0, []
    for instance in plan.instances():
        gold = plan.task.gold(instance)
        if gold is None:
            continue
        golds += 1
        if not assess(plan.task, instance, Reply(gold, "stop")).passed:
            failed.append(instance.id)
    return golds, failed
