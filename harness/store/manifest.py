"""The manifest, which records the inputs and the sessions that produced a run's results."""

import contextlib
import functools
import hashlib
import platform
import re
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from importlib import metadata
from types import MappingProxyType
from typing import Any
from uuid import uuid4

import msgspec

import harness
from harness.config.run_file import RunFile
from harness.records import SCHEMA_VERSION, SCORING_VERSION
from harness.store.file_states import (
    APPENDED_FILES,
    ATTEMPTS,
    INCOMPLETE_KEY,
    RESCORING_KEY,
    RESULT_FILES,
    SETTINGS_FILES,
    STATES_KEY,
    compute_states,
)
from harness.store.files import write_json
from harness.store.run_folder import EXTENDS_KEY, PLACE_KEY, SHARD_KEY, VARIED_KEY, RunFolder


@functools.cache  # reads 25 files: 8 ms
def package_versions() -> Mapping[str, str]:
    """Return the versions of this package and its installed direct dependencies, by name."""
    required = metadata.requires(harness.DISTRIBUTION) or []
    versions = {"harness": harness.__version__}
    for line in required:
        name = re.split(r"[<>=!~\[; ]", line, maxsplit=1)[0]
        with contextlib.suppress(metadata.PackageNotFoundError):
            # Not `metadata.version`, which parses all metadata: 12 ms in total.
            text = metadata.distribution(name).read_text("METADATA") or ""
            versions[name] = text.partition("\nVersion: ")[2].partition("\n")[0]
    return versions


