"""What a job would do: no provider is asked, and no reply or attempt is written."""

from __future__ import annotations

from collections.abc import Callable, Collection
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

from harness.calls.key import call_key
from harness.calls.reply_cache import ReplyCache
from harness.records import Instance, Request
from harness.run.job import Job, plan_of, replies_path
from harness.run.outlook import Outlook, foresee
from harness.store.index import AttemptIndex


def foresee_job(job: Job, before: Collection[str] = ()) -> Outlook:
    """What a job would do, counted before anything is spent.

    before: names of calls that will have been made by then, by the variants that come first.
    """
    backend = job.model.backend
    by_instance = "by_instance" in backend.features

    def key(request: Request) -> str:
        return call_key(job.run.model.backend, backend.endpoint, request, by_instance=by_instance)

    ledger = AttemptIndex(job.folder.attempts, judges=False)
    price = job.model.price.cost if job.model.price else None
    with ExitStack() as stack:
        has = _cached(job, before, stack)
        found = foresee(plan_of(job), ledger, key, has, price, _judges_of(job))
    if not job.judges or not len(ledger):
        return found
    from harness.run.judges import calling
    from harness.run.owed_judgements import OwedJudgements
    from harness.store.judgements import FAILED

    is_for = {judge.name: calling(job.task, judge.name) for judge in job.judges}
    late = OwedJudgements(job.folder.attempts, list(is_for), FAILED).work(job.task)
    owed = sum(is_for[judge](one.instance) for one in late for judge in one.judges)
    return replace(found, judge_calls=found.judge_calls + owed)


def _judges_of(job: Job) -> Callable[[Instance[Any]], int]:
    """How many of a job's judges an instance is put before."""
    if not job.judges:
        return lambda _: 0
    from harness.run.judges import calling

    are_for = [calling(job.task, judge.name) for judge in job.judges]
    return lambda instance: sum(is_for(instance) for is_for in are_for)


def _cached(job: Job, before: Collection[str], stack: ExitStack) -> Callable[[str], bool]:
    """Whether a call will be in the cache by then; that is open for as long as the stack is."""
    path = replies_path(job.settings)
    if not job.model.backend.cacheable:
        return lambda _: False
    if not path.exists():
        return lambda name: name in before
    replies = stack.enter_context(ReplyCache(path))
    return lambda name: name in before or replies.get(name) is not None
