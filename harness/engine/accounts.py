"""Which accounts' spending counts for a run's name, a run file and its shards.

An account collects the payments of one run in the reply cache.
"""

from pathlib import Path

from harness.calls.database import NAME_PREFIX, Statement, Write
from harness.calls.reply_cache import Payment, ReplyCache
from harness.records import budget_account
from harness.store.run_folder import FRESH_KEY, RunFolder, new_run_id

# The cache keeps registries of accounts among its payments. A registry is a ``run`` that is not the
# id of a run, and its entries are the keys of payments of 0.

_SELECT_REGISTERED = "SELECT key FROM payments WHERE run = ?"
_FORGET_REPLACED = "DELETE FROM payments WHERE run = ? AND (created < ? OR key = ?)"
INSERT_REGISTERED = "INSERT OR IGNORE INTO payments (run, key, usd, created) VALUES (?, ?, 0.0, ?)"


def name_registry(folder: RunFolder) -> str:
    """Return the registry whose only entry is the account of a run's name.

    A run that was renamed or started with --fresh has another account than its name's first run. If
    its folder is deleted, a new run of the name would otherwise not count what it has spent.
    """
    return f"{NAME_PREFIX}{folder.first_account()}"


def file_registry(root: Path, base: str) -> str:
    """Return the registry of the accounts of a file's runs.

    It includes runs of variants that the file no longer has, and deleted runs.
    """
    return f"{NAME_PREFIX}file {RunFolder(root, base).first_account()}"


def shards_registry(root: Path, file: str) -> str:
    """Return the registry of the base names of a file's shards."""
    return f"{NAME_PREFIX}shards {RunFolder(root, file).first_account()}"


def registered_keys(replies: ReplyCache, registry: str) -> list[str]:
    """Return the accounts or names in a registry, sorted."""
    return sorted(key.decode() for (key,) in replies.read(_SELECT_REGISTERED, [registry]))


async def adopt_account(replies: ReplyCache, folder: RunFolder, run_id: str, base: str) -> str:
    """Return a run's id: if it is new, with the account of the last run that had its name.

    The account of an existing run is registered as that of its name. If the run was started with
    --fresh, the accounts of the runs that it replaces no longer count for the run file.

    Args:
        replies: The reply cache.
        folder: The run's folder.
        run_id: The run's id so far.
        base: Base name of the run file's runs, or "" if the run has no file.
    """
    registry = name_registry(folder)
    rows = replies.read(_SELECT_REGISTERED, [registry])
    recorded = rows[0][0].decode() if rows else folder.first_account()
    account = budget_account(run_id)
    if recorded == account:
        return run_id
    manifest = folder.read_manifest()
    if not manifest:
        return new_run_id(recorded)
    statements: list[Statement] = [("DELETE FROM payments WHERE run = ?", [registry])]
    if base and FRESH_KEY in manifest:
        root = folder.path.parent
        for replaced_base in (base, *registered_keys(replies, shards_registry(root, base))):
            row = [file_registry(root, replaced_base), manifest[FRESH_KEY], recorded.encode()]
            statements.append((_FORGET_REPLACED, row))
    await replies.write(Write((), (), statements))
    await replies.charge(account, Payment(registry, 0.0))
    return run_id
