"""Detects lines that a run's files have lost since its last session.

The manifest has the number of finished samples and the states of the files at the session's end
(`harness.store.file_states`).
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Collection, Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from harness.errors import HarnessError, RunConflict, StoreFailed, option
from harness.records import OUTCOMES
from harness.store.file_states import (
    APPENDED_FILES,
    ATTEMPTS,
    JUDGED_REFERENCES,
    JUDGEMENTS,
    MANIFEST,
    PROTECTED_FILES,
    REDRAWS_KEY,
    RESCORING_KEY,
    FileState,
    count_copied_lines,
    find_changed_file,
    incomplete_files,
    recorded_states,
    remove_copied_lines,
)
from harness.store.files import write_json
from harness.store.json_lines import read_json
from harness.store.judgements import added_judges, read_register, run_file_judges
from harness.store.run_folder import (
    CONFIG,
    FRESH_KEY,
    JUDGES,
    LABELS,
    MERGED_KEY,
    MERGED_UNTIL_KEY,
    PLACE_KEY,
    REFERENCES,
    SYNC_STATE,
    RunFolder,
    missing_config_problem,
    new_run_id,
)
from harness.wording import format_count

if TYPE_CHECKING:
    from harness.store.columns import AttemptTable  # NumPy takes 0.2 s to import

_RUN_AGAIN = "run the run file again: the paid replies are in the cache."
_RESTORE_OR_RUN = f"Restore the file. Or delete it, and {_RUN_AGAIN}"

logger = logging.getLogger("harness")


class Loss(NamedTuple):
    """Lines that a run has lost, with a message and a remedy for the user."""

    n_samples: int  # a lower bound
    message: str
    remedy: str


def is_unchanged(folder: RunFolder, manifest: dict[str, Any]) -> bool:
    """Return whether the files on which metrics depend are unchanged since the last session.

    If an earlier version wrote the manifest, the attempts must be older than the session's end.
    """
    states = recorded_states(manifest)
    if incomplete_files(manifest):
        return False
    if ATTEMPTS in states:
        in_labels = f"{LABELS}/"
        return all(
            state.matches(folder.path / name)
            for name, state in states.items()
            if not name.startswith(in_labels)
        )
    if not folder.attempts.exists():
        return False
    status = folder.attempts.stat()
    return status.st_size > 0 and status.st_mtime_ns <= (manifest.get("ended_at") or 0.0) * 1e9


def check_settings(folder: Path) -> None:
    """Check that the files which say what a run's attempts mean are unchanged.

    Raises:
        StoreFailed: If ``config.yaml``, ``judges.json`` or a similar file is not as the harness
            wrote it, or if the folder and that of another run were exchanged.
    """
    check_not_exchanged(folder)
    if (folder / MANIFEST).exists() and not (folder / CONFIG).exists():
        raise StoreFailed(*missing_config_problem(folder / CONFIG))
    if name := find_changed_file(folder, PROTECTED_FILES):
        problem = f"{folder / name} was changed: what the run's figures stand for is unknown."
        remedy = "Run the run file again to restore it"
        if name == CONFIG:
            remedy = "Restore the file"
        elif name in JUDGED_REFERENCES:
            remedy = f"Delete {folder / REFERENCES}, and judge the references again at no cost"
        elif name == JUDGES and (lost_settings := _lost_settings_problem(folder)):
            raise StoreFailed(*lost_settings)
        raise StoreFailed(problem, f"{remedy}. Or start a new run: {option('fresh')}.")


class _RunIdentity(msgspec.Struct):
    run: str = ""
    id: str = ""


def _read_identity(folder: Path) -> _RunIdentity:
    with contextlib.suppress(HarnessError):  # other readers report what is damaged
        return read_json(folder / MANIFEST, _RunIdentity, "Restore it.")
    return _RunIdentity()


def check_not_exchanged(folder: Path) -> None:
    """Check that a run's folder was not exchanged with another one.

    A folder that was merely renamed or copied is accepted (see `warn_of_renamed_folders`).

    Raises:
        StoreFailed: If the folder holds another run, whose original folder holds yet another one.
    """
    recorded_run = _read_identity(folder).run
    if recorded_run and _is_exchanged(folder, recorded_run):
        original = folder.with_name(recorded_run)
        raise StoreFailed(
            f"{folder} holds the run {recorded_run!r}, whose folder {original} holds the run "
            f"{_read_identity(original).run!r}: folders were exchanged.",
            "Rename them back. To rename a run: harness mv.",
        )


def _is_exchanged(folder: Path, recorded_run: str) -> bool:
    return (
        recorded_run != folder.name
        and Path(recorded_run).name == recorded_run
        and _read_identity(folder.with_name(recorded_run)).run not in ("", recorded_run)
    )


def warn_of_renamed_folders(folders: Iterable[RunFolder]) -> None:
    """Warn of folders that were renamed or copied without the harness, and name their runs."""
    for folder in folders:
        recorded_run = _read_identity(folder.path).run
        if recorded_run in ("", folder.name) or _is_exchanged(folder.path, recorded_run):
            continue
        change = "is a copy of" if _original_name(folder.path) else "was renamed from"
        _warn_once(f"The folder {folder.name} {change} the run {recorded_run!r:.80}.")


def _original_name(folder: Path) -> str:
    """Return the name of the run of which a folder is a copy, or "" if it is none."""
    manifest = _read_identity(folder)
    original = manifest.run
    if original in ("", folder.name) or Path(original).name != original:
        return ""
    return original if _read_identity(folder.with_name(original)).id == manifest.id else ""


def separate_copy(folder: RunFolder) -> None:
    """Give a locked folder that is a copy of an existing run its own id.

    Otherwise, what one of them pays for later would also count for the other. What the run had paid
    for when it was copied counts for both.
    """
    original = _original_name(folder.path)
    manifest = folder.read_manifest()
    if not (original and manifest.get("id")):
        return
    run_id = str(manifest["id"])
    until = dict(manifest.get(MERGED_UNTIL_KEY, {}))
    states = recorded_states(manifest).values()
    if folder.count_unfinished(manifest) is not None and not any(state.grows for state in states):
        written = [state.modified_ns / 1e9 for state in states]
        until[run_id] = max([manifest.get("ended_at") or 0.0, *written])
    manifest |= {
        "id": new_run_id(folder.first_account()),
        "run": folder.name,
        MERGED_KEY: [*manifest.get(MERGED_KEY, ()), run_id],
        MERGED_UNTIL_KEY: until,
    }
    if manifest.get(PLACE_KEY) == RunFolder(folder.path.parent, original).first_account():
        manifest[PLACE_KEY] = folder.first_account()
    manifest.pop(FRESH_KEY, None)  # the runs with the copy's name are not replaced
    (folder.path / SYNC_STATE).unlink(missing_ok=True)
    write_json(folder.manifest, manifest)


def _lost_settings_problem(folder: Path) -> tuple[str, str] | None:
    """Return the problem and the remedy if a changed ``judges.json`` cannot be restored, or None.

    A session restores the settings of the run file's judges, but not those of added judges.
    """
    if not (later := added_judges(folder)):
        return None
    problem = f"{folder / JUDGES} was changed: the settings of {', '.join(map(repr, later))}, "
    problem += "which judged the run later, are unknown."
    remedy = f"Restore the file. Or delete it and {JUDGEMENTS}, run the run file again, then judge "
    remedy += "again (harness judge): the paid replies are in the cache."
    return problem, remedy


def find_loss(folder: RunFolder, attempts: AttemptTable) -> Loss | None:
    """Return what a run has lost, or None. ``attempts`` are all its attempts.

    During a session, and after a kill, only the lines of earlier sessions are checked.
    """
    manifest = folder.read_manifest()
    if not (manifest or len(attempts)):
        problem = f"{folder.name}: {MANIFEST} is missing, and there are no attempts: they are lost."
        return Loss(1, problem, f"To repeat them, {_RUN_AGAIN}")
    if _was_rescoring_killed(folder, manifest):
        return Loss(1, *_rescoring_problem(folder))
    starts = attempts.sample_starts()
    if n_orphans := int((attempts.round[starts] > 1).sum()):
        lacks = f"lacks the first round of {format_count(n_orphans, 'sample')}: it is lost."
        return Loss(n_orphans, f"{folder.name}: {ATTEMPTS} {lacks}", f"To repeat it, {_RUN_AGAIN}")
    n_unfinished = folder.count_unfinished(manifest)
    if n_unfinished is None:
        return _find_truncation(folder, manifest)
    n_planned = manifest.get("samples")
    if n_planned is None:
        return None
    n_started = int(starts.sum())
    n_lost = n_planned - n_unfinished - n_started
    if n_lost > 0:
        lacks = (
            f"lacks at least {format_count(n_lost, 'finished sample')}: a part of the file is lost."
        )
        return Loss(n_lost, f"{folder.name}: {ATTEMPTS} {lacks}", f"To repeat them, {_RUN_AGAIN}")
    if n_started > n_planned:
        problem = f"{ATTEMPTS} has {format_count(n_started - n_planned, 'sample')} too many"
        return Loss(1, f"{folder.name}: {problem}.", _RESTORE_OR_RUN)
    states = recorded_states(manifest)
    for name in APPENDED_FILES:
        if loss := _find_change(folder, manifest, name, states.get(name)):
            return loss
    if states:
        return None
    if manifest.get("sealed"):  # such a run's files were recorded when its session ended
        problem = f"{folder.name}: manifest.json was changed: it does not describe the run's files."
        return Loss(1, problem, f"Restore it, or start a new run: {option('fresh')}.")
    return _find_lost_judgements(folder, attempts, manifest)


def _find_change(
    folder: RunFolder, manifest: Mapping[str, Any], name: str, state: FileState | None
) -> Loss | None:
    """Return the loss if a file of lines differs from its recorded state, if it has one."""
    path = folder.path / name
    if name in incomplete_files(manifest):
        message = f"{folder.name}: {name} was changed after an earlier session: "
        return Loss(
            1, f"{message}a part of the file is lost.", _repeat_remedy(folder, manifest, name)
        )
    if state is None or state.matches(path):
        return None
    message = f"{folder.name}: {name} was changed after the run's last session: "
    if state.is_truncated(path):
        return Loss(
            1, f"{message}a part of the file is lost.", _repeat_remedy(folder, manifest, name)
        )
    if n_copies := count_copied_lines(path, state):
        message = f"{folder.name}: {name} has {format_count(n_copies, 'line')} twice."
        return Loss(1, message, "To remove the copies, run the run file again.")
    return Loss(1, f"{message}it may have lines of another run.", _RESTORE_OR_RUN)


def _repeat_remedy(folder: RunFolder, manifest: Mapping[str, Any], name: str) -> str:
    """Return how to repeat the lost lines of a file."""
    remedy = f"To repeat it, {_RUN_AGAIN}"
    if name == ATTEMPTS and (retried := retried_outcomes(manifest)):
        retry = option("retry", ",".join(sorted(retried)))
        remedy += " If it stays INCOMPLETE, the cache lacks some: "
        remedy += f"{retry}, or start a new run: {option('fresh')}."
    if name == JUDGEMENTS:
        remedy += " For judges that are not in it: harness judge."
        if manifest.get(REDRAWS_KEY):
            remedy += " If it stays INCOMPLETE, the cache lacks some: harness judge "
            remedy += f"{folder.name} --judge NAME {option('retry', 'unparseable')}."
    return remedy


def needs_rescoring(manifest: Mapping[str, Any], lost: Collection[str]) -> bool:
    """Return whether a run may have scores by two versions of its checks.

    ``lost`` are the names of files that have lost lines, possibly those with the new scores.
    """
    was_rescored = any("rescored" in session for session in manifest.get("sessions", ()))
    return RESCORING_KEY in manifest or (ATTEMPTS in lost and was_rescored)


def retried_outcomes(manifest: Mapping[str, Any]) -> frozenset[str]:
    """Return the outcomes that a run's sessions have retried, except ``error``."""
    sessions = manifest.get("sessions", ())
    retried = (name for session in sessions for name in session.get("retried") or ())
    return frozenset(retried) - {"error"}


