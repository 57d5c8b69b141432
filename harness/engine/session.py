"""A session of paid work (for a run, a later judge or a data-set build): its budget and workers."""

import asyncio
import contextlib
import logging
import time
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from math import fsum, inf
from pathlib import Path
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
from harness.engine.accounts import (
    INSERT_REGISTERED,
    adopt_account,
    file_registry,
    registered_keys,
    shards_registry,
)
from harness.engine.infrastructure import CallLayer, DeferredCalls, call_layers
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
from harness.store.lost_lines import separate_copy
from harness.store.run_folder import FRESH_KEY, MERGED_KEY, RunFolder, Spending
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
    deferred: list[DeferredCalls] = field(default_factory=list)  # the layers above call stacks
    limiters: list[ConcurrencyLimiter] = field(default_factory=list)
    # Answers that begin with an unknown mark, by mark, for each model's key in the run file.
    unknown_marks: dict[str, Counter[str]] = field(default_factory=partial(defaultdict, Counter))
    # Replies with an unknown finish reason, by reason, for each model's key in the run file.
    unknown_reasons: dict[str, Counter[str]] = field(default_factory=partial(defaultdict, Counter))
    # For each model's key in the run file, a function that returns a request that was answered in
    # an earlier session, or None.
    earlier: dict[str, Callable[[], Request | None]] = field(default_factory=dict)
    bound: dict[int, BoundModel] = field(default_factory=dict)  # by the id of the model
    # The runs that were merged into this one, by id: until when what they have paid for counts.
    merged_ids: Mapping[str, float] = field(default_factory=dict)

    @property
    def account(self) -> str:
        """The account to which the run's payments are booked."""
        return budget_account(self.run_id)

    def is_busy(self) -> bool:
        """Return whether any call is in flight or waiting for a limiter (not deferred calls)."""
        return any(limiter.in_flight or limiter.load.waiting for limiter in self.limiters)

    def detach(self) -> None:
        """End the session if all deferred calls are with their providers."""
        if all(layer.is_settled for layer in self.deferred if layer.has_waiting):
            self.stop.request()

    async def has_replies(self, model: Model, requests: Sequence[Request]) -> bool:
        """Return whether the replies to all requests of a model are in the cache."""
        if self.replies is None or not model.backend.cacheable:
            return False
        key_functions = [model.key(self.run_id), *self.merged_key_functions(model)]
        for request in requests:
            for call_key in key_functions:
                if await _has_reply(self.replies, call_key(request)):
                    break
            else:
                return False
        return True

    def merged_key_functions(self, model: Model) -> list[Callable[..., str]]:
        """Return the key function of a model's calls for each run merged into this one."""
        return [model.key(run_id) for run_id in self.merged_ids]

    def unrecorded_calls(self, folder: RunFolder) -> dict[str, UnrecordedCalls]:
        """Return the paid calls of the run whose lines are lost (see `count_unrecorded`)."""
        if self.replies is None:
            return {}
        return count_unrecorded(self.replies, folder, {self.run_id: inf, **self.merged_ids})

    def reserved_usd(self, account: str) -> dict[str, float]:
        """Return the US dollars that an account has reserved for each deferred call, by its key."""
        reserved_usd = dict[str, float]()
        if self.replies is not None:
            for layer in self.layers:
                reserved_usd |= layer.reserved_usd(self.replies, account)
        return reserved_usd

    @property
    def early_ending(self) -> Literal["budget", "interrupted"]:
        """How the session ended, if it left work unfinished."""
        return "budget" if self.budget is not None and self.budget.is_exhausted else "interrupted"


async def _has_reply(replies: ReplyCache, key: str) -> bool:
    reply = await replies.find(key)
    if reply is None and replies.shared is not None:
        reply = await replies.shared.fetch(key)
    return reply is not None