class Manifest:
    """A run's manifest, written when sessions begin and end.

    Args:
        folder: The locked run.
        run: The resolved run file.
        fingerprint: Hashes and versions of the run's inputs, by name.
        simulated: Whether the run's model, its user model or one of its judges is simulated.
        measure: The metric to report first, or None.
        variant: The run's variant, or "".
        variants: All variants of the run file, or () if the runs come from no file.
        extends: Whether later evaluations may add variants.
        varied: The keys of the task in which the variants differ.
        display: Entries that readers need instead of the run's code.
        run_id: The id of a new run, or "" for a random one.
        clock: Returns the current Unix time.

    Attributes:
        finished_before: Number of samples that earlier sessions finished.
    """

    def __init__(
        self,
        folder: RunFolder,
        run: RunFile,
        fingerprint: Mapping[str, str],
        *,
        simulated: bool,
        measure: str | None = None,
        variant: str = "",
        variants: Sequence[str] = (),
        extends: bool = False,
        varied: Sequence[str] = (),
        display: Mapping[str, Any] = MappingProxyType({}),
        run_id: str = "",
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._folder = folder
        self._clock = clock
        self._content = folder.read_manifest()
        self._sessions: list[dict[str, Any]] = self._content.setdefault("sessions", [])
        self.finished_before = (self._content.get("samples") or 0) - (
            folder.count_unfinished() or 0
        )
        self._content.setdefault("sealed", not (self._content.get("id") or folder.has_attempts()))
        self._content.setdefault("id", run_id or uuid4().hex)
        if not (self._sessions or folder.has_attempts()):
            self._content[PLACE_KEY] = folder.first_account()
        self._content.setdefault("scoring", 1 if self._sessions else SCORING_VERSION)
        unhashed_keys = {"folder", "limits", "budget", "measure", "variants", "matrix"}
        config = run.model_dump_json(exclude=unhashed_keys)
        self._content |= {
            "schema_version": SCHEMA_VERSION,
            "run": folder.name,
            "task": run.task.label,
            "model": run.model.name,
            "backend": run.model.backend,
            "simulated": simulated,
            "measure": measure,
            "variant": variant,
            "variants": list(variants),
            EXTENDS_KEY: extends,
            VARIED_KEY: list(varied),
            SHARD_KEY: run.shard,
            "config_sha256": hashlib.sha256(config.encode()).hexdigest(),
            "fingerprint": dict(fingerprint),
            "seed": run.seed,
            "packages": package_versions(),
            "python": platform.python_version(),
            "host": {"name": platform.node(), "platform": platform.platform()},
            **display,
        }

    @property
    def run_id(self) -> str:
        """The run's id, the same in all sessions (see `RunFolder.run_id`)."""
        return str(self._content["id"])

    @property
    def simulated(self) -> bool:
        """Whether the run's model, its user model or one of its judges is simulated."""
        return bool(self._content["simulated"])

    @property
    def scoring(self) -> int:
        """The `SCORING_VERSION` of the run's first session, or of its last rescoring."""
        return int(self._content["scoring"])

    def begin_session(
        self,
        retried: Sequence[str] = ("error",),
        rescored: Mapping[str, int] | None = None,
        lost: Collection[str] = (),
    ) -> None:
        """Record the start of a session.

        Args:
            retried: Outcomes that the session retries.
            rescored: Counts of a rescoring, if there was one.
            lost: Names of files that have lost lines, until `record_incomplete` replaces them.
        """
        session: dict[str, Any] = {
            "started_at": self._clock(),
            "ended_at": None,
            "ended": "killed",
            "retried": list(retried),
        }
        changed_files = [*SETTINGS_FILES, *lost]
        if rescored:
            self._content["scoring"] = SCORING_VERSION
            session["rescored"] = dict(rescored)
            changed_files.append(ATTEMPTS)
        self._sessions.append(session)
        if lost:
            self._content[INCOMPLETE_KEY] = sorted(lost)
        old_states = self._content.get(STATES_KEY, {})
        states = {name: state for name, state in old_states.items() if name not in RESULT_FILES}
        self._content[STATES_KEY] = states | compute_states(self._folder.path, changed_files)
        self._content.pop(RESCORING_KEY, None)
        self._write()

    def record_plan(self, samples: int, n_unfinished: int, unanswerable: int = 0) -> None:
        """Record the number of samples and how many are unfinished.

        ``unanswerable`` is the number of instances that a simulated model cannot answer.
        """
        self._content |= {"samples": samples, "owed": n_unfinished, "unanswerable": unanswerable}
        self._write()

    def set_unfinished(self, n_unfinished: int) -> None:
        """Set the number of unfinished samples, which `end_session` writes."""
        self._content["owed"] = n_unfinished

    def end_session(self, ending: str, problem: str = "") -> None:
        """Record how the session ended (`harness.engine.progress.Ending`), and why if it failed."""
        self._sessions[-1] |= {"ended_at": self._clock(), "ended": ending}
        if problem:
            self._sessions[-1]["problem"] = problem
        for name in APPENDED_FILES:  # `record_states` records their new states
            self._content[STATES_KEY].pop(name, None)
        self._write()

    def record_incomplete(self, names: Collection[str]) -> None:
        """Record which files have lost lines that the session has not repeated."""
        self._content[INCOMPLETE_KEY] = sorted(names)
        self._write()

    def update(self, entries: Mapping[str, object]) -> None:
        """Add or replace entries of the manifest, and write it."""
        self._content |= msgspec.to_builtins(entries)
        self._write()

    def record_states(self, counts: Mapping[str, object]) -> None:
        """Record the states of the files that the session has written.

        ``counts`` are the numbers of repetitions that may have changed, by their keys. Lower
        numbers reveal lost lines to a later session.
        """
        self._content[STATES_KEY] |= compute_states(
            self._folder.path, (*APPENDED_FILES, *RESULT_FILES)
        )
        self._content |= counts
        self._write()

    def _write(self) -> None:
        self._content["resumed"] = len(self._sessions) - 1
        self._content["started_at"] = self._sessions[0]["started_at"]
        self._content["ended_at"] = self._sessions[-1]["ended_at"]
        write_json(self._folder.manifest, self._content)