def _was_rescoring_killed(folder: RunFolder, manifest: Mapping[str, Any]) -> bool:
    """Return whether a rescoring was killed after it had replaced the attempts."""
    state = recorded_states(manifest).get(ATTEMPTS)
    return RESCORING_KEY in manifest and (state is None or not state.matches(folder.attempts))


def _rescoring_problem(folder: RunFolder) -> tuple[str, str]:
    problem = f"{folder.name}: scoring its answers again was interrupted, so {ATTEMPTS} may have "
    remedy = f"To score all answers again, run the run file with {option('rescore')}."
    return f"{problem}scores by two versions of the checks.", remedy


def _find_truncation(folder: RunFolder, manifest: Mapping[str, Any]) -> Loss | None:
    """Return the loss if a file of lines is shorter than at the end of an earlier session."""
    states = recorded_states(manifest)
    for name in APPENDED_FILES:
        is_cut = name in states and states[name].is_truncated(folder.path / name)
        if is_cut or name in incomplete_files(manifest):
            message = f"{folder.name}: a part of {name} is lost, which an earlier session wrote."
            return Loss(1, message, f"To repeat it, {_RUN_AGAIN}")
    return None


def _find_lost_judgements(
    folder: RunFolder, attempts: AttemptTable, manifest: dict[str, Any]
) -> Loss | None:
    """Return the loss if a finished run of an earlier version has no judgements anymore."""
    outcomes = {OUTCOMES[code] for code in set(attempts.outcome.tolist())}
    is_judged = not outcomes.isdisjoint(read_register(folder.path).judged)
    is_finished = is_judged and manifest.get("owed") == 0 and bool(run_file_judges(folder.path))
    path = folder.path / JUDGEMENTS
    if not is_finished or (path.exists() and path.stat().st_size):
        return None
    message = f"{folder.name}: {JUDGEMENTS} was changed after the run's last session: "
    return Loss(1, f"{message}judgements are lost.", f"To repeat them, {_RUN_AGAIN}")


