"""A session of paid work (for a run, a later judge or a data-set build), and its budget."""

import asyncio
import contextlib
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from math import fsum
from typing import Literal
from uuid import uuid4

from harness.calls.batch_lane import BatchLane
from harness.calls.batch_ledger import calls_of_account
from harness.calls.budget import Budget
from harness.calls.calls import Calls, Unused
from harness.calls.code_errors import ModelAnswers
from harness.calls.concurrency import ConcurrencyLimiter
from harness.calls.database import SESSION
from harness.calls.reply_cache import Payment, ReplyCache
from harness.calls.signals import Notices, Stop
from harness.config.settings import Settings
from harness.engine.models import Model, apply_limits
from harness.engine.reasoning import mark_warnings
from harness.engine.replies import open_cache
from harness.errors import ConfigError, StoreFailed
from harness.records import Request, account_of
from harness.store.run_folder import RunFolder, Spending
from harness.wording import count_of

OPENING_S = 15.0  # seconds that a session waits for the team's database


@dataclass(frozen=True, slots=True)
class BoundModel:
    """A model and its call stack: cache, retries, budget and limits."""

    model: Model
    call: Calls


@dataclass(frozen=True, slots=True)
class Session:
    """Resources shared by all work of a session."""

    run_id: str  # which the run's paid replies carry in the cache
    stop: Stop  # asks the session to end after the calls in flight
    notices: Notices
    replies: ReplyCache | None = None  # None: no backend is cacheable
    budget: Budget | None = None  # None: no backend is cacheable, or no cap is set
    unused: Unused | None = None  # None: no backend is cacheable
    first: bool = False  # whether the session is of a run without any attempt
    answered: ModelAnswers = field(default_factory=ModelAnswers)  # by the evaluated model
    lanes: list[BatchLane] = field(default_factory=list)
    limiters: list[ConcurrencyLimiter] = field(default_factory=list)
    # Answers that begin with an unknown mark, by mark, for each model's key in the run file.
    unknown_marks: dict[str, Counter[str]] = field(default_factory=dict)
    # Replies with an unknown finish reason, by reason, for each model's key in the run file.
    unknown_reasons: dict[str, Counter[str]] = field(default_factory=dict)
    # For each model's key in the run file, a function that returns a request that was answered in
    # an earlier session, or None.
    earlier: dict[str, Callable[[], Request | None]] = field(default_factory=dict)
    bound: dict[int, BoundModel] = field(default_factory=dict)  # by the id of the model

    @property
    def account(self) -> str:
        """The account to which the run's payments are booked."""
        return account_of(self.run_id)

    def busy(self) -> bool:
        """Return whether any call outside batches is in flight or waiting."""
        return any(one.in_flight or one.load.waiting for one in self.limiters)

    def detach(self) -> None:
        """End the session if each waiting call is in a batch that the provider is working on."""
        waiting = [lane for lane in self.lanes if lane.waits]
        if all(lane.settled for lane in waiting):
            self.stop.request()

    @property
    def ended(self) -> Literal["budget", "interrupted"]:
        """Why the session left work unfinished."""
        return "budget" if self.budget is not None and self.budget.ended else "interrupted"


@contextlib.asynccontextmanager
async def open_session(
    models: Sequence[Model],
    settings: Settings,
    run_id: str = "",
    *,
    folder: RunFolder | None = None,
    usd: float | None = None,
    sharing: Sequence[RunFolder] = (),
    shared: str | None = None,
) -> AsyncIterator[Session]:
    """Lock a run, and yield a session with its cache and budget.

    The run is that of ``folder`` or, if the caller already holds a lock, that with the id
    ``run_id``. ``usd`` is the budget in US dollars (None: no cap), which the runs in ``sharing``
    share. ``shared`` names a budget that a team shares instead.
    """
    begun = folder is None or folder.begun()
    session = Session(run_id, Stop(), Notices(), first=not begun)
    status = session.notices.status
    async with contextlib.AsyncExitStack() as stack:
        if folder is not None:
            stack.enter_context(folder.hold())
            session = replace(session, run_id=folder.run_id())  # only now: it may be a new id
        for model in {id(model): model for model in models}.values():
            stack.push_async_callback(model.backend.aclose)
            stack.push_async_callback(model.rates.aclose)
            model.rates.report = status(f"{model.section.name}, rate limit")
        if any(model.backend.cacheable for model in models):
            replies = stack.enter_context(open_cache(settings, status("cache")))
            replies.check_room()
            used = None if folder is None else partial(_used_calls, folder)
            unused = Unused(replies, session.run_id, used)
            session = replace(session, replies=replies, unused=unused)
            if usd is not None:
                if shared is None:
                    budget = await _open_budget(session, replies, usd, folder, sharing)
                else:
                    budget = await _join_budget(session, replies, usd, shared, settings, stack)
                session = replace(session, budget=budget)
                stack.push_async_callback(_close, budget)
        if folder is not None:
            folder.write_prices(
                {
                    model.where: price
                    for model in models
                    if model.backend.cacheable and (price := model.usual_price)
                }
            )
        apply_limits(models)  # only now: an earlier variant may have set other limits
        stack.push_async_callback(_close_lanes, session.lanes)
        stack.callback(_report_unknown, session)
        yield session
    if session.budget is not None and session.budget.broken is not None:
        raise session.budget.broken


