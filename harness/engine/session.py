"""A session of paid work (for a run, a later judge or a data-set build): its budget and workers."""

import asyncio
import contextlib
import logging
import time
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from math import fsum
from types import MappingProxyType
from typing import Literal, NamedTuple, TypeVar
from uuid import uuid4

from harness.calls.backend_layers import ModelAnswers
from harness.calls.budget import Budget
from harness.calls.calls import Calls, UnusedReplies
from harness.calls.concurrency import ConcurrencyLimiter
from harness.calls.database import SESSION_PREFIX, Write
from harness.calls.reply_cache import Payment, ReplyCache, payment_row
from harness.calls.signals import Notices, Stop, Stopping
from harness.config.run_file import Shard
from harness.config.settings import Settings
from harness.engine.accounts import SHARER, file_row, follow_account, recorded_names, shards_row
from harness.engine.infrastructure import CallLayer, LaterCalls, call_layers
from harness.engine.models import Model, apply_limits
from harness.engine.reasoning import mark_warnings
from harness.engine.replies import (
    cached_calls,
    count_unrecorded,
    open_cache,
    recorded_replies,
    replies_path,
    save_replies,
)
from harness.errors import ConfigError, DataInvalid, HarnessError, StoreFailed
from harness.records import (
    Request,
    budget_account,
)
from harness.store.files import make_folder
from harness.store.run_folder import FRESH_KEY, RunFolder, Spending
from harness.store.runs import (
    base_name,
    latest_session_start,
    runs_of_file,
    runs_of_shards,
    shard_base_name,
)
from harness.store.unrecorded import UnrecordedCalls
from harness.wording import format_count, to_one_line

logger = logging.getLogger("harness")


@dataclass(frozen=True, slots=True)
class BoundModel:
    """A model and its call stack: cache, retries, budget and limits."""

    model: Model
    call: Calls


@dataclass(slots=True, eq=False)
class Session:
    """Resources shared by all work of a session."""

    run_id: str  # which the run's paid replies carry in the cache
    stop: Stop  # asks the session to end after the calls in flight
    notices: Notices
    replies: ReplyCache | None = None  # None: no backend is cacheable
    budget: Budget | None = None  # None: no backend is cacheable, or no cap is set
    unused: UnusedReplies | None = None  # None: no backend is cacheable
    first: bool = False  # whether the session is of a run without any attempt
    answered: ModelAnswers = field(default_factory=ModelAnswers)  # by the evaluated model
    layers: Sequence[CallLayer] = ()  # of plug-ins
    later: list[LaterCalls] = field(default_factory=list)  # the layers above call stacks
    limiters: list[ConcurrencyLimiter] = field(default_factory=list)
    # Answers that begin with an unknown mark, by mark, for each model's key in the run file.
    unknown_marks: dict[str, Counter[str]] = field(default_factory=partial(defaultdict, Counter))
    # Replies with an unknown finish reason, by reason, for each model's key in the run file.
    unknown_reasons: dict[str, Counter[str]] = field(default_factory=partial(defaultdict, Counter))
    # For each model's key in the run file, a function that returns a request that was answered in
    # an earlier session, or None.
    earlier: dict[str, Callable[[], Request | None]] = field(default_factory=dict)
    bound: dict[int, BoundModel] = field(default_factory=dict)  # by the id of the model
    merged_ids: Sequence[str] = ()  # of the runs that were merged into this one

    @property
    def account(self) -> str:
        """The account to which the run's payments are booked."""
        return budget_account(self.run_id)

    def busy(self) -> bool:
        """Return whether any call that is made at once is in flight or waiting."""
        return any(limiter.in_flight or limiter.load.waiting for limiter in self.limiters)

    def detach(self) -> None:
        """End the session if each waiting call is with its provider, which makes it later."""
        waiting = [calls for calls in self.later if calls.waits]
        if all(calls.settled for calls in waiting):
            self.stop.request()

    async def has_replies(self, model: Model, requests: Sequence[Request]) -> bool:
        """Return whether the replies to all requests of a model are in the cache."""
        if self.replies is None or not model.backend.cacheable:
            return False
        keys = [model.key(self.run_id), *self.merged_keys(model)]
        for request in requests:
            for key in keys:
                if await _has_reply(self.replies, key(request)):
                    break
            else:
                return False
        return True

    def merged_keys(self, model: Model) -> list[Callable[..., str]]:
        """Return functions for the keys of a model's calls in the runs merged into this one."""
        return [model.key(run_id) for run_id in self.merged_ids]

    def unrecorded(self, folder: RunFolder) -> dict[str, UnrecordedCalls]:
        """Return the calls that the run has paid for, but whose lines are lost (see `replies`)."""
        if self.replies is None:
            return {}
        return count_unrecorded(self.replies, folder, (self.run_id, *self.merged_ids))

    def reserved(self, account: str) -> dict[str, float]:
        """Return what an account has reserved for calls made later (US dollars), by their keys."""
        reserved = dict[str, float]()
        if self.replies is not None:
            for layer in self.layers:
                reserved |= layer.reserved(self.replies, account)
        return reserved

    @property
    def ended(self) -> Literal["budget", "interrupted"]:
        """Why the session left work unfinished."""
        return "budget" if self.budget is not None and self.budget.is_exhausted else "interrupted"