class BudgetTerms(NamedTuple):
    """A session's budget, and the runs that share it.

    Without a ``shared_name``, the runs of all variants and shards that the run file has ever had
    share the budget.
    """

    usd: float | None = None  # None: no budget
    shared_name: str | None = None  # of a budget that runs on several machines share
    file_base: str = ""  # base name of the file's runs; "": only this run has the budget
    run_names: Sequence[str] = ()  # of the file's present runs
    shard: Shard | None = None  # if the run is a shard: its budget is an equal part of the file's

    @property
    def file(self) -> str:
        """The base name of the file's runs without the shard."""
        if self.shard is None:
            return self.file_base
        return self.file_base.removesuffix(shard_base_name("", self.shard))


NO_BUDGET = BudgetTerms()


@contextlib.asynccontextmanager
async def open_session(
    models: Sequence[Model],
    settings: Settings,
    run_id: str = "",
    *,
    folder: RunFolder | None = None,
    budget: BudgetTerms = NO_BUDGET,
) -> AsyncIterator[Session]:
    """Lock a run, and yield a session with its cache and budget.

    Args:
        models: The models to call, which are closed at the end.
        settings: The settings.
        run_id: Id of the run, if there is no ``folder`` and the caller holds a lock.
        folder: Folder of the run to lock.
        budget: The run's budget.
    """
    first = folder is not None and not folder.has_attempts()
    session = Session(run_id, Stop(), Notices(), first=first)
    status = session.notices.reporter
    async with contextlib.AsyncExitStack() as stack:
        if folder is not None:
            stack.enter_context(folder.lock())
            separate_copy(folder)
            session.run_id = folder.run_id()  # only now: it may be a new id
            session.merged_ids = folder.merged_ids()
        session.layers = call_layers(settings)
        for layer in session.layers:
            stack.callback(layer.close)
        for model in {id(model): model for model in models}.values():
            stack.push_async_callback(model.backend.aclose)
            stack.push_async_callback(model.rates.aclose)
            model.rates.report = status(f"{model.section.name}, rate limit")
        cached_models = [model for model in models if model.backend.cacheable]
        if cached_models:
            replies = stack.enter_context(open_cache(settings, status("cache")))
            replies.check_disk_space()
            used_calls = None
            if folder is not None:
                base = budget.file_base
                session.run_id = await adopt_account(replies, folder, session.run_id, base)
                used_calls = partial(_used_calls, folder)
            session.replies = replies
            session.unused = UnusedReplies({session.run_id: inf, **session.merged_ids}, used_calls)
            session.budget = await _open_budget(session, replies, folder, budget, stack)
        if folder is not None:
            prices = {model.where: model.usual_price for model in cached_models}
            folder.write_prices({where: price for where, price in prices.items() if price})
        apply_limits(models)  # only now: an earlier variant may have set other limits
        stack.push_async_callback(_close_deferred, session.deferred)
        stack.callback(_warn_of_unknown, session)
        yield session
    if session.budget is not None and session.budget.broken is not None:
        raise session.budget.broken


async def _open_budget(
    session: Session,
    replies: ReplyCache,
    folder: RunFolder | None,
    terms: BudgetTerms,
    stack: contextlib.AsyncExitStack,
) -> Budget | None:
    """Return the session's budget, which closing ``stack`` closes, or None if it has none."""
    if terms.usd is None:
        return None
    if terms.shared_name is None:
        sharers = await _find_sharers(session, replies, folder, terms)
        budget = await _build_budget(session, replies, terms.usd, folder, sharers)
    else:
        budget = await _join_budget(session, terms.usd, terms.shared_name, stack)
    stack.push_async_callback(_close_budget, budget)
    return budget


