"""Compares a run's folder with its copy: which is ahead, and what one of them would lose."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from harness.store.file_states import (
    APPENDED_FILES,
    ATTEMPTS,
    CHUNK_BYTES,
    MANIFEST,
    RESULT_FILES,
    SETTINGS_FILES,
    STATES_KEY,
    FileState,
    recorded_states,
    remove_copied_lines,
)
from harness.store.files import open_regular_file
from harness.store.json_lines import convert_read_errors, read_json
from harness.store.run_folder import REPORT, SCORES, SPENDING
from harness.wording import join_first

STATED = (
    MANIFEST,
    *SETTINGS_FILES,
    *RESULT_FILES,
)  # they belong together: the manifest has their states
WRITTEN_AGAIN = (*STATED, SCORES, SPENDING, REPORT)  # losing these files loses no paid work


class _Session(msgspec.Struct):
    started_at: float | None = None


class _Manifest(msgspec.Struct):
    id: str = ""
    sessions: list[_Session] = []
    files: dict[str, dict[str, Any]] = {}


class Sides(NamedTuple):
    """The comparison of a run's folder with its copy."""

    is_ahead: bool  # whether the folder has all that the copy has, and more
    conflict: str  # what the folder has and the copy does not, if both have grown, else ""
    # Files that are as the copy's manifest records them, unlike those of the copy.
    intact: frozenset[str] = frozenset()


def compare_sides(folder: Path, copy: Mapping[str, Path], changed_here: Collection[str]) -> Sides:
    """Compare a run's folder with files of its copy.

    Args:
        folder: The run's folder.
        copy: Downloaded files by name, at least those that were changed on the object store. A file
            of `STATED` or `APPENDED_FILES` is also among them if it was changed in the folder.
        changed_here: The files that were changed in the folder since its last synchronisation.
    """
    intact, damaged = _damages(folder, copy)
    longer = list[str]()
    shorter = list[str]()
    differing = list[str]()
    for name, path in copy.items():
        here = folder / name
        if not here.exists():
            continue
        if Path(name).name in APPENDED_FILES:
            if not _begin_alike(here, path):
                if name not in intact:
                    differing.append(name)
            elif here.stat().st_size > path.stat().st_size:
                longer.append(name)
            elif here.stat().st_size < path.stat().st_size:
                shorter.append(name)
        elif name in changed_here and name not in WRITTEN_AGAIN and not is_same(here, path):
            differing.append(name)
    manifest = _manifest(folder / MANIFEST)
    copied_manifest = _manifest(copy.get(MANIFEST))
    if manifest.id and copied_manifest.id and manifest.id != copied_manifest.id:
        attempts = folder / ATTEMPTS
        has_attempts = attempts.exists() and attempts.stat().st_size > 0
        return Sides(False, "is of another run" if has_attempts else "")
    if longer and shorter:
        differing += longer
    more_sessions = (
        not shorter and MANIFEST in copy and len(manifest.sessions) > len(copied_manifest.sessions)
    )
    is_ahead = bool(longer) or more_sessions
    # The folder's settings are not replaced if it is ahead.
    differing += [name for name in damaged if not (is_ahead and name in STATED)]
    if differing:
        return Sides(False, f"has other versions of {join_first(sorted(set(differing)), 3)}")
    return Sides(is_ahead, "", intact)


def without_copied_lines(folder: Path, copy: Mapping[str, Path]) -> set[str]:
    """Remove lines that downloaded files of a run have twice, and return the files' names."""
    states = _states(copy.get(MANIFEST, folder / MANIFEST))
    return {
        name
        for name, state in states.items()
        if name in APPENDED_FILES and name in copy and remove_copied_lines(copy[name], state)
    }


def _damages(folder: Path, copy: Mapping[str, Path]) -> tuple[frozenset[str], list[str]]:
    """Find files of a copy that are not as its manifest records them, and differ from a folder's.

    Returns:
        Files for which the folder's are right, and files of which neither side may be lost.
    """
    states = _states(copy.get(MANIFEST, folder / MANIFEST))
    is_partial = _is_partial(folder, copy, states)
    intact = set[str]()
    damaged = list[str]()
    for name, path in copy.items():
        here = folder / name
        state = states.get(name)
        if state is None or not here.exists():
            continue
        if _agrees(state, name, path) or is_same(here, path):
            continue
        grows = Path(name).name in APPENDED_FILES
        if _agrees(state, name, here) and (grows or (name in STATED and not is_partial)):
            intact.add(name)
        elif not grows and name not in RESULT_FILES:  # results are computed again
            damaged.append(name)
    return frozenset(intact), damaged


def _is_partial(folder: Path, copy: Mapping[str, Path], states: Mapping[str, FileState]) -> bool:
    """Return whether a copy's manifest may be older than its other files.

    The manifest is uploaded last. Files that were not downloaded are the same in the folder.
    """
    for name in APPENDED_FILES:
        path = copy.get(name, folder / name)
        state = states.get(name)
        if not path.exists() or path.stat().st_size == 0:
            continue
        if state is None or (state.is_prefix_of(path) and not state.matches(path)):
            return True
    return False


def restorable(folder: Path, copy: Mapping[str, Path], missing: Collection[str]) -> set[str]:
    """Return which files that a folder lacks can be those of its copy.

    The folder's manifest must not contradict, which is kept. Results that it does not record may be
    those of an earlier session.
    """
    states = _states(folder / MANIFEST)
    names = set[str]()
    for name in missing:
        state = states.get(name)
        if _agrees(state, name, copy[name]) if state else name not in RESULT_FILES:
            names.add(name)
    return names


def _agrees(state: FileState, name: str, path: Path) -> bool:
    """Return whether the file of a name is as a manifest records it, and has at most grown."""
    return state.is_prefix_of(path) if Path(name).name in APPENDED_FILES else state.matches(path)


def _states(path: Path) -> dict[str, FileState]:
    return recorded_states({STATES_KEY: _manifest(path).files})


def kept_states(
    folder: Path, copy: Mapping[str, Path], changed_here: Collection[str], *, is_ahead: bool
) -> dict[str, dict[str, Any]]:
    """Return states of files such as labels for the manifest of the side that is ahead.

    They are in the other side's manifest, and so are the files.
    """
    if MANIFEST not in copy:
        return {}
    states = _manifest(copy[MANIFEST] if is_ahead else folder / MANIFEST).files
    names = copy.keys() if is_ahead else set(changed_here) - copy.keys()
    return {name: states[name] for name in names if name in states and "/" in name}


def is_same(first: Path, second: Path) -> bool:
    """Return whether two files have the same content."""
    return first.stat().st_size == second.stat().st_size and _begin_alike(first, second)


def _begin_alike(first_path: Path, second_path: Path) -> bool:
    """Return whether one of two files begins with the content of the other."""
    for first, second in zip(_parts(first_path), _parts(second_path), strict=False):
        length = min(len(first), len(second))
        if first[:length] != second[:length]:
            return False
    return True


def _parts(path: Path) -> Iterator[bytes]:
    with convert_read_errors(path), open_regular_file(path) as file:
        while part := file.read(CHUNK_BYTES):
            yield part


def _manifest(path: Path | None) -> _Manifest:
    remedy = "Remove it: the run is then downloaded again."
    return _Manifest() if path is None else read_json(path, _Manifest, remedy)
