"""A session of paid work (for a run, a later judge or a data-set build): its budget and workers."""

import asyncio
import contextlib
import gc
import logging
import time
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from math import fsum
from pathlib import Path
from typing import Literal, TypeVar
from uuid import uuid4

import msgspec

from harness.calls.backend_layers import ModelAnswers
from harness.calls.budget import Budget
from harness.calls.calls import Calls, Unused
from harness.calls.concurrency import ConcurrencyLimiter
from harness.calls.database import NAME, SESSION, Statement, Write
from harness.calls.reply_cache import Payment, ReplyCache, encoded, payment_row
from harness.calls.signals import Notices, Report, Stop, Stopping
from harness.config.settings import Settings
from harness.engine.infrastructure import CallLayer, LaterCalls, call_layers
from harness.engine.models import Model, apply_limits
from harness.engine.reasoning import mark_warnings
from harness.errors import ConfigError, HarnessError, StoreFailed
from harness.records import REFUSALS, SCHEMA_VERSION, Attempt, Reply, Request, account_of
from harness.store.files import make_folder
from harness.store.json_lines import lines
from harness.store.run_folder import FRESH, RunFolder, Spending, new_run_id
from harness.store.runs import all_runs, base_name, runs_of_file
from harness.wording import count_of, one_line

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
    unused: Unused | None = None  # None: no backend is cacheable
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
        return account_of(self.run_id)

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
        return "budget" if self.budget is not None and self.budget.ended else "interrupted"


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
) -> AsyncIterator[Session]:
    """Lock a run, and yield a session with its cache and budget.

    The run is that of ``folder`` or, if the caller already holds a lock, that with the id
    ``run_id``. ``usd`` is the budget in US dollars (None: no cap). ``shared`` names a budget that
    runs on several machines share. Otherwise, the runs of all variants that the file with the name
    ``base`` has had share it ("": only this run). ``listed`` are the names of its present runs.
    """
    first = folder is not None and not folder.begun()
    session = Session(run_id, Stop(), Notices(), first=first)
    status = session.notices.status
    async with contextlib.AsyncExitStack() as stack:
        if folder is not None:
            stack.enter_context(folder.hold())
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
            replies.check_room()
            if folder is not None:
                session.run_id = await _follow_account(replies, folder, session.run_id, base)
            used = None if folder is None else partial(_used_calls, folder)
            session.replies = replies
            session.unused = Unused(replies, session.run_id, used)
            if usd is not None:
                if shared is None:
                    sharers = await _sharers(session, replies, folder, base, listed)
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


_ACCOUNT = "SELECT key FROM payments WHERE run = ?"  # of `_name_row`, or several of `_file_row`
_REPLACED = "DELETE FROM payments WHERE run = ? AND (created < ? OR key = ?)"  # of `_file_row`
_SHARER = "INSERT OR IGNORE INTO payments (run, key, usd, created) VALUES (?, ?, 0.0, ?)"


def _name_row(folder: RunFolder) -> str:
    """Return the ``run`` of the payment (of nothing) whose key is the account of a run's name.

    A run that was renamed or started with --fresh has another account than its name's first run. If
    its folder is deleted, a new run of the name would otherwise not count what it has spent.
    """
    return f"{NAME}{folder.first_account()}"


def _file_row(root: Path, base: str) -> str:
    """Return the ``run`` of the payments (of nothing) whose keys are accounts of a file's runs.

    The runs of variants that the file no longer has are among them, even if they are deleted.
    """
    return f"{NAME}file {RunFolder(root, base).first_account()}"


async def _follow_account(replies: ReplyCache, folder: RunFolder, run_id: str, base: str) -> str:
    """Return a run's id: if it is new, with the account of the last run that had its name.

    Otherwise, record that its account is that of its name. If it was started with --fresh, the
    accounts of the runs that it replaces no longer count for the file ``base``.
    """
    name = _name_row(folder)
    rows = replies.read(_ACCOUNT, [name])
    recorded = rows[0][0].decode() if rows else folder.first_account()
    account = account_of(run_id)
    if recorded == account:
        return run_id
    manifest = folder.read_manifest()
    if not manifest:
        return new_run_id(recorded)
    forget: list[Statement] = [("DELETE FROM payments WHERE run = ?", [name])]
    if base and FRESH in manifest:
        replaced = [_file_row(folder.path.parent, base), manifest[FRESH], recorded.encode()]
        forget.append((_REPLACED, replaced))
    await replies.write(Write((), (), forget))
    await replies.charge(account, Payment(name, 0.0))
    return run_id