async def _has_reply(replies: ReplyCache, key: str) -> bool:
    reply = await replies.find(key)
    if reply is None and replies.shared is not None:
        reply = await replies.shared.fetch(key)
    return reply is not None


@contextlib.asynccontextmanager
async def open_session(
    models: Sequence[Model],
    settings: Settings,
    run_id: str = "",
    *,
    folder: RunFolder | None = None,
    usd: float | None = None,
    shared: str | None = None,
    base: str = "",
    listed: Sequence[str] = (),
    part: Shard | None = None,
) -> AsyncIterator[Session]:
    """Lock a run, and yield a session with its cache and budget.

    The run is that of ``folder`` or, if the caller already holds a lock, that with the id
    ``run_id``. ``usd`` is the budget in US dollars (None: no cap). ``shared`` names a budget that
    runs on several machines share. Otherwise, the runs of all variants and shards that the file
    with the name ``base`` has had share it ("": only this run). ``listed`` are the names of its
    present runs. If the run is a shard, ``part``, its budget is an equal part of the file's.
    """
    first = folder is not None and not folder.has_attempts()
    session = Session(run_id, Stop(), Notices(), first=first)
    status = session.notices.reporter
    async with contextlib.AsyncExitStack() as stack:
        if folder is not None:
            stack.enter_context(folder.lock())
            session.run_id = folder.run_id()  # only now: it may be a new id
            session.merged_ids = folder.read_manifest().get("merged_ids", ())
        session.layers = call_layers(settings)
        for layer in session.layers:
            stack.callback(layer.close)
        for model in {id(model): model for model in models}.values():
            stack.push_async_callback(model.backend.aclose)
            stack.push_async_callback(model.rates.aclose)
            model.rates.report = status(f"{model.section.name}, rate limit")
        if any(model.backend.cacheable for model in models):
            replies = stack.enter_context(open_cache(settings, status("cache")))
            replies.check_disk_space()
            if folder is not None:
                session.run_id = await follow_account(replies, folder, session.run_id, base)
            used = None if folder is None else partial(_used_calls, folder)
            session.replies = replies
            session.unused = UnusedReplies(replies, {session.run_id, *session.merged_ids}, used)
            if usd is not None:
                if shared is None:
                    sharers = await _sharers(session, replies, folder, base, listed, part)
                    budget = await _open_budget(session, replies, usd, folder, sharers)
                else:
                    budget = await _join_budget(session, usd, shared, stack)
                session.budget = budget
                stack.push_async_callback(_close, budget)
        if folder is not None:
            paid = [model for model in models if model.backend.cacheable]
            prices = {model.where: model.usual_price for model in paid}
            folder.write_prices({where: price for where, price in prices.items() if price})
        apply_limits(models)  # only now: an earlier variant may have set other limits
        stack.push_async_callback(_close_later, session.later)
        stack.callback(_report_unknown, session)
        yield session
    if session.budget is not None and session.budget.broken is not None:
        raise session.budget.broken


