"""Reads run files, which users give as a path, the name of a shipped file, or a mapping."""

import inspect
import json
import logging
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from harness.config import shipped
from harness.config.loading import expand_variants, parse_override
from harness.config.run_file import RunFile, flatten, is_below
from harness.config.settings import Settings
from harness.config.yaml_text import read_mapping
from harness.datasets.folder import DataFolder
from harness.datasets.rows import differing_row_numbers, item_numbers_text
from harness.engine.judges import judge_fingerprint
from harness.engine.own_rows import own_rows, write_rows
from harness.engine.resolving import (
    build_task,
    code_hashes,
    if_grown,
    named_model,
    recording_hashes,
    refuse_other_address,
    resolved,
)
from harness.errors import ConfigError, DataMissing, RunConflict
from harness.execution import (
    ExecutionRefused,
    code_permission,
    is_in_run_folder,
    report_executions,
    set_code_permission,
)
from harness.plugin_loader import CODE_HASH_PREFIX, PYTHON_SUFFIX, kind, register
from harness.store.lost_lines import warn_of_renamed
from harness.store.run_folder import (
    EXTENDS_KEY,
    HASH_SUFFIX,
    ROWS,
    VARIED_KEY,
    RunFolder,
    describe_change,
    describe_input_change,
    set_rows_path,
)
from harness.store.runs import (
    find_run,
    find_runs,
    find_variants,
    missing_runs,
    run_name,
    run_path,
    to_run_name,
)
from harness.user_code import checker_factory
from harness.wording import join_first

logger = logging.getLogger("harness")

Functions = dict[str, Callable[..., Any]]  # the functions given as checks in one call, by name

RUN_FILE = (".yaml", ".yml")  # suffixes
LISTED = 10  # names in a message
INPUTS = frozenset({f"{name}{HASH_SUFFIX}" for name in ("checks", "dataset", "documents")})
"""Hashes in a fingerprint that depend on the task and the seed alone."""


def read_runs(
    file: str | Path | Mapping[str, Any],
    *,
    model: str = "",
    overrides: Sequence[str] = (),
    further: Mapping[str, Any] | None = None,
    limit: int | None = None,
) -> tuple[str, dict[str, RunFile]]:
    """Read a run file. Return a base name for its runs, and the runs by variant.

    Args:
        file: A run file's path, the name of a shipped run file, or a run file's content.
            ``task.rows`` may be a list of rows, and a model may be given by its name. In content
            and in ``further``, ``task.checks`` may contain functions, which are registered as
            checkers under their names.
        model: Replaces the file's model (see `named_model`) and is added to the base name.
        overrides: ``KEY=VALUE`` overrides.
        further: More overrides: values by dotted key.
        limit: Overrides the file's limit.
    """
    functions: Functions = {}
    values = _plain(further or {}, functions)
    if limit is not None:
        values["limit"] = limit
    if isinstance(file, Mapping):
        base = "run"
        where = "the run file"
        tree = _plain(file, functions)
    else:
        path = _find_file(str(file))
        base = path.stem
        where = str(path)
        tree = read_mapping(path)
        if is_in_run_folder(path):
            report_executions()
            tree = set_rows_path(tree, path.parent.absolute())
        tree = _plain(tree, functions, where=where)
        if path == Path(file):  # a shipped file has no files next to it
            tree = _located(tree, path.parent.absolute())
    changes: list[str] = []
    if model:
        base = f"{base}.{to_run_name(model)}"
        refuse_other_address(tree, where, model, [*overrides, *(f"{key}=" for key in values)])
        changes.append(f"model={json.dumps(named_model(model))}")
    rows = [text for text in overrides if text.startswith("task.rows=")]
    changes += [text for text in overrides if text not in rows]
    values = {**_plain(dict(map(parse_override, rows)), functions), **values}
    return base, expand_variants(tree, where, changes, values, _named)


def _named(model: str) -> dict[str, Any]:
    if "/" not in model and model not in kind("backends").names():  # not shown: it may be a key
        problem = "A model is neither a section nor the name of one."
        raise ConfigError(problem, "Write BACKEND/NAME, as in model: openai/gpt-4o-mini.")
    return named_model(model)