def preserve_payments(folder: RunFolder, settings: Settings, *, replies: bool = True) -> int:
    """Record a run's account, payments and replies in the cache, so that they outlive its folder.

    The cache may have been lost or damaged since the run.

    Args:
        folder: The run's folder.
        settings: The settings.
        replies: Whether to save the replies that the cache lacks.

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

    async def save() -> int:
        restore = partial(recorded_replies, settings.runs_dir)
        path = replies_path(settings)
        make_folder(path.parent)
        with ReplyCache(path, notify=logger.warning, restore=restore) as cache:
            if folder.spending.exists():
                await adopt_account(cache, folder, run_id, base_name(folder))
            session = Session(run_id, Stop(), Notices())
            with contextlib.suppress(DataInvalid):
                payments = _RunPayments(session, cache, {session.account: folder})
                await payments.count(session.account)
            return await save_replies(cache, folder, call_ids) if call_ids else 0

    return asyncio.run(save())


class _BudgetSharers(NamedTuple):
    """The other runs that share a budget: their folders (None: deleted), by account."""

    same_shard: Mapping[str, RunFolder | None] = MappingProxyType({})  # or of the undivided file
    other_shards: Mapping[str, RunFolder | None] = MappingProxyType({})
    n_shards: int = 1  # into how many shards the budget is divided


async def _find_sharers(
    session: Session, replies: ReplyCache, folder: RunFolder | None, terms: BudgetTerms
) -> _BudgetSharers:
    """Find the other runs that share a budget, and record those that exist.

    They are the present runs of the file, all existing runs of the file and of its shards, and all
    recorded ones, which may be deleted or renamed.
    """
    if folder is None or not terms.file_base:
        return _BudgetSharers()
    root = folder.path.parent
    runs_by_base = _existing_runs(root, terms)
    shards_key = shards_registry(root, terms.file)
    recorded_shards = registered_keys(replies, shards_key)
    now = time.time()
    new_rows: list[list[object]] = []
    for base in runs_by_base.keys() - {terms.file, *recorded_shards}:
        new_rows.append([shards_key, base.encode(), now])
    same_shard: dict[str, RunFolder | None] = {}
    other_shards: dict[str, RunFolder | None] = {}
    for base in dict.fromkeys((*runs_by_base, *recorded_shards)):
        is_same_shard = base == terms.file_base
        registry = file_registry(root, base)
        recorded = registered_keys(replies, registry)
        existing: dict[str, RunFolder] = {}
        for run in runs_by_base.get(base, {}).values():
            if run.name != folder.name:
                existing[budget_account(run.run_id())] = run
        accounts = same_shard if is_same_shard else other_shards
        accounts |= dict.fromkeys(recorded) | existing
        session_accounts = {session.account} if is_same_shard else set()
        for account in {*session_accounts, *existing}.difference(recorded):
            new_rows.append([registry, account.encode(), now])
    if new_rows:
        await replies.write(Write((), (), [(INSERT_REGISTERED, row) for row in new_rows]))
    for accounts in (same_shard, other_shards):
        accounts.pop(session.account, None)
    for account in same_shard:
        other_shards.pop(account, None)
    n_shards = 1 if terms.shard is None else terms.shard.n_shards
    return _BudgetSharers(same_shard, other_shards, n_shards)


def _existing_runs(root: Path, terms: BudgetTerms) -> dict[str, dict[str, RunFolder]]:
    """Return the existing runs of a file and of its shards, by base name and variant or name.

    Shards that were last worked on before the file was started with --fresh are omitted.
    """
    file = terms.file
    base = terms.file_base
    by_base = {file: runs_of_file(root, file), base: runs_of_file(root, base)}
    by_base[base] |= {name: RunFolder(root, name) for name in terms.run_names}
    fresh_starts = [run.read_manifest().get(FRESH_KEY) or 0.0 for run in by_base[file].values()]
    latest_fresh_start = max(fresh_starts, default=0.0)
    for shard_name, runs in runs_of_shards(root, file).items():
        if shard_name == base:
            continue
        for run in runs:
            if latest_session_start(run.read_manifest()) >= latest_fresh_start:
                by_base.setdefault(shard_name, {})[run.name] = run
    return by_base


async def _build_budget(
    session: Session,
    replies: ReplyCache,
    usd: float,
    folder: RunFolder | None,
    sharers: _BudgetSharers,
) -> Budget:
    """Build a session's budget, counting what the runs that share it have paid.

    A shard's budget is a part of the file's, which is smaller if the other runs of the file have
    spent more than the other parts.
    """
    account = session.account
    payer = uuid4().hex
    folders = {**sharers.other_shards, **sharers.same_shard, account: folder}
    payments = _RunPayments(session, replies, folders)
    run_paid = await payments.count(account)
    if folder is not None and run_paid.usd > folder.read_spending().usd:
        # What a deleted run of this name has spent is otherwise known to the cache alone.
        await asyncio.to_thread(folder.write_spending, payer, run_paid.usd)
    same_shard = [await payments.count(sharer) for sharer in sharers.same_shard]
    other_shards = [await payments.count(sharer) for sharer in sharers.other_shards]
    spent_by_others = fsum(paid.usd for paid in same_shard)
    total = fsum([spent_by_others, *(paid.usd for paid in other_shards)])
    spent_by_others = max(spent_by_others, total - usd * (sharers.n_shards - 1))
    unsure = fsum(paid.unsure for paid in (run_paid, *same_shard, *other_shards))

    async def record(more: float, max_usd: float) -> None:
        # A killed run's calls in flight then count as paid, even if the cache or the folder is
        # deleted.
        await replies.charge(SESSION_PREFIX + payer.encode(), Payment(account, more))
        if folder is not None:
            await asyncio.to_thread(folder.write_spending, payer, max_usd)

    budget = Budget(
        usd,
        run_paid.usd + spent_by_others,
        session.stop,
        unsure_usd=min(unsure, run_paid.usd + spent_by_others),
        spent_by_others=spent_by_others,
        save=record,
        status=session.notices.reporter("budget"),
    )
    for key, max_usd in session.reserved_usd(account).items():
        budget.reserve_batched(key, max_usd)
    return budget


async def _join_budget(
    session: Session, usd: float, name: str, stack: contextlib.AsyncExitStack
) -> Budget:
    """Build a session's share of the budget ``name``. Closing ``stack`` returns what is unused."""
    shared = None
    for layer in session.layers:
        shared = shared or layer.shared_budget(name, session.account, usd)
    if shared is None:
        problem = "budget.shared is set, but HARNESS_CACHE_URL is not."
        raise ConfigError(problem, "Set it to the URL of the team's database (harness docs team).")
    stack.push_async_callback(shared.aclose)
    spent = await shared.join()
    reserved_by_call = session.reserved_usd(session.account)
    reserved_usd = fsum(reserved_by_call.values())
    budget = Budget(
        usd,
        max(0.0, spent.by_run - reserved_usd) + spent.by_others,
        session.stop,
        unsure_usd=max(0.0, spent.unsure - reserved_usd),
        spent_by_others=spent.by_others,
        shared_budget=shared,
        status=session.notices.reporter("budget"),
    )
    for key, max_usd in reserved_by_call.items():
        budget.reserve_batched(key, max_usd)
    shared.start(session.notices.reporter(""))
    return budget