def keep_paid(folder: RunFolder, settings: Settings, *, replies: bool = True) -> int:
    """Let what a run has paid for outlive its folder, also if the cache was lost or damaged.

    Its account is recorded as that of its name, with the amounts. Unless ``replies`` is False, the
    cache gets the replies that it lacks.

    Returns:
        The number of the run's replies that cannot be saved.
    """
    try:
        run_id = folder.run_id()
        folder.read_spending()
    except StoreFailed:  # a damaged run can be deleted, too
        return 0
    call_ids = set[str]()
    if replies:
        with contextlib.suppress(HarnessError):
            call_ids = cached_calls(folder)
    if not (folder.spending.exists() or call_ids):
        return 0

    async def keep() -> int:
        restore = partial(recorded_replies, settings.runs_dir)
        path = replies_path(settings)
        make_folder(path.parent)
        with ReplyCache(path, notify=logger.warning, restore=restore) as cache:
            if folder.spending.exists():
                await follow_account(cache, folder, run_id, base_name(folder))
            session = Session(run_id, Stop(), Notices())
            with contextlib.suppress(DataInvalid):
                await _PaidByRuns(session, cache, {session.account: folder}).add(session.account)
            return await save_replies(cache, folder, call_ids) if call_ids else 0

    return asyncio.run(keep())


class _Sharers(NamedTuple):
    """The other runs that share a budget: their folders, None for deleted ones, by account."""

    same_part: Mapping[str, RunFolder | None] = MappingProxyType({})  # the same shard, if any
    others: Mapping[str, RunFolder | None] = MappingProxyType({})
    n_parts: int = 1  # into how many shards the budget is divided


async def _sharers(
    session: Session,
    replies: ReplyCache,
    folder: RunFolder | None,
    base: str,
    listed: Sequence[str],
    part: Shard | None,
) -> _Sharers:
    """Return the other runs that share a budget.

    They are those ``listed``, all existing runs of the file ``base`` and of its shards, and all
    recorded ones, which may be deleted or renamed. The existing ones are recorded. Shards that were
    last worked on before the file was started with --fresh do not count.
    """
    if folder is None or not base:
        return _Sharers()
    root = folder.path.parent
    file = base if part is None else base.removesuffix(shard_base_name("", part))
    by_base = {file: runs_of_file(root, file), base: runs_of_file(root, base)}
    by_base[base] |= {name: RunFolder(root, name) for name in listed}
    started_fresh = [run.read_manifest().get(FRESH_KEY) or 0.0 for run in by_base[file].values()]
    fresh_at = max(started_fresh, default=0.0)
    for name, runs in runs_of_shards(root, file).items():
        for run in runs:
            if name != base and latest_session_start(run.read_manifest()) >= fresh_at:
                by_base.setdefault(name, {})[run.name] = run
    shards = shards_row(root, file)
    recorded_shards = recorded_names(replies, shards)
    now = time.time()
    rows: list[list[object]] = []
    for name in by_base.keys() - {file, *recorded_shards}:
        rows.append([shards, name.encode(), now])
    same_part: dict[str, RunFolder | None] = {}
    others: dict[str, RunFolder | None] = {}
    for name in dict.fromkeys((*by_base, *recorded_shards)):
        accounts = same_part if name == base else others
        row = file_row(root, name)
        recorded = recorded_names(replies, row)
        existing: dict[str, RunFolder] = {}
        for run in by_base.get(name, {}).values():
            if run.name != folder.name:
                existing[budget_account(run.run_id())] = run
        accounts |= dict.fromkeys(recorded) | existing
        session_accounts = {session.account} if name == base else set()
        for account in {*session_accounts, *existing}.difference(recorded):
            rows.append([row, account.encode(), now])
    if rows:
        await replies.write(Write((), (), [(SHARER, row) for row in rows]))
    for accounts in (same_part, others):
        accounts.pop(session.account, None)
    for account in same_part:
        others.pop(account, None)
    return _Sharers(same_part, others, 1 if part is None else part.n_shards)