def check_resumable(folder: RunFolder, *, attempts: bool = False) -> set[str]:
    """Check that a run's files allow it to continue, and remove repeated lines from them.

    Args:
        folder: The locked run.
        attempts: Whether the session repeats lost attempts, in addition to judgements, and
            accepts attempts whose rescoring was interrupted (`needs_rescoring`).

    Returns:
        The names of the files that have lost lines. The session may not repeat all of them.

    Raises:
        RunConflict: If a file may have lines or settings of another run, or was edited, or if
            ``judges.json`` was, and has judges that are not in the run file.
        StoreFailed: If the folder and that of another run were exchanged.
    """
    check_not_exchanged(folder.path)
    manifest = folder.read_manifest()
    if "id" not in manifest and not manifest.get("sessions") and folder.has_attempts():
        problem = f"{folder.manifest} is missing or empty: whose attempts the run has is unknown."
        remedy = f"Restore it, or start a new run: {option('fresh')}. Cached replies cost nothing."
        raise RunConflict(problem, remedy)
    remove_copies(folder)
    has_ended = folder.count_unfinished(manifest) is not None
    states = recorded_states(manifest)
    lost = set(incomplete_files(manifest))
    if ATTEMPTS in lost and not attempts:
        problem = f"{folder.attempts} lacks attempts that an earlier session has not repeated."
        raise RunConflict(problem, f"To repeat them, {_RUN_AGAIN}")
    for name in (CONFIG, *APPENDED_FILES):
        path = folder.path / name
        state = states.get(name)
        if state is None or state.matches(path) or (not has_ended and state.is_prefix_of(path)):
            continue
        if name == ATTEMPTS and RESCORING_KEY in manifest and state.is_prefix_of(path):
            if attempts:
                continue
            raise RunConflict(*_rescoring_problem(folder))
        if state.is_truncated(path) and (name == JUDGEMENTS or (name == ATTEMPTS and attempts)):
            lost.add(name)
            continue
        remedy = _RESTORE_OR_RUN
        if name == CONFIG:
            remedy = f"Restore the file, or start a new run: {option('fresh')}."
        raise RunConflict(f"{path} was changed after the run's last session.", remedy)
    if find_changed_file(folder.path, [JUDGES]):
        lost_settings = _lost_settings_problem(folder.path)
        if lost_settings is not None:
            raise RunConflict(*lost_settings)
    return lost


