"""Reads run files, which users give as a path, the name of a shipped file, or a mapping."""

import inspect
import json
import logging
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from harness.config import shipped
from harness.config.loading import expand_variants, parse_override
from harness.config.run_file import RunFile, flatten, is_below
from harness.config.settings import Settings
from harness.config.yaml_text import read_mapping
from harness.datasets.folder import DataFolder
from harness.datasets.rows import differing_row_numbers, item_numbers_text
from harness.engine.inline_rows import inline_rows_path, write_rows
from harness.engine.judges import judge_fingerprint
from harness.engine.resolving import (
    build_task,
    check_same_server,
    code_hashes,
    parse_model_name,
    recording_hashes,
    replace_grown_hashes,
    resolve_defaults,
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
from harness.store.lost_lines import warn_of_renamed_folders
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

Functions = dict[str, Callable[..., Any]]
"""The functions that a caller of the Python API gives as checks, by name."""

RUN_FILE_SUFFIXES = (".yaml", ".yml")
MAX_LISTED_NAMES = 10  # in a message
TASK_INPUT_HASHES = frozenset(
    {f"{name}{HASH_SUFFIX}" for name in ("checks", "dataset", "documents")}
)
"""Hashes in a fingerprint that depend on the task and the seed alone."""


def read_runs(
    file: str | Path | Mapping[str, Any],
    *,
    model: str = "",
    overrides: Sequence[str] = (),
    further: Mapping[str, Any] | None = None,
    limit: int | None = None,
) -> tuple[str, dict[str, RunFile]]:
    """Read a run file, and return the base of its runs' names and the runs by variant.

    Args:
        file: A run file's path, the name of a shipped run file, or a run file's content.
            ``task.rows`` may be a list of rows, and a model may be its name. In content and in
            ``further``, ``task.checks`` may contain functions, which are registered as checkers
            under their names.
        model: Replaces the file's model (see `parse_model_name`) and is added to the base name.
        overrides: ``KEY=VALUE`` overrides.
        further: More overrides: values by dotted key.
        limit: Overrides the file's limit.
    """
    functions: Functions = {}
    values = _to_plain(further or {}, functions)
    if limit is not None:
        values["limit"] = limit
    if isinstance(file, Mapping):
        base = "run"
        where = "the run file"
        tree = _to_plain(file, functions)
    else:
        path = _find_file(str(file))
        base = path.stem
        where = str(path)
        tree = _read_tree(path, functions, is_shipped=path != Path(file))
    changes: list[str] = []
    if model:
        base = f"{base}.{to_run_name(model)}"
        check_same_server(tree, where, model, [*overrides, *(f"{key}=" for key in values)])
        changes.append(f"model={json.dumps(parse_model_name(model))}")
    row_overrides = [text for text in overrides if text.startswith("task.rows=")]
    changes += [text for text in overrides if text not in row_overrides]
    values = {**_to_plain(dict(map(parse_override, row_overrides)), functions), **values}
    return base, expand_variants(tree, where, changes, values, _model_section)


def _read_tree(path: Path, functions: Functions, *, is_shipped: bool) -> dict[str, Any]:
    """Read a run file, with the paths in it relative to its folder unless it is a shipped file."""
    tree = read_mapping(path)
    if is_in_run_folder(path):
        report_executions()
        tree = set_rows_path(tree, path.parent.absolute())
    tree = _to_plain(tree, functions, where=str(path))
    return tree if is_shipped else _resolve_paths(tree, path.parent.absolute())


def _model_section(model: str) -> dict[str, Any]:
    if "/" not in model and model not in kind("backends").names():  # not shown: it may be a key
        problem = "A model is neither a section nor the name of one."
        raise ConfigError(problem, "Write BACKEND/NAME, as in model: openai/gpt-4o-mini.")
    return parse_model_name(model)


def _find_file(file: str) -> Path:
    try:
        return shipped.find(file)
    except ConfigError as error:
        if file not in kind("tasks").names():
            raise
        remedy = f"It is a task: harness eval {file} --model MODEL, or task: {{name: {file}}}."
        raise ConfigError(error.message, remedy) from None


def _resolve_paths(tree: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Add the run file's folder, and make the paths of plug-ins' files absolute, in place."""
    _resolve_plugin_paths(tree, DataFolder(folder, folder).next_to_run_file)
    return {**tree, "folder": str(folder / str(tree.get("folder") or "."))}


def _resolve_plugin_paths(section: Any, resolve: Callable[[str], str]) -> None:
    """Apply ``resolve`` to each path of a plug-in in a section or list, except in checks."""
    for key, value in section.items() if isinstance(section, dict) else enumerate(section):
        last_key = str(key).rpartition(".")[2]
        if isinstance(value, dict | list) and last_key != "checks":
            _resolve_plugin_paths(value, resolve)
        elif (
            isinstance(value, str)
            and value.endswith(PYTHON_SUFFIX)
            and last_key in ("backend", "name")
        ):
            section[key] = resolve(value)


_TASK = re.compile(r"task|matrix\.task\.[^.]+|variants\.[^.]+\.task")  # keys of tasks' sections


def _to_plain(
    tree: Mapping[Any, Any], functions: Functions, section: str = "", where: str = ""
) -> dict[str, Any]:
    """Replace functions in a run file's content by their names, and rows by a path.

    Args:
        tree: The content.
        functions: Receives the functions.
        section: The dotted key of ``tree`` in the run file.
        where: The run file's path, for messages, or "".
    """
    plain: dict[str, Any] = {}
    for key, value in tree.items():
        name = register_checker(key, functions)
        if _TASK.fullmatch(section) and name == "rows":
            if "path" in tree:
                raise ConfigError("task.rows and task.path are both given.", "Keep one of them.")
            plain = {"name": "jsonl"} | plain | {"path": write_rows(value, where)}
        elif section == "task" and name == "path":
            plain = {"name": "jsonl"} | plain | {"path": value}
        elif name == "task.rows" and section == "matrix":
            remedy = "Write variants: {one: {task.rows: […]}, two: {task.rows: […]}}."
            raise ConfigError("matrix cannot vary task.rows.", remedy)
        elif name == "task.rows":
            plain["task.path"] = write_rows(value, where)
        elif isinstance(value, Mapping):
            plain[name] = _to_plain(value, functions, f"{section}.{name}".lstrip("."), where)
        elif isinstance(value, list | tuple):
            plain[name] = [
                _to_plain(item, functions)
                if isinstance(item, Mapping)
                else register_checker(item, functions)
                for item in value
            ]
        else:
            plain[name] = register_checker(value, functions) if name == "checks" else value
    return plain


def task_section(tree: Mapping[str, Any], functions: Functions) -> dict[str, Any]:
    """Replace functions in the content of a section ``task`` by their names, and rows by a path.

    Args:
        tree: The section's content.
        functions: Receives the functions.
    """
    if not tree.keys() & {"name", "rows", "path"}:
        remedy = 'For a list of rows: {"rows": rows, "checks": "exact_match"}.'
        raise ConfigError("A task has neither a name nor rows.", remedy)
    return _to_plain(tree, functions, "task")


def register_checker(checker: Any, functions: Functions | None = None, version: str = "") -> Any:
    """Register a function as a checker under its name, and return the name.

    Args:
        checker: The function. A value that cannot be called is returned unchanged.
        functions: The functions so far, to which it is added.
        version: Identifies the function's code. A registered function keeps its version.
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


class _MatchedRuns(NamedTuple):
    """The existing runs that match a name on the command line."""

    name: str  # of a run, several variants or a run file
    folders: Sequence[RunFolder]
    file_runs: Mapping[str, RunFile] | None  # content of the run file by run name, if it is one


def find_runs_and_files(
    names: Iterable[str], settings: Settings
) -> list[tuple[RunFolder, RunFile]]:
    """Find runs as `find_named_runs` does, each with its run file: the named or the recorded one.

    If a run file is named, the code of its plug-ins and checks must be the same as in its runs. So
    must the rows of its task, if this machine has them. All of its runs must exist.
    """
    pairs: list[tuple[RunFolder, RunFile]] = []
    for match in _find_all(names, settings, strict=True):
        file_runs = match.file_runs or {}
        for folder in match.folders:
            pairs.append((folder, file_runs.get(folder.name) or folder.read_config()))
    return pairs


def find_named_runs(
    names: Iterable[str], settings: Settings, *, removed: bool = False
) -> list[RunFolder]:
    """Find runs by name. The name or path of a run file stands for the runs of its variants.

    Args:
        names: Names or paths of runs, or of run files. If the path of a run file is given, its
            present variants count, and the runs must agree with its present content.
        settings: The settings.
        removed: As in `find_variants`.
    """
    runs: list[RunFolder] = []
    for match in _find_all(names, settings, removed=removed):
        runs += match.folders
    return runs


def find_named_run(name: str, settings: Settings, *, strict: bool = False) -> RunFolder:
    """Find one run, named as in `find_named_runs`.

    Args:
        name: The name.
        settings: The settings.
        strict: Whether code and rows must agree, too (see `find_runs_and_files`).
    """
    match = _find_one(name, settings)
    _check_file(match, settings, strict=strict)
    _check_together(match, settings, strict=strict)
    return match.folders[0]


def find_recorded_baseline(name: str, settings: Settings, *, strict: bool = False) -> RunFolder:
    """Find the baseline that a run's record names, as `find_named_run` does.

    The record may come from somebody else, so no code is executed. If the run file needs code, a
    warning says that the run was not compared with the file.
    """
    match = _find_one(name, settings)
    folder = match.folders[0]
    try:
        with set_code_permission("refused"):
            _check_folders(match, settings, strict=strict)
    except ExecutionRefused as error:
        logger.warning(f"Whether {folder.name} is a run of {name} is not checked. {error.message}")
    _check_together(match, settings, strict=strict)
    return folder


def baseline_name(name: str, settings: Settings) -> str:
    """Return the run name of a baseline that is named as in `find_named_runs`, or "" for ""."""
    if is_run_file(name):
        return find_named_run(name, settings).name
    return name and run_path(settings.runs_dir, name).name


def find_named_variants(name: str, settings: Settings) -> list[RunFolder]:
    """Find the runs of a run file's variants, of which there must be at least two."""
    file_runs = _runs_in_file(name, settings)
    folders = find_variants(settings.runs_dir, name, listed=file_runs)
    match = _MatchedRuns(name, folders, file_runs)
    _check_file(match, settings)
    _check_together(match, settings)
    return folders


def _find_one(name: str, settings: Settings) -> _MatchedRuns:
    file_runs = _runs_in_file(name, settings)
    return _MatchedRuns(name, [find_run(settings.runs_dir, name, listed=file_runs)], file_runs)


def _find_all(
    names: Iterable[str], settings: Settings, *, strict: bool = False, removed: bool = False
) -> list[_MatchedRuns]:
    """Find and check the runs for each name.

    If ``strict``, all runs of a named file must exist. Otherwise, a warning names missing ones.
    """
    all_runs: list[_MatchedRuns] = []
    seen = set[str]()
    for name in names:
        file_runs = _runs_in_file(name, settings)
        folders = find_runs(settings.runs_dir, name, listed=file_runs, removed=removed)
        for folder in folders:
            if folder.name in seen:
                raise ConfigError(f"{folder.name!r} is named twice.", "Name each run once.")
            seen.add(folder.name)
        match = _MatchedRuns(name, folders, file_runs)
        all_runs.append(match)
        if removed:
            present = [folder for folder in folders if folder.name in (file_runs or ())]
            _check_file(match._replace(folders=present), settings, strict=strict)
        else:
            _check_file(match, settings, strict=strict)
            _check_together(match, settings, strict=strict)
    return all_runs


def _runs_in_file(name: str, settings: Settings) -> dict[str, RunFile] | None:
    """Return the runs of a run file by name, or None if ``name`` is not the path of one."""
    root = settings.runs_dir
    if not is_run_file(name) or run_path(root, name) != root / Path(name).stem:
        return None  # a name, or a file in a run's folder
    base, runs = read_runs(name)
    return {run_name(base, variant): run for variant, run in runs.items()}


def _check_file(match: _MatchedRuns, settings: Settings, *, strict: bool = False) -> None:
    """Raise RunConflict if runs do not agree with their run file's content, if it was named."""
    # A run file that the user names may name code, which commands that only read runs do not need,
    # except to tell whether a run was made with the same code.
    only_reads = is_in_run_folder(match.name) or (code_permission() == "refused" and not strict)
    with set_code_permission("refused" if only_reads else "allowed"):
        _check_folders(match, settings, strict=strict)


def _check_folders(match: _MatchedRuns, settings: Settings, *, strict: bool) -> None:
    if match.file_runs is None:
        return
    for folder in match.folders:
        run = match.file_runs.get(folder.name)
        difference = f"The run {folder.name!r} is not a run of {match.name}"
        if run is not None:
            changes = _describe_changes(folder, run, settings, strict=strict)
            if not changes:
                continue
            difference = f"{difference} as it is now: it was {changes}"
        raise RunConflict(
            f"{difference}.",
            "To use that run as it was started, leave out the file and name it: "
            f"{folder.name}. To run the file: harness run {match.name} --fresh (or --rescore, if "
            "only checks or expected answers have changed).",
        )


def _check_together(match: _MatchedRuns, settings: Settings, *, strict: bool = False) -> None:
    """Warn of renamed folders, missing runs and different versions of an input.

    The runs are those that one name or run file stands for.

    Raises:
        DataMissing: If ``strict`` and runs are missing.
        RunConflict: If ``strict`` and runs were made or scored with different versions of an input.
    """
    warn_of_renamed_folders(match.folders)
    _check_missing(match, settings, strict=strict)
    _check_versions(match, strict=strict)


def _check_versions(match: _MatchedRuns, *, strict: bool) -> None:
    """Warn of (or refuse) variants that were made or scored with different versions of an input.

    A file's code has one version, and so have the checks and the data of runs of the same task,
    and the settings of the task that the file does not vary.
    """
    if len(match.folders) < 2:
        return
    by_input: dict[tuple[str, ...], dict[str, str]] = {}  # the first run with each version
    for folder in match.folders:
        for input_key, version in _input_versions(folder):
            by_input.setdefault(input_key, {}).setdefault(version, folder.name)
    for (key, *_), by_version in by_input.items():
        if len(by_version) > 1:
            hash_key = key.removesuffix(HASH_SUFFIX) + HASH_SUFFIX
            problem = f"{' and '.join(by_version.values())} were made or scored with different "
            problem += f"versions of {describe_input_change(hash_key, '', '')}"
            remedy = "run the file with --rescore, or with --fresh"
            if strict:
                raise RunConflict(f"{problem}.", f"{remedy[0].upper()}{remedy[1:]}.")
            logger.warning(f"{match.name}: {problem}: {remedy}")
            return


def _input_versions(folder: RunFolder) -> Iterator[tuple[tuple[str, ...], str]]:
    """Yield each input that a run may share with other variants, and its version.

    An input is a key of the fingerprint or the run file, with what distinguishes inputs of that
    key.
    """
    run = folder.read_config()
    task = run.task.model_dump_json().replace(str(folder.path), "")
    manifest = folder.read_manifest()
    yield from _common_inputs(run, manifest)
    for key, version in manifest.get("fingerprint", {}).items():
        if key.startswith(CODE_HASH_PREFIX):
            yield (key,), version
        elif key in TASK_INPUT_HASHES:
            yield (key, task, str(run.seed)), version


def _common_inputs(
    run: RunFile, manifest: Mapping[str, Any]
) -> Iterator[tuple[tuple[str, ...], str]]:
    """Yield the inputs that a run shares with all other variants of its file, and their versions.

    They are the task's settings that the file does not vary, and the data of the user's rows. The
    models and benchmarks of an evaluation have nothing in common.
    """
    varied_keys = manifest.get(VARIED_KEY)
    if varied_keys is None or manifest.get(EXTENDS_KEY) or is_below("name", varied_keys):
        return
    if not {"path", "rows"}.intersection(varied_keys) and run.task.name == "jsonl":
        key = f"dataset{HASH_SUFFIX}"
        if version := manifest.get("fingerprint", {}).get(key):
            yield (key, "rows"), version
    if "preset" in varied_keys:
        return
    for key, value in flatten(run.task.model_dump(mode="json")).items():
        if not is_below(key, [*varied_keys, "path", "rows", "as"]):
            yield (f"task.{key}",), json.dumps(value, sort_keys=True)


def _check_missing(match: _MatchedRuns, settings: Settings, *, strict: bool) -> None:
    """Warn of (or refuse) runs of a run file, given by its path or name, that do not exist."""
    existing = [folder.name for folder in match.folders]
    if match.file_runs is None:
        missing = missing_runs(settings.runs_dir, match.name)
    else:
        missing = [name for name in match.file_runs if name not in existing]
    if not missing:
        return
    verb = "has" if len(missing) == 1 else "have"
    problem = f"{join_first(missing, MAX_LISTED_NAMES)} {verb} not been run"
    remedy = f"run the file with harness run {match.name}"
    if match.file_runs is None:
        names = join_first(existing, MAX_LISTED_NAMES)
        problem += ", or the folder is lost"
        remedy = f"repeat the command that ran {match.name!r}, or name the runs: {names}"
    if strict:
        raise DataMissing(f"{problem}.", f"{remedy[0].upper()}{remedy[1:]}.")
    logger.warning(f"{problem}: {remedy}")


def is_run_file(name: str) -> bool:
    """Return whether a name on the command line is the path of a run file."""
    path = Path(name)
    # A missing file without a folder may be meant as the name of a run.
    return path.suffix in RUN_FILE_SUFFIXES and (path.exists() or bool(path.parent.name))


def _describe_changes(folder: RunFolder, run: RunFile, settings: Settings, *, strict: bool) -> str:
    """Describe how a run differs from its run file's present content, or return ""."""
    are_defaults_known = True
    try:
        run = resolve_defaults(run)
    except ExecutionRefused:
        are_defaults_known = False
    hashes = _hash_inputs(folder, run, settings) if strict else {}
    differences = folder.differences(run, hashes, resolve_defaults)
    # A larger limit is no difference. With a smaller one, the run has more than is asked for.
    changes = []
    for key, (recorded_value, value) in differences.settings.items():
        if key != "limit" and (are_defaults_known or value is not None):
            changes.append(describe_change(key, recorded_value, value))
    rows = inline_rows_path(run, settings)
    recorded_rows = folder.path / ROWS
    if rows and recorded_rows.exists() and rows.read_bytes() != recorded_rows.read_bytes():
        changes.append(
            f"task.rows ({item_numbers_text(differing_row_numbers(recorded_rows, rows))})"
        )
    if changes:
        return f"started with different values: {', '.join(changes)}"
    input_changes = [
        describe_input_change(key, *values) for key, values in differences.inputs.items()
    ]
    if input_changes:
        return f"made with another version of {', '.join(input_changes)}"
    return ""


def _hash_inputs(folder: RunFolder, run: RunFile, settings: Settings) -> Mapping[str, str]:
    """Return the hashes, by fingerprint name, of a run's plug-ins, rows and judges' inputs."""
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
    return replace_grown_hashes(fingerprint, folder, run, settings)