async def _open_budget(
    session: Session,
    replies: ReplyCache,
    usd: float,
    folder: RunFolder | None,
    sharers: _Sharers,
) -> Budget:
    """Build a session's budget, counting what the runs that share it have paid.

    A shard's budget is a part of the file's, which is smaller if the other runs of the file have
    spent more than the other parts.
    """
    account = session.account
    payer = uuid4().hex
    folders = {**sharers.others, **sharers.same_part, account: folder}
    paid = _PaidByRuns(session, replies, folders)
    paid_by_run = await paid.add(account)
    if folder is not None and paid_by_run.usd > folder.read_spending().usd:
        # What a deleted run of this name has spent is otherwise known to the cache alone.
        await asyncio.to_thread(folder.write_spending, payer, paid_by_run.usd)
    same_part = [await paid.add(sharer) for sharer in sharers.same_part]
    others = [await paid.add(sharer) for sharer in sharers.others]
    spent_by_others = fsum(amount.usd for amount in same_part)
    total = fsum([spent_by_others, *(amount.usd for amount in others)])
    spent_by_others = max(spent_by_others, total - usd * (sharers.n_parts - 1))
    unsure = fsum(amount.unsure for amount in (paid_by_run, *same_part, *others))

    async def record(more: float, max_usd: float) -> None:
        # A killed run's calls in flight then count as paid, even if the cache or the folder is
        # deleted.
        await replies.charge(SESSION_PREFIX + payer.encode(), Payment(account, more))
        if folder is not None:
            await asyncio.to_thread(folder.write_spending, payer, max_usd)

    budget = Budget(
        usd,
        paid_by_run.usd + spent_by_others,
        session.stop,
        unsure_usd=min(unsure, paid_by_run.usd + spent_by_others),
        spent_by_others=spent_by_others,
        save=record,
        status=session.notices.reporter("budget"),
    )
    for key, max_usd in session.reserved(account).items():
        budget.reserve_batched(key, max_usd)
    return budget


async def _join_budget(
    session: Session,
    usd: float,
    name: str,
    stack: contextlib.AsyncExitStack,
) -> Budget:
    """Build a session's part of a shared budget. Closing ``stack`` gives back what is not used."""
    shared = None
    for layer in session.layers:
        shared = shared or layer.shared_budget(name, session.account, usd)
    if shared is None:
        problem = "budget.shared is set, but HARNESS_CACHE_URL is not."
        raise ConfigError(problem, "Set it to the URL of the team's database (harness docs team).")
    stack.push_async_callback(shared.aclose)
    spent = await shared.join()
    reserved = session.reserved(session.account)
    reserved_usd = fsum(reserved.values())
    budget = Budget(
        usd,
        max(0.0, spent.by_run - reserved_usd) + spent.by_others,
        session.stop,
        unsure_usd=max(0.0, spent.unsure - reserved_usd),
        spent_by_others=spent.by_others,
        shared_budget=shared,
        status=session.notices.reporter("budget"),
    )
    for key, max_usd in reserved.items():
        budget.reserve_batched(key, max_usd)
    shared.start(session.notices.reporter(""))
    return budget


def _report_unknown(session: Session) -> None:
    for where, replies in session.unknown_reasons.items():
        for reason, count in replies.items():
            short = to_one_line(reason, 80)
            remedy = ""
            if where == "model" and short == reason:
                remedy = f" To ask again: --retry {reason}."
            session.notices.reporter(f"{where}, finish reason {short!r}")(
                f"not known, and given for {format_count(count, 'answer')}, which count as "
                f"complete: check whether they are.{remedy}"
            )
    for where, answers in session.unknown_marks.items():
        for warning in mark_warnings(answers, where):
            session.notices.reporter(f"{where}, reasoning")(warning)


async def _close_later(later: Sequence[LaterCalls]) -> None:
    for calls in later:
        await calls.aclose()