def _warn_of_unknown(session: Session) -> None:
    """Warn of unknown finish reasons, and of unknown marks at the beginning of answers."""
    for where, counts in session.unknown_reasons.items():
        for reason, count in counts.items():
            short_reason = to_one_line(reason, 80)
            remedy = ""
            if where == "model" and short_reason == reason:
                remedy = f" To ask again: --retry {reason}."
            session.notices.reporter(f"{where}, finish reason {short_reason!r}")(
                f"not known, and given for {format_count(count, 'answer')}, which count as "
                f"complete: check whether they are.{remedy}"
            )
    for where, mark_counts in session.unknown_marks.items():
        for warning in mark_warnings(mark_counts, where):
            session.notices.reporter(f"{where}, reasoning")(warning)


async def _close_deferred(layers: Sequence[DeferredCalls]) -> None:
    for layer in layers:
        await layer.aclose()


def _used_calls(folder: RunFolder) -> set[str]:
    if not folder.has_attempts():
        return set()
    from harness.store.calls import read_paid_ids  # NumPy takes 0.2 s to import

    return read_paid_ids(folder.attempts)


async def _close_budget(budget: Budget) -> None:
    with contextlib.suppress(StoreFailed):  # its reservations then count as spent
        await budget.close()


class _Paid(NamedTuple):
    """What a run has paid, and the part of it that no recorded call accounts for (US dollars)."""

    usd: float
    unsure: float