def _find_file(file: str) -> Path:
    try:
        return shipped.find(file)
    except ConfigError as error:
        if file not in kind("tasks").names():
            raise
        remedy = f"It is a task: harness eval {file} --model MODEL, or task: {{name: {file}}}."
        raise ConfigError(error.message, remedy) from None


def _located(tree: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Add the run file's folder, and look up plug-ins' Python files relative to it."""
    _locate(tree, DataFolder(folder, folder).next_to_run_file)
    return {**tree, "folder": str(folder / str(tree.get("folder") or "."))}


def _locate(section: Any, located: Callable[[str], str]) -> None:
    """Apply ``located`` to each path of a plug-in, except in checks."""
    for key, value in section.items() if isinstance(section, dict) else enumerate(section):
        last = str(key).rpartition(".")[2]
        if isinstance(value, dict | list) and last != "checks":
            _locate(value, located)
        elif (
            isinstance(value, str) and value.endswith(PYTHON_SUFFIX) and last in ("backend", "name")
        ):
            section[key] = located(value)


_TASK = re.compile(r"task|matrix\.task\.[^.]+|variants\.[^.]+\.task")  # keys of tasks' sections


def _plain(
    tree: Mapping[Any, Any], functions: Functions, section: str = "", where: str = ""
) -> dict[str, Any]:
    """Return a run file's content with functions replaced by their names, and rows by a path."""
    content: dict[str, Any] = {}
    for key, value in tree.items():
        name = registered(key, functions)
        if _TASK.fullmatch(section) and name == "rows":
            if "path" in tree:
                raise ConfigError("task.rows and task.path are both given.", "Keep one of them.")
            content = {"name": "jsonl"} | content | {"path": write_rows(value, where)}
        elif section == "task" and name == "path":
            content = {"name": "jsonl"} | content | {"path": value}
        elif name == "task.rows" and section == "matrix":
            remedy = "Write variants: {one: {task.rows: […]}, two: {task.rows: […]}}."
            raise ConfigError("matrix cannot vary task.rows.", remedy)
        elif name == "task.rows":
            content["task.path"] = write_rows(value, where)
        elif isinstance(value, Mapping):
            content[name] = _plain(value, functions, f"{section}.{name}".lstrip("."), where)
        elif isinstance(value, list | tuple):
            content[name] = [
                _plain(item, functions)
                if isinstance(item, Mapping)
                else registered(item, functions)
                for item in value
            ]
        else:
            content[name] = registered(value, functions) if name == "checks" else value
    return content


def task_section(tree: Mapping[str, Any], functions: Functions) -> dict[str, Any]:
    """Return a section ``task`` with functions replaced by their names, and rows by a path.

    This section's functions are added to ``functions``.
    """
    if not tree.keys() & {"name", "rows", "path"}:
        remedy = 'For a list of rows: {"rows": rows, "checks": "exact_match"}.'
        raise ConfigError("A task has neither a name nor rows.", remedy)
    return _plain(tree, functions, "task")


def registered(checker: Any, functions: Functions | None = None, version: str = "") -> Any:
    """Register a function as a checker under its name, and return the name.

    A value that cannot be called is returned unchanged. A function that is registered already keeps
    its version.
    """
    if not callable(checker):
        return checker
    if not inspect.isfunction(checker):
        problem = f"A check is not a function, but of the type {type(checker).__name__!r}."
        remedy = "Define it with def. Give options as {function: {option: value}}."
        raise ConfigError(problem, remedy)
    name = checker.__name__
    if name == "<lambda>":
        raise ConfigError("A check is a lambda, which has no name.", "Define it with def.")
    if functions is not None and functions.setdefault(name, checker) is not checker:
        remedy = f"Give one of them a name of its own: function.__name__ = '{name}_2'."
        raise ConfigError(f"Two functions among the checks are named {name!r}.", remedy)
    if version or not kind("checkers").is_registered(name, checker):
        register("checkers", name, checker_factory(checker, name), version)
    return name


def find_runs_and_files(
    names: Iterable[str], settings: Settings
) -> list[tuple[RunFolder, RunFile]]:
    """Return runs as `runs_named` does, each with its run file: the named one, or the recorded one.

    If a run file is named, the code of its plug-ins and checks must be the same as in its runs. So
    must the rows of its task, if this machine has them. All of its runs must exist.
    """
    pairs: list[tuple[RunFolder, RunFile]] = []
    for folders, runs in _find_all(names, settings, inputs=True):
        pairs += [(folder, runs.get(folder.name) or folder.read_config()) for folder in folders]
    return pairs


def runs_named(
    names: Iterable[str], settings: Settings, *, removed: bool = False
) -> list[RunFolder]:
    """Return the named runs. The name or path of a run file stands for the runs of its variants.

    If the path is given, the file's present variants count, and the runs must agree with its
    present content. ``removed`` is as in `find_variants`.
    """
    runs: list[RunFolder] = []
    for folders, _ in _find_all(names, settings, removed=removed):
        runs += folders
    return runs


def run_named(name: str, settings: Settings, *, inputs: bool = False) -> RunFolder:
    """Return one run, named as in `runs_named`.

    With ``inputs``, code and rows must agree, too (see `find_runs_and_files`).
    """
    runs = _in_file(name, settings)
    folder = find_run(settings.runs_dir, name, listed=runs)
    _refuse_others([folder], runs, name, settings, inputs=inputs)
    _check_together([folder], runs, name, settings, refuse=inputs)
    return folder


def recorded_baseline(name: str, settings: Settings, *, inputs: bool = False) -> RunFolder:
    """Return a run as `run_named` does, if not the user but a run's record names it.

    The record may be foreign, so that no code is executed: whether the run still agrees with a run
    file that needs code is not checked.
    """
    runs = _in_file(name, settings)
    folder = find_run(settings.runs_dir, name, listed=runs)
    try:
        with set_code_permission("refused"):
            _refuse_other_files([folder], runs, name, settings, inputs=inputs)
    except ExecutionRefused as error:
        logger.warning(f"Whether {folder.name} is a run of {name} is not checked. {error.message}")
    _check_together([folder], runs, name, settings, refuse=inputs)
    return folder


def baseline_name(name: str, settings: Settings) -> str:
    """Return the name of a baseline run that is named as in `runs_named`, or "" for ""."""
    if is_run_file(name):
        return run_named(name, settings).name
    return name and run_path(settings.runs_dir, name).name


def variants_named(name: str, settings: Settings) -> list[RunFolder]:
    """Return the runs of a run file's variants, of which there must be at least two."""
    runs = _in_file(name, settings)
    folders = find_variants(settings.runs_dir, name, listed=runs)
    _refuse_others(folders, runs, name, settings)
    _check_together(folders, runs, name, settings)
    return folders


def _find_all(
    names: Iterable[str], settings: Settings, *, inputs: bool = False, removed: bool = False
) -> list[tuple[list[RunFolder], dict[str, RunFile]]]:
    """Return the runs for each name, and the named file's content by the name of its run.

    With ``inputs``, all runs of a named file must exist. Otherwise, a warning names missing ones.
    """
    matches: list[tuple[list[RunFolder], dict[str, RunFile]]] = []
    seen = set[str]()
    for name in names:
        runs = _in_file(name, settings)
        folders = find_runs(settings.runs_dir, name, listed=runs, removed=removed)
        for folder in folders:
            if folder.name in seen:
                raise ConfigError(f"{folder.name!r} is named twice.", "Name each run once.")
            seen.add(folder.name)
        if removed:
            present = [folder for folder in folders if folder.name in (runs or ())]
            _refuse_others(present, runs, name, settings, inputs=inputs)
        else:
            _refuse_others(folders, runs, name, settings, inputs=inputs)
            _check_together(folders, runs, name, settings, refuse=inputs)
        matches.append((folders, runs or {}))
    return matches


def _in_file(name: str, settings: Settings) -> dict[str, RunFile] | None:
    """Return the runs of a run file by name, or None if ``name`` is not the path of one."""
    root = settings.runs_dir
    if not is_run_file(name) or run_path(root, name) != root / Path(name).stem:
        return None  # a name, or a file in a run's folder
    base, runs = read_runs(name)
    return {run_name(base, variant): run for variant, run in runs.items()}


def _refuse_others(
    folders: Iterable[RunFolder],
    runs: Mapping[str, RunFile] | None,
    file: str,
    settings: Settings,
    *,
    inputs: bool = False,
) -> None:
    """Refuse runs that do not agree with their run file's present content, if it was named."""
    # A run file that the user names may name code, which commands that only read runs do not need,
    # except to tell whether a run was made with the same code.
    reads = is_in_run_folder(file) or (code_permission() == "refused" and not inputs)
    with set_code_permission("refused" if reads else "allowed"):
        _refuse_other_files(folders, runs, file, settings, inputs=inputs)


def _refuse_other_files(
    folders: Iterable[RunFolder],
    runs: Mapping[str, RunFile] | None,
    file: str,
    settings: Settings,
    *,
    inputs: bool,
) -> None:
    if runs is not None:
        for folder in folders:
            _refuse_other(folder, runs.get(folder.name), file, settings, inputs)


def _check_together(
    folders: Sequence[RunFolder],
    runs: Mapping[str, RunFile] | None,
    file: str,
    settings: Settings,
    *,
    refuse: bool = False,
) -> None:
    """Warn of what makes runs that one name or run file stands for mean something else.

    That is what `_warn_of_missing`, `warn_of_renamed` and `_warn_of_versions` warn of.
    """
    warn_of_renamed(folders)
    _warn_of_missing(folders, runs, file, settings, refuse=refuse)
    _warn_of_versions(folders, file, refuse=refuse)


def _warn_of_versions(folders: Sequence[RunFolder], file: str, *, refuse: bool) -> None:
    """Warn of, or refuse, variants that were made or scored with different versions of an input.

    A file's code has one version, and so have the checks and the data of runs of the same task,
    and the settings of the task that the file does not vary.
    """
    if len(folders) < 2:
        return
    by_input: dict[tuple[str, ...], dict[str, str]] = {}  # the first run with each version
    for folder in folders:
        run = folder.read_config()
        task = run.task.model_dump_json().replace(str(folder.path), "")
        manifest = folder.read_manifest()
        for place, version in _common_inputs(run, manifest):
            by_input.setdefault(place, {}).setdefault(version, folder.name)
        for key, version in manifest.get("fingerprint", {}).items():
            if key.startswith(CODE_HASH_PREFIX) or key in INPUTS:
                place = (key,) if key.startswith(CODE_HASH_PREFIX) else (key, task, str(run.seed))
                by_input.setdefault(place, {}).setdefault(version, folder.name)
    for (key, *_), by_version in by_input.items():
        if len(by_version) > 1:
            problem = f"{' and '.join(by_version.values())} were made or scored with different "
            hash_key = key.removesuffix(HASH_SUFFIX) + HASH_SUFFIX
            problem += f"versions of {describe_input_change(hash_key, '', '')}"
            remedy = "run the file with --rescore, or with --fresh"
            if refuse:
                raise RunConflict(f"{problem}.", f"{remedy[0].upper()}{remedy[1:]}.")
            logger.warning(f"{file}: {problem}: {remedy}")
            return


def _common_inputs(
    run: RunFile, manifest: Mapping[str, Any]
) -> Iterator[tuple[tuple[str, ...], str]]:
    """Yield keys and values of what a run has in common with the other variants of its file.

    That are the task's settings that the file does not vary, and the data of rows of the user's.
    The models and benchmarks of an evaluation have nothing in common.
    """
    varied = manifest.get(VARIED_KEY)
    if varied is None or manifest.get(EXTENDS_KEY) or is_below("name", varied):
        return
    if not {"path", "rows"}.intersection(varied) and run.task.name == "jsonl":
        key = f"dataset{HASH_SUFFIX}"
        if version := manifest.get("fingerprint", {}).get(key):
            yield (key, "rows"), version
    if "preset" in varied:
        return
    for key, value in flatten(run.task.model_dump(mode="json")).items():
        if not is_below(key, [*varied, "path", "rows", "as"]):
            yield (f"task.{key}",), json.dumps(value, sort_keys=True)


def _warn_of_missing(
    folders: Iterable[RunFolder],
    runs: Mapping[str, RunFile] | None,
    file: str,
    settings: Settings,
    *,
    refuse: bool = False,
) -> None:
    """Warn of, or refuse, runs of a run file, given by its path or name, that do not exist."""
    existing = [folder.name for folder in folders]
    if runs is None:
        missing = missing_runs(settings.runs_dir, file)
    else:
        missing = [name for name in runs if name not in existing]
    if not missing:
        return
    verb = "has" if len(missing) == 1 else "have"
    problem = f"{join_first(missing, LISTED)} {verb} not been run"
    remedy = f"run the file with harness run {file}"
    if runs is None:
        problem += ", or the folder is lost"
        names = join_first(existing, LISTED)
        remedy = f"repeat the command that ran {file!r}, or name the runs: {names}"
    if refuse:
        raise DataMissing(f"{problem}.", f"{remedy[0].upper()}{remedy[1:]}.")
    logger.warning(f"{problem}: {remedy}")


def is_run_file(name: str) -> bool:
    """Return whether a name on the command line is the path of a run file."""
    path = Path(name)
    # A missing file without a folder may be meant as the name of a run.
    return path.suffix in RUN_FILE and (path.exists() or bool(path.parent.name))


def _refuse_other(
    folder: RunFolder, run: RunFile | None, file: str, settings: Settings, inputs: bool
) -> None:
    problem = f"The run {folder.name!r} is not a run of {file}"
    if run is not None:
        defaults_known = True
        try:
            run = resolved(run)
        except ExecutionRefused:
            defaults_known = False
        hashes = _hashes(folder, run, settings) if inputs else {}
        differences = folder.differences(run, hashes, resolved)
        # A larger limit is no difference. With a smaller one, the run has more than is asked for.
        settings_changes = []
        for key, (old, new) in differences.settings.items():
            if key != "limit" and (defaults_known or new is not None):
                settings_changes.append(describe_change(key, old, new))
        rows = own_rows(run, settings)
        recorded = folder.path / ROWS
        if rows and recorded.exists() and rows.read_bytes() != recorded.read_bytes():
            settings_changes.append(
                f"task.rows ({item_numbers_text(differing_row_numbers(recorded, rows))})"
            )
        input_changes = [
            describe_input_change(key, *values) for key, values in differences.inputs.items()
        ]
        problem += " as it is now: it was "
        if settings_changes:
            problem += f"started with different values: {', '.join(settings_changes)}"
        elif input_changes:
            problem += f"made with another version of {', '.join(input_changes)}"
        else:
            return
    raise RunConflict(
        f"{problem}.",
        f"To use that run as it was started, leave out the file and name it: {folder.name}. "
        f"To run the file: harness run {file} --fresh (or --rescore, if only checks or expected "
        "answers have changed).",
    )


def _hashes(folder: RunFolder, run: RunFile, settings: Settings) -> Mapping[str, str]:
    """Return the hashes, by name in a fingerprint, of a run's plug-ins and of its rows' inputs."""
    fingerprint = code_hashes(run)
    with suppress(DataMissing):
        fingerprint |= recording_hashes(run, settings)
        has_path = "path" in run.task.options
        if not has_path and not run.judges:
            return fingerprint
        task = build_task(run, settings)
        task_hashes = task.fingerprint() if has_path else {}
        from harness.store.index import is_scored  # NumPy takes 0.2 s to import

        if not is_scored(folder, task_hashes):
            fingerprint |= task_hashes
        if run.judges:
            simulated = bool(folder.read_manifest().get("simulated"))
            data = DataFolder(settings.data_dir, run.folder)
            for judge in run.judges:
                hashes = judge_fingerprint(judge, task, settings, data, simulated=simulated)
                for key, value in hashes.items():
                    fingerprint[f"judge_{judge.as_}_{key}"] = value
    fingerprint = {name: value for name, value in fingerprint.items() if name.endswith(HASH_SUFFIX)}
    return if_grown(fingerprint, folder, run, settings)