def keep_account(folder: RunFolder, settings: Settings) -> None:
    """Record that a run's account is that of its name, so that it outlives the folder."""
    path = replies_path(settings)
    if not (folder.spending.exists() and path.exists()):
        return
    try:
        run_id = folder.run_id()
    except StoreFailed:  # a damaged run can be deleted, too
        return

    async def keep() -> None:
        restore = partial(recorded_replies, settings.runs_dir)
        with ReplyCache(path, notice=logger.warning, restore=restore) as replies:
            await _follow_account(replies, folder, run_id, base_name(folder))

    asyncio.run(keep())


async def _sharers(
    session: Session,
    replies: ReplyCache,
    folder: RunFolder | None,
    base: str,
    listed: Sequence[str],
) -> list[tuple[str, RunFolder | None]]:
    """Return the accounts of the other runs that share a budget, with their folders.

    They are those ``listed``, all existing runs of the file ``base``, and all recorded ones, which
    may be deleted or renamed. The existing ones are recorded.
    """
    if folder is None or not base:
        return []
    root = folder.path.parent
    runs = {name: RunFolder(root, name) for name in listed}
    runs |= {run.name: run for run in runs_of_file(root, base).values()}
    runs.pop(folder.name, None)
    sharers: list[tuple[str, RunFolder | None]] = []
    for run in runs.values():
        sharers.append((account_of(run.run_id()), run))
    file = _file_row(root, base)
    recorded = {key.decode() for (key,) in replies.read(_ACCOUNT, [file])}
    existing = {session.account, *(account for account, _ in sharers)}
    for account in sorted(recorded - existing):
        sharers.append((account, None))
    rows = [[file, account.encode(), time.time()] for account in existing - recorded]
    if rows:
        await replies.write(Write((), (), [(_SHARER, row) for row in rows]))
    return sharers


async def _open_budget(
    session: Session,
    replies: ReplyCache,
    usd: float,
    folder: RunFolder | None,
    sharers: Sequence[tuple[str, RunFolder | None]],
) -> Budget:
    """Build a session's budget, counting what the runs that share it have paid."""
    account = session.account
    payer = uuid4().hex
    spent, unsure = await _paid(folder, replies, account, save=True)
    if folder is not None and spent > folder.read_spending().usd:
        # What a deleted run of this name has spent is otherwise known to the cache alone.
        await asyncio.to_thread(folder.write_spending, payer, spent)
    spent_by_others = 0.0
    unsure_of_others = 0.0
    for sharer, run in sharers:
        run_spent, run_unsure = await _paid(run, replies, sharer)
        reserved = session.reserved(sharer).values()
        spent_by_others = fsum([spent_by_others, run_spent, *reserved])
        unsure_of_others += run_unsure

    async def record(more: float, max_usd: float) -> None:
        # A killed run's calls in flight then count as paid, even if the cache or the folder is
        # deleted.
        await replies.charge(SESSION + payer.encode(), Payment(account, more))
        if folder is not None:
            await asyncio.to_thread(folder.write_spending, payer, max_usd)

    budget = Budget(
        usd,
        spent + spent_by_others,
        session.stop,
        unsure=unsure + unsure_of_others,
        shared=spent_by_others,
        record=record,
        status=session.notices.status("budget"),
    )
    for key, max_usd in session.reserved(account).items():
        budget.hold(key, max_usd)
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
        unsure=max(0.0, spent.unsure - reserved_usd),
        shared=spent.by_others,
        sharing=shared,
        status=session.notices.status("budget"),
    )
    for key, max_usd in reserved.items():
        budget.hold(key, max_usd)
    shared.start(session.notices.status(""))
    return budget


def _report_unknown(session: Session) -> None:
    for where, replies in session.unknown_reasons.items():
        for reason, count in replies.items():
            short = one_line(reason, 80)
            remedy = ""
            if where == "model" and short == reason:
                remedy = f" To ask again: --retry {reason}."
            session.notices.status(f"{where}, finish reason {short!r}")(
                f"not known, and given for {count_of(count, 'answer')}, which count as "
                f"complete: check whether they are.{remedy}"
            )
    for where, answers in session.unknown_marks.items():
        for warning in mark_warnings(answers, where):
            session.notices.status(f"{where}, reasoning")(warning)


async def _close_later(later: Sequence[LaterCalls]) -> None:
    for calls in later:
        await calls.aclose()


def _used_calls(folder: RunFolder) -> set[str]:
    if not folder.begun():
        return set()
    from harness.store.calls import read_paid  # NumPy takes 0.2 s to import

    return read_paid(folder.attempts)


async def _close(budget: Budget) -> None:
    with contextlib.suppress(StoreFailed):  # its reservations then count as spent
        await budget.close()