async def _open_budget(
    session: Session,
    replies: ReplyCache,
    usd: float,
    folder: RunFolder | None,
    sharing: Sequence[RunFolder],
) -> Budget:
    """Build a session's budget, counting what the runs that share it have paid."""
    account = session.account
    payer = uuid4().hex
    own = await _paid(folder, replies, account)
    if folder is not None and own[0] > folder.read_spending().usd:
        # What a deleted run of this name has spent is otherwise known to the cache alone.
        await asyncio.to_thread(folder.write_spending, payer, own[0])
    others = []
    for run in sharing:
        sharing_account = account_of(run.run_id())
        others.append(await _paid(run, replies, sharing_account))
        others.append((_in_batches(replies, sharing_account), 0.0))
    spent, unsure = (fsum(column) for column in zip(own, *others, strict=True))

    async def record(more: float, most: float) -> None:
        # A killed run's calls in flight then count as paid, even if the cache or the folder is
        # deleted.
        await replies.charge(SESSION + payer.encode(), Payment(account, more))
        if folder is not None:
            await asyncio.to_thread(folder.write_spending, payer, most)

    budget = Budget(
        usd,
        spent,
        session.stop,
        unsure=unsure,
        shared=fsum(paid for paid, _ in others),
        record=record,
        status=session.notices.status("budget"),
    )
    for call in calls_of_account(replies, account):
        budget.hold(call.key, call.usd)
    return budget


async def _join_budget(
    session: Session,
    replies: ReplyCache,
    usd: float,
    name: str,
    settings: Settings,
    stack: contextlib.AsyncExitStack,
) -> Budget:
    """Build a session's budget from a team's. Closing ``stack`` gives back the unused part."""
    if settings.cache_url is None:
        problem = "budget.shared is set, but HARNESS_CACHE_URL is not."
        raise ConfigError(problem, "Set it to the URL of the team's database (harness docs team).")
    from harness.calls.team.budgets import TeamBudget
    from harness.calls.team.database import TeamDatabase

    database = TeamDatabase(settings.cache_url.get_secret_value())
    stack.callback(database.close)
    team = TeamBudget(database, name, session.account, usd)
    spent = await asyncio.to_thread(database.transact, team.open, OPENING_S)
    in_batches = calls_of_account(replies, session.account)
    held = fsum(call.usd for call in in_batches)
    budget = Budget(
        usd,
        max(0.0, spent.by_run - held) + spent.by_others,
        session.stop,
        unsure=max(0.0, spent.unsure - held),
        shared=spent.by_others,
        team=team,
        status=session.notices.status("budget"),
    )
    for call in in_batches:
        budget.hold(call.key, call.usd)
    team.report = session.notices.status("")
    team.ensure_working()
    stack.push_async_callback(team.aclose)
    return budget


def _report_unknown(session: Session) -> None:
    for where, replies in session.unknown_reasons.items():
        for reason, count in replies.items():
            again = f" To ask again: --retry {reason}." if where == "model" else ""
            session.notices.status(f"{where}, finish reason {reason!r}")(
                f"not known, and given for {count_of(count, 'answer')}, which count as "
                f"complete: check whether they are.{again}"
            )
    for where, answers in session.unknown_marks.items():
        for warning in mark_warnings(answers, where):
            session.notices.status(f"{where}, reasoning")(warning)


async def _close_lanes(lanes: Sequence[BatchLane]) -> None:
    for lane in lanes:
        await lane.aclose()


def _used_calls(folder: RunFolder) -> set[str]:
    if not folder.begun():
        return set()
    from harness.store.calls import read_paid  # NumPy takes 0.2 s to import

    return read_paid(folder.attempts)


def _in_batches(replies: ReplyCache, account: str) -> float:
    return fsum(call.usd for call in calls_of_account(replies, account))


async def _close(budget: Budget) -> None:
    with contextlib.suppress(StoreFailed):  # its reservations then count as spent
        await budget.close()


async def _paid(folder: RunFolder | None, replies: ReplyCache, account: str) -> tuple[float, float]:
    """Return a run's spending, and the part of it that no recorded call accounts for (US dollars).

    The payment records include failed calls that may be billed, and amounts reserved by sessions
    that were killed. But the cache may have been deleted, and the budget may have been set later.
    Missing calls are therefore taken from the attempts and judgements, and the run's maximum cost
    from its folder.
    """
    from harness.store.calls import read_payments  # NumPy takes 0.2 s to import

    booked = replies.booked(account)
    recorded = {} if folder is None else read_payments(folder.attempts)
    unsure = fsum(usd for key, usd in booked.items() if key not in recorded)
    spent = fsum(booked.get(key, usd) for key, usd in recorded.items()) + unsure
    spending = Spending() if folder is None else folder.read_spending()
    lost = spending.usd - spent
    if lost > 0 and (key := SESSION + spending.session.encode()) not in booked:
        await replies.charge(key, Payment(account, lost))
        spent, unsure = spent + lost, unsure + lost
    return spent, unsure
