"""What a run would do, counted before anything is spent."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from harness.records import Instance, Message, Reply, Request, Usage, messages_hash
from harness.run.assessment import assess
from harness.run.plan import OwedSample, Plan
from harness.store.index import AttemptIndex

CHARACTERS_PER_TOKEN = (6.0, 2.5)
"""At the most and at the fewest that is usual, from plain English to code."""
FEEDBACK_TOKENS = 150
"""Of a generous feedback."""

Price = Callable[[Usage], float]


@dataclass(frozen=True, slots=True)
class Spread:
    """A figure that is not known yet.

    high: None where nothing bounds it.
    """

    low: float
    high: float | None

    def plus(self, low: float, high: float | None) -> Spread:
        """With more added."""
        both = None if self.high is None or high is None else self.high + high
        return Spread(self.low + low, both)

    @classmethod
    def sum(cls, spreads: Iterable[Spread]) -> Spread:
        """Of several."""
        total = cls(0.0, 0.0)
        for spread in spreads:
            total = total.plus(spread.low, spread.high)
        return total


NOTHING = Spread(0.0, 0.0)


@dataclass(frozen=True, slots=True)
class Outlook:
    """What a run would do.

    samples: of the whole run; owed_samples: those unfinished.
    calls: distinct first-round calls that are owed, by name; cached: those of them that are
        paid for.
    to_pay: calls to be paid: where every first answer passes, and where every
        round of feedback is needed and nothing of it is shared or cached.
    input_tokens, output_tokens: of these calls, by rule of thumb.
    usd: their cost; None where the price is not known.
    golds: gold answers there are that rules can check; golds_failed: the instances whose gold
        answer fails.
    first: the first conversation that would be sent.
    judge_calls: judgements to come, at the most: one of each judge of an instance for each
        attempt. Most judges make one call for each; they are not counted above.
    """

    instances: int
    samples: int
    owed_samples: int
    calls: frozenset[str]
    cached: int
    to_pay: Spread
    input_tokens: Spread
    output_tokens: Spread
    usd: Spread | None
    golds: int
    golds_failed: list[str]
    first: tuple[Message, ...] | None
    judge_calls: int = 0


class _Sum:
    """Adds up calls, each with the fewest and the most tokens that it may have."""

    def __init__(self, price: Price | None, most_written: int | None) -> None:
        self._price = price
        self._most_written = most_written
        self.calls = self.read = self.written = self.usd = NOTHING

    def add(self, characters: int, *, sure: bool, before: int = 0, answer: int = 1) -> None:
        """A call that will be made for sure, or only at the worst.

        characters: of the round-1 messages; before: rounds before this one.
        answer: tokens that a short answer has.
        """
        slim, wide = (characters / each for each in CHARACTERS_PER_TOKEN)
        most = self._most_written
        wide_read = wide + before * FEEDBACK_TOKENS + before * most if most is not None else None
        if wide_read is None and not before:
            wide_read = wide
        self.calls = self.calls.plus(sure, 1)
        self.read = self.read.plus(slim * sure, wide_read)
        self.written = self.written.plus(answer * sure, most)
        if self._price is None:
            return
        low = self._price(Usage(round(slim), answer)) if sure else 0.0
        free = self._price(Usage(10**6, 10**6)) == 0
        if wide_read is None or most is None:
            self.usd = self.usd.plus(low, 0.0 if free else None)
        else:
            self.usd = self.usd.plus(low, self._price(Usage(round(wide_read), most)))


def foresee(
    plan: Plan,
    ledger: AttemptIndex,
    key: Callable[[Request], str],
    has: Callable[[str], bool],
    price: Price | None = None,
    judges: Callable[[Instance[Any]], int] = lambda _: 0,
) -> Outlook:
    """Go through what is owed without doing it.

    key: names a request's call; has: whether a call is in the cache.
    price: what a call of so many tokens costs, None where that is not known.
    judges: how many of the run's judge an instance.
    """
    samples, owed_samples = plan.count(ledger)
    calls: set[str] = set()
    cached, first, with_shots, judge_calls = 0, None, False, 0
    total = _Sum(price, plan.run.decoding.max_tokens)
    for owed in plan.owed(ledger):
        messages = plan.opening(owed.instance).messages
        judge_calls += (plan.run.rounds.max - owed.round + 1) * judges(owed.instance)
        if first is None or (plan.shots and not with_shots):
            # One that some instances may lack is not what to show of a few-shot run.
            with_shots = messages != plan.task.messages(owed.instance, ())
            first = messages if first is None or with_shots else first
        size = sum(len(message.content) for message in messages)
        if owed.round == 1:
            name = key(_first_request(plan, owed, messages))
            if name not in calls:
                calls.add(name)
                if has(name):
                    cached += 1
                else:
                    total.add(size, sure=True, answer=_answer_tokens(plan, owed))
        for number in range(max(2, owed.round), plan.run.rounds.max + 1):
            sure = number == owed.round or not plan.run.rounds.stop_on_pass
            total.add(size, sure=sure, before=number - 1)
    golds, golds_failed = _check_golds(plan)
    return Outlook(
        instances=samples // plan.run.samples,
        samples=samples,
        owed_samples=owed_samples,
        calls=frozenset(calls),
        cached=cached,
        to_pay=total.calls,
        input_tokens=total.read,
        output_tokens=total.written,
        usd=None if price is None else total.usd,
        golds=golds,
        golds_failed=golds_failed,
        first=first,
        judge_calls=judge_calls,
    )


def _first_request(plan: Plan, owed: OwedSample, messages: tuple[Message, ...]) -> Request:
    prompt = messages_hash(messages)
    return plan.request(owed.instance, owed.sample, 1, messages, prompt, owed.redraw)


def _answer_tokens(plan: Plan, owed: OwedSample) -> int:
    """Tokens that a right answer has at the fewest, by the gold one where there is one."""
    gold = plan.task.reference(owed.instance)
    tokens = round(len(gold or "") / CHARACTERS_PER_TOKEN[0])
    return max(1, min(tokens, plan.run.decoding.max_tokens or tokens))


def _check_golds(plan: Plan) -> tuple[int, list[str]]:
    """How many gold answers there are, and the ids of the instances whose gold fails."""
    golds, failed = 0, []
    for instance in plan.instances():
        gold = plan.task.reference(instance)
        if gold is None:
            continue
        found = assess(plan.task, instance, Reply(gold, "stop"))
        if found.passed is None and not found.scores:  # no rule is there: judges alone decide
            continue
        golds += 1
        if not found.passed:
            failed.append(instance.id)
    return golds, failed