def remove_copies(folder: RunFolder) -> None:
    """Remove repeated lines from a locked run's append-only files (`APPENDED_FILES`).

    Files with other changes are left as they are.
    """
    for name, state in recorded_states(folder.read_manifest()).items():
        path = folder.path / name
        if name in APPENDED_FILES and (n_copies := remove_copied_lines(path, state)):
            _warn_once(
                f"{path} had {format_count(n_copies, 'line')} twice: the copies were removed."
            )


def warn_of_loss(folder: RunFolder, attempts: AttemptTable) -> Loss | None:
    """Return what a run has lost, as `find_loss`, and warn of it once."""
    loss = find_loss(folder, attempts)
    if loss is not None:
        _warn_once(f"{loss.message} {loss.remedy}")
    return loss


def warn_of_missing(folder: RunFolder, attempts: AttemptTable) -> None:
    """Warn of a run's samples that are lost or unfinished."""
    if warn_of_loss(folder, attempts) or folder.progress()[0]:
        return
    n_planned = folder.read_manifest().get("samples")
    n_started = int(attempts.sample_starts().sum())
    total = "" if n_planned is None else f" of {n_planned:,}"
    _warn_once(f"{folder.name} is unfinished, with {n_started:,}{total} samples begun.")


_warn_once = cache(logger.warning)