def _used_calls(folder: RunFolder) -> set[str]:
    if not folder.has_attempts():
        return set()
    from harness.store.calls import read_paid_ids  # NumPy takes 0.2 s to import

    return read_paid_ids(folder.attempts)


async def _close(budget: Budget) -> None:
    with contextlib.suppress(StoreFailed):  # its reservations then count as spent
        await budget.close()


class _Paid(NamedTuple):
    """A run's spending, and the part of it that no recorded call accounts for (US dollars)."""

    usd: float
    unsure: float


class _PaidByRuns:
    """Adds up what runs have paid. A run counts once, and so do the calls that were merged into it.

    The payment records include failed calls that may be billed, and amounts reserved by sessions
    that were killed. But the cache may have been deleted, and the budget may have been set later.
    Missing calls are therefore taken from the attempts and judgements, and a run's maximum cost
    from its folder.
    """

    def __init__(
        self, session: Session, replies: ReplyCache, folders: Mapping[str, RunFolder | None]
    ) -> None:
        self._session = session
        self._replies = replies
        self._folders = folders  # by account
        self._calls: dict[str, set[bytes]] = {}  # names of the payments that count, by account
        self._usd: dict[str, float] = {}

    async def add(self, account: str) -> _Paid:
        """Return what a run, and the shards that were merged into it, have paid, once.

        The calls of the session's own run that a new cache lacks are saved in it, and still count
        if the folder is deleted later. What another run has reserved for calls that are made later
        is included.
        """
        from harness.store.calls import read_payments  # NumPy takes 0.2 s to import

        if account in self._calls:
            return _Paid(0.0, 0.0)
        self._calls[account] = set()
        folder = self._folders.get(account)
        manifest = {} if folder is None else folder.read_manifest()
        merged = [budget_account(run_id) for run_id in manifest.get("merged_ids", ())]
        amounts = [await self.add(shard) for shard in merged]
        in_shards = set[bytes]().union(*(self._calls[shard] for shard in merged))
        booked = self._replies.payments_of(account)
        recorded: dict[bytes, float] = {}
        if folder is not None:
            payments = read_payments(folder.attempts)
            recorded = {key: usd for key, usd in payments.items() if key not in in_shards}
        unsure = fsum(usd for key, usd in booked.items() if key not in recorded)
        spent = fsum(booked.get(key, usd) for key, usd in recorded.items()) + unsure
        is_own = account == self._session.account
        if is_own:
            rows = [
                payment_row(key.hex(), Payment(account, usd))
                for key, usd in recorded.items()
                if usd and key not in booked
            ]
            if rows:
                await self._replies.write(Write((), rows))
        spending = Spending() if folder is None else folder.read_spending()
        lost = spending.usd - spent - fsum(self._usd.get(shard, 0.0) for shard in merged)
        if lost > 0 and (key := SESSION_PREFIX + spending.session.encode()) not in booked:
            await self._replies.charge(key, Payment(account, lost))
            spent += lost
            unsure += lost
        self._calls[account] = {*booked, *recorded}
        self._usd[account] = spent
        reserved = {} if is_own else self._session.reserved(account)
        return _Paid(
            fsum([spent, *reserved.values(), *(amount.usd for amount in amounts)]),
            fsum([unsure, *(amount.unsure for amount in amounts)]),
        )


T = TypeVar("T")


async def work_off(
    items: Iterator[T], work: Callable[[T], Awaitable[None]], *, workers: int, stop: Stop
) -> None:
    """Process items with concurrent workers.

    A `Stopping` from ``work`` ends that worker. Any other exception requests a stop: the workers
    finish only their current items, and the first exception is then raised.
    """
    first: Exception | None = None

    async def pull() -> None:
        nonlocal first
        try:
            while not stop.requested and (item := next(items, None)) is not None:
                await work(item)
                # A cached or free call never yields to the event loop, but signals, the display
                # and the other workers need their turn.
                await asyncio.sleep(0)
        except Stopping:
            return
        except Exception as error:
            first = first or error
            stop.request()

    async with asyncio.TaskGroup() as group:
        for _ in range(workers):
            group.create_task(pull())
    if first is not None:
        raise first