class _RunPayments:
    """The payments of runs. Each run counts once, and so does each call of a merged run.

    The payment records in the cache include failed calls that may be billed, and amounts reserved
    by sessions that were killed. But the cache may have been deleted, and the budget may have been
    set later. Missing calls are therefore taken from the attempts and judgements, and a run's
    maximum cost from its folder.
    """

    def __init__(
        self, session: Session, replies: ReplyCache, folders: Mapping[str, RunFolder | None]
    ) -> None:
        self._session = session
        self._replies = replies
        self._folders = folders  # by account
        self._keys: dict[str, set[bytes]] = {}  # of the payments counted so far, by account
        self._usd: dict[str, float] = {}  # by account, without the shards merged into the run

    async def count(self, account: str) -> _Paid:
        """Return what a run, and the shards merged into it, have paid, or 0 if counted before.

        The calls of the session's own run that a new cache lacks are saved in it, and still count
        if the folder is deleted later. What another run has reserved for deferred calls is
        included.
        """
        from harness.store.calls import read_payments  # NumPy takes 0.2 s to import

        if account in self._keys:
            return _Paid(0.0, 0.0)
        self._keys[account] = set()
        is_session_run = account == self._session.account
        folder = self._folders.get(account)
        manifest = {} if folder is None else folder.read_manifest()
        shards = [budget_account(run_id) for run_id in manifest.get(MERGED_KEY, ())]
        paid_by_shards = [await self.count(shard) for shard in shards]
        booked = self._replies.payments_of(account)
        recorded: dict[bytes, float] = {}
        if folder is not None:
            counted = set[bytes]().union(*(self._keys[shard] for shard in shards))
            payments = read_payments(folder.attempts)
            recorded = {key: usd for key, usd in payments.items() if key not in counted}
        unsure = fsum(usd for key, usd in booked.items() if key not in recorded)
        spent = fsum(booked.get(key, usd) for key, usd in recorded.items()) + unsure
        if is_session_run:
            rows = [
                payment_row(key.hex(), Payment(account, usd))
                for key, usd in recorded.items()
                if usd and key not in booked
            ]
            if rows:
                await self._replies.write(Write((), rows))
        spending = Spending() if folder is None else folder.read_spending()
        lost = spending.usd - spent - fsum(self._usd.get(shard, 0.0) for shard in shards)
        if lost > 0 and (key := SESSION_PREFIX + spending.session.encode()) not in booked:
            await self._replies.charge(key, Payment(account, lost))
            spent += lost
            unsure += lost
        self._keys[account] = {*booked, *recorded}
        self._usd[account] = spent
        reserved = {} if is_session_run else self._session.reserved_usd(account)
        return _Paid(
            fsum([spent, *reserved.values(), *(paid.usd for paid in paid_by_shards)]),
            fsum([unsure, *(paid.unsure for paid in paid_by_shards)]),
        )


T = TypeVar("T")


async def process_all(
    items: Iterator[T], process: Callable[[T], Awaitable[None]], *, workers: int, stop: Stop
) -> None:
    """Process items with a number of concurrent workers.

    Args:
        items: The items, of which each worker pulls one at a time.
        process: Processes an item. A `Stopping` from it ends its worker. Any other exception
            requests a stop: the workers finish only their current items, and the first exception
            is then raised.
        workers: The number of workers.
        stop: Once requested, no further item is processed.
    """
    first_error: Exception | None = None

    async def pull() -> None:
        nonlocal first_error
        try:
            while not stop.requested and (item := next(items, None)) is not None:
                await process(item)
                # A cached or free call never yields to the event loop, but signals, the display
                # and the other workers need their turn.
                await asyncio.sleep(0)
        except Stopping:
            return
        except Exception as error:
            first_error = first_error or error
            stop.request()

    async with asyncio.TaskGroup() as group:
        for _ in range(workers):
            group.create_task(pull())
    if first_error is not None:
        raise first_error
