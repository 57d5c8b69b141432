"""Accounts in the reply cache: whose spending counts for a name, a run file and its shards."""

from pathlib import Path

from harness.calls.database import NAME_PREFIX, Statement, Write
from harness.calls.reply_cache import Payment, ReplyCache
from harness.records import budget_account
from harness.store.run_folder import FRESH_KEY, RunFolder, new_run_id

# Of `name_row` or `shards_row`, or several of `file_row`
_ACCOUNT = "SELECT key FROM payments WHERE run = ?"
_REPLACED = "DELETE FROM payments WHERE run = ? AND (created < ? OR key = ?)"  # of `file_row`
SHARER = "INSERT OR IGNORE INTO payments (run, key, usd, created) VALUES (?, ?, 0.0, ?)"


def name_row(folder: RunFolder) -> str:
    """Return the ``run`` of the payment (of nothing) whose key is the account of a run's name.

    A run that was renamed or started with --fresh has another account than its name's first run. If
    its folder is deleted, a new run of the name would otherwise not count what it has spent.
    """
    return f"{NAME_PREFIX}{folder.first_account()}"


def file_row(root: Path, base: str) -> str:
    """Return the ``run`` of the payments (of nothing) whose keys are accounts of a file's runs.

    The runs of variants that the file no longer has are among them, even if they are deleted.
    """
    return f"{NAME_PREFIX}file {RunFolder(root, base).first_account()}"


def shards_row(root: Path, file: str) -> str:
    """Return the ``run`` of the payments (of nothing) whose keys are names of a file's shards."""
    return f"{NAME_PREFIX}shards {RunFolder(root, file).first_account()}"


def recorded_names(replies: ReplyCache, row: str) -> list[str]:
    """Return the accounts or names that a row such as `file_row` has as keys, sorted."""
    return sorted(key.decode() for (key,) in replies.read(_ACCOUNT, [row]))


async def follow_account(replies: ReplyCache, folder: RunFolder, run_id: str, base: str) -> str:
    """Return a run's id: if it is new, with the account of the last run that had its name.

    Otherwise, record that its account is that of its name. If it was started with --fresh, the
    accounts of the runs that it replaces no longer count for the file ``base``.
    """
    name = name_row(folder)
    rows = replies.read(_ACCOUNT, [name])
    recorded = rows[0][0].decode() if rows else folder.first_account()
    account = budget_account(run_id)
    if recorded == account:
        return run_id
    manifest = folder.read_manifest()
    if not manifest:
        return new_run_id(recorded)
    forget: list[Statement] = [("DELETE FROM payments WHERE run = ?", [name])]
    if base and FRESH_KEY in manifest:
        root = folder.path.parent
        for replaced in (base, *recorded_names(replies, shards_row(root, base))):
            row = file_row(root, replaced)
            forget.append((_REPLACED, [row, manifest[FRESH_KEY], recorded.encode()]))
    await replies.write(Write((), (), forget))
    await replies.charge(account, Payment(name, 0.0))
    return run_id