async def _paid(
    folder: RunFolder | None, replies: ReplyCache, account: str, *, save: bool = False
) -> tuple[float, float]:
    """Return a run's spending, and the part of it that no recorded call accounts for (US dollars).

    The payment records include failed calls that may be billed, and amounts reserved by sessions
    that were killed. But the cache may have been deleted, and the budget may have been set later.
    Missing calls are therefore taken from the attempts and judgements, and the run's maximum cost
    from its folder. With ``save``, the calls that a new cache lacks are saved in it, and still
    count if the folder is deleted later. Only the run's own session may do so.
    """
    from harness.store.calls import read_payments  # NumPy takes 0.2 s to import

    booked = replies.booked(account)
    recorded = {} if folder is None else read_payments(folder.attempts)
    unsure = fsum(usd for key, usd in booked.items() if key not in recorded)
    spent = fsum(booked.get(key, usd) for key, usd in recorded.items()) + unsure
    if save:
        rows = [
            payment_row(key.hex(), Payment(account, usd))
            for key, usd in recorded.items()
            if usd and key not in booked
        ]
        if rows:
            await replies.write(Write((), rows))
    spending = Spending() if folder is None else folder.read_spending()
    lost = spending.usd - spent
    if lost > 0 and (key := SESSION + spending.session.encode()) not in booked:
        await replies.charge(key, Payment(account, lost))
        spent += lost
        unsure += lost
    return spent, unsure


def replies_path(settings: Settings) -> Path:
    """Return the path of the reply cache, which all runs share."""
    return settings.cache_dir / "replies.sqlite"


def open_cache(settings: Settings, notice: Report = lambda _: None) -> ReplyCache:
    """Open the reply cache, which may be a plug-in's. ``notice`` receives warnings."""
    with contextlib.suppress(OSError):  # opening the cache reports why
        make_folder(settings.cache_dir)
    restore = partial(recorded_replies, settings.runs_dir)
    path = replies_path(settings)
    for layer in call_layers(settings):
        if (replies := layer.open_cache(path, notice, restore)) is not None:
            return replies
    return ReplyCache(path, notice=notice, restore=restore)


def recorded_replies(runs_dir: Path) -> Iterator[tuple[bytes, bytes, str, str, float]]:
    """Yield the replies in all runs' attempts, as rows for a new cache.

    A row holds the call's key, encoded reply, backend, model and Unix time. Replies with
    log-probabilities are skipped, because attempts do not record these.
    """
    decoder = msgspec.json.Decoder(Attempt)
    for folder in all_runs(runs_dir):
        try:
            backend = folder.read_config().model.backend
            for _, text in lines(folder.attempts):
                try:
                    attempt = decoder.decode(text)
                    key = bytes.fromhex(attempt.call_id or "")
                except (msgspec.MsgspecError, ValueError):
                    continue
                model = attempt.request.get("model")
                if (reply := _reply(attempt)) and len(key) == 16 and isinstance(model, str):
                    yield key, encoded(reply), backend, model, attempt.ended_at
        except HarnessError:  # skip a folder that cannot be read
            continue


def _reply(attempt: Attempt) -> Reply | None:
    text = attempt.text
    reason = attempt.finish_reason
    if attempt.v != SCHEMA_VERSION or text is None or reason is None:
        return None
    decoding = attempt.request.get("decoding")
    if not isinstance(decoding, dict) or decoding.keys() & {"logprobs", "prompt_logprobs"}:
        return None
    if not text.strip() and reason not in REFUSALS:  # empty replies are never cached
        return None
    return Reply(
        text,
        reason,
        attempt.usage,
        attempt.answered_by or None,
        latency_s=attempt.latency_s or 0.0,
        reasoning=attempt.reasoning,
        reasoning_state=attempt.reasoning_state or None,
        cost_usd=attempt.cost_usd,
    )


T = TypeVar("T")

OBJECTS_BETWEEN_COLLECTIONS = 50_000


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


@contextlib.contextmanager
def rare_collections() -> Iterator[None]:
    """Collect cyclic garbage less often within a ``with`` block.

    With Python's default threshold, nearly all collections found nothing, but took a third of a
    run's CPU time. Objects that exist already are not examined, which would take 0.1 s.
    """
    before = gc.get_threshold()
    is_frozen = gc.get_freeze_count() > 0
    if before[0]:  # 0 means never
        gc.set_threshold(max(before[0], OBJECTS_BETWEEN_COLLECTIONS), *before[1:])
    if not is_frozen:
        gc.freeze()
    try:
        yield
    finally:
        gc.set_threshold(*before)
        if not is_frozen:
            gc.unfreeze()
