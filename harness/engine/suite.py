"""A suite: several models on several benchmarks, as a run file with a matrix."""

import json
import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from harness.config import shipped
from harness.config.loading import expand, override
from harness.config.run_file import RunFile
from harness.datasets.catalogue import CATALOGUE
from harness.datasets.row_formats import is_row_file
from harness.declarations import named_tasks
from harness.engine.resolving import named_model
from harness.errors import ConfigError, nearest, option
from harness.plugin_loader import FILE, kind
from harness.ports import Task, overrides
from harness.records import content_hash
from harness.store.files import make_folder, write_whole
from harness.store.runs import in_run_name

RUN_FILE = (".yaml", ".yml")  # suffixes
MAX_TOKENS_KEY = "decoding.max_tokens"
MAX_TOKENS = 2048  # of an answer: some providers need a limit, and so does an estimate of the cost

_MARK = "# Unless you change it, that command replaces this file. Content: "


def suite_tree(
    tasks: Sequence[str | Mapping[str, Any]],
    models: Sequence[str],
    judge: str = "",
    limit: int | None = None,
    budget: float | None = None,
    *,
    published: bool = False,
) -> dict[str, Any]:
    """Return a suite's run file, as nested mappings.

    Args:
        tasks: Names of benchmarks, files of rows, or sections ``task`` of a run file.
        models: Names of models, as in `named_model`.
        judge: Name of the judges' model, for benchmarks that need a judge.
        limit: Maximum number of instances in each run.
        budget: Budget in US dollars for all runs together.
        published: Whether to use each benchmark's published data, if it can be fetched, instead of
            the benchmark's default.
    """
    sections = [named_model(model) for model in models]
    data = {name: found.option for name, found in CATALOGUE.items() if found.option and published}
    of_task, named = [], _names(tasks)
    named_data = named_tasks()
    for task, own in zip(tasks, named, strict=True):
        section = _section(task)
        name = section["name"]
        if own != name:
            section = {**section, "as": own}
        dataset = {"dataset": data[name]} if name in data else {}
        keys = {**_dotted("task", {**dataset, **section}), **_judged(name, judge)}
        if name in named_data and named_data[name].limits_answers:
            keys[MAX_TOKENS_KEY] = None
        of_task.append(keys)
    of_model = [_of_model(one) for one in sections]
    most: int | None = MAX_TOKENS
    if all(any(MAX_TOKENS_KEY in keys for keys in axis) for axis in (of_task, of_model)):
        most = None  # only one axis may set it
        for keys in chain(of_task, of_model):
            keys.pop(MAX_TOKENS_KEY, None)
    return {
        "task": {"name": _section(tasks[0])["name"]},
        "model": {"backend": sections[0]["backend"]},
        "decoding": {"max_tokens": most},
        **({} if limit is None else {"limit": limit}),
        **({} if budget is None else {"budget": {"usd": budget}}),
        "matrix": {
            "task": _axis("task", named, of_task),
            "model": _axis("model", models, of_model),
        },
    }


def _of_model(section: Mapping[str, Any]) -> dict[str, Any]:
    """Return a model's keys. If it is the user's own code, a limit that it lacks is not set."""
    backends, name = kind("backends"), section["backend"]
    keys = _dotted("model", section)
    if name.endswith(FILE) or name in backends.registered():
        features = getattr(backends.load(name), "features", None)
        if isinstance(features, frozenset) and "max_tokens" not in features:
            keys[MAX_TOKENS_KEY] = None
    return keys


def _dotted(section: str, tree: Mapping[str, Any]) -> dict[str, Any]:
    return {f"{section}.{key}": value for key, value in tree.items()}


def _section(task: str | Mapping[str, Any]) -> Mapping[str, Any]:
    if isinstance(task, Mapping):
        return task
    prefix, own = _prefixed(task)
    if prefix:
        return {"name": prefix, named_tasks()[prefix].option: own}
    if _is_rows(task):
        return {"name": "jsonl", "path": str(Path(task).resolve())}
    return {"name": task}


def _prefixed(task: str) -> tuple[str, str]:
    """Return the prefix of a task's name, or "", and the rest of the name."""
    prefix, colon, own = task.partition(":")
    return (prefix, own) if colon and prefix in named_tasks() else ("", task)


def _is_rows(name: str) -> bool:
    return is_row_file(name) and Path(name).suffix not in RUN_FILE


def _names(tasks: Sequence[str | Mapping[str, Any]]) -> list[str]:
    found: list[str] = []
    for task in tasks:
        name = in_run_name(_short(task))
        same = sum(re.fullmatch(rf"{re.escape(name)}(-\d+)?", one) is not None for one in found)
        numbered = isinstance(task, Mapping) and not task.get("as") and same
        found.append(f"{name}-{same + 1}" if numbered else name)
    return found


def _short(task: str | Mapping[str, Any]) -> str:
    if isinstance(task, Mapping):
        return str(task.get("as") or task["name"])
    prefix, own = _prefixed(task)
    if prefix:
        return re.sub(named_tasks()[prefix].left_out, "", own)
    return Path(own).name.partition(".")[0] if _is_rows(own) else own


def _split(tasks: Sequence[str | Mapping[str, Any]]) -> list[str | Mapping[str, Any]]:
    """Return the tasks. The prefix of a name also applies to later names without a prefix."""
    found: list[str | Mapping[str, Any]] = []
    latest = ""
    for task in tasks:
        if isinstance(task, str):
            prefix, own = _prefixed(task)
            latest = prefix or latest
            task = f"{latest}:{own}" if latest else own
        found.append(task)
    return found


class Evaluation(NamedTuple):
    """A run file for several benchmarks and models, its runs, and notes for the user."""

    tree: dict[str, Any]  # the equivalent run file, as nested mappings
    runs: dict[str, RunFile]  # by variant, TASK.MODEL
    notes: list[str]  # for the user to read before the runs start


def evaluation(
    tasks: Sequence[str | Mapping[str, Any]],
    models: Sequence[str],
    changes: Mapping[str, Any],
    *,
    judge: str = "",
    limit: int | None = None,
    budget: float | None = None,
) -> Evaluation:
    """Return the runs of each task with each model.

    ``changes`` are overrides for all runs: values by dotted key. Published data is used unless all
    models are simulated or ``changes`` has ``task.dataset``. The other arguments are as in
    `suite_tree`.
    """
    if others := [one for one in models if not isinstance(one, str)]:
        problem = f"{others[0]!r:.60} is not the name of a model."
        raise ConfigError(problem, "Register a function with @harness.backend, and pass its name.")
    tasks = _split(tasks)
    for task in tasks:
        if isinstance(task, str):
            _check_task(task)
    names = [_section(task)["name"] for task in tasks]
    simulated = all(one.partition("/")[0] == "simulated" for one in models)
    published = not simulated and "task.dataset" not in changes
    tree = suite_tree(tasks, models, judge, limit, budget, published=published)
    if MAX_TOKENS_KEY in changes:
        for keys in chain.from_iterable(axis.values() for axis in tree["matrix"].values()):
            keys.pop(MAX_TOKENS_KEY, None)
    runs = expand(tree, "harness eval", values=changes)
    for key, value in changes.items():
        override(tree, key, value)
    if len(models) > 1:
        _check_model_options(runs.values(), [key for key in changes if key.startswith("model.")])
    notes = []
    for task, name in zip(tasks, names, strict=True):
        users = name == "jsonl" or name in named_tasks()
        own = users or not isinstance(task, str) or "task.path" in changes
        if published and not own and not (name in CATALOGUE and CATALOGUE[name].option):
            notes.append(f"{name}: our own instances, not the published data (harness docs eval).")
        if judge_of(name) and not any(run.judges for run in runs.values() if run.task.name == name):
            notes.append(
                f"{name} needs a judge for a full verdict: set {option('judge', 'BACKEND/NAME')}."
            )
    return Evaluation(tree, runs, notes)


def _check_model_options(runs: Iterable[RunFile], keys: Sequence[str]) -> None:
    """Raise ConfigError if one of several models lacks an option that is set for all of them."""
    for run in runs if keys else ():
        try:
            kind("backends").options(run.model.backend, run.model.options)
        except ConfigError as error:
            raise ConfigError(
                f"{', '.join(keys)} applies to all models. {error.message}",
                "For options of one model, write a run file with 'matrix: {model: {NAME: {backend: "
                "…, name: …, base_url: …}, …}}' (harness docs run-files).",
            ) from None


def _check_task(name: str) -> None:
    known = kind("tasks").names()
    suffix = Path(name).suffix
    if _is_rows(name) or _prefixed(name)[0]:
        return
    if suffix in RUN_FILE:
        raise ConfigError(f"{name} is a run file.", f"Use harness run {name} --model MODEL.")
    if suffix and suffix != ".py":
        forms = "Rows are read from .jsonl, .json, .csv, .tsv, .xlsx and .parquet files "
        forms += "(harness docs jsonl)."
        raise ConfigError(f"{name} is neither a task nor a file of rows.", forms)
    if name not in known:
        said = nearest(name, known)
        if name in shipped.names():
            said = f"It is a run file: harness run {name} --model MODEL."
        elif not get_close_matches(name, known, n=1):
            said += " 'harness tasks' describes them. Your own rows: harness eval FILE.jsonl."
        raise ConfigError(f"There is no task named {name!r}.", said)


def judge_of(task: str) -> str:
    """Return the name of the judge that a task needs, or "" if it needs none."""
    plugin = kind("tasks").load(task)
    if task in kind("judges").names():
        return task
    judged = overrides(plugin, Task.criteria) and not overrides(plugin, Task.judged_by)
    return "yes_no" if judged else ""


def _judged(task: str, model: str) -> dict[str, Any]:
    name = judge_of(task) if model else ""
    return {"judges": [{"name": name, "model": named_model(model)}]} if name else {}


def _axis(
    what: str, names: Iterable[str], changes: Iterable[dict[str, Any]]
) -> dict[str, dict[str, Any]]:
    """Return an axis of the matrix: each name, as it appears in runs' names, with its changes."""
    axis: dict[str, dict[str, Any]] = {}
    for name, change in zip(names, changes, strict=True):
        key = in_run_name(name)
        if key in axis:
            remedy = f"Name each {what} once, or write a run file (harness docs eval)."
            raise ConfigError(f"Two {what}s have runs named {key!r}.", remedy)
        axis[key] = change
    return axis


def eval_command(
    tasks: Sequence[str | Mapping[str, Any]],
    models: Sequence[str],
    name: str,
    options: Mapping[str, Any],
    changes: Mapping[str, Any],
) -> str:
    """Return the command for a call of ``harness.evaluate``, or a note if there is none."""
    named = [task for task in tasks if isinstance(task, str)]
    if len(named) < len(tasks):
        return "harness.evaluate(...) in Python"
    words = ["harness", "eval", ",".join(named), "--model", ",".join(models), "--name", name]
    for key in ("limit", "budget", "judge"):
        words += [f"--{key}", str(options[key])] if options.get(key) else []
    for key, value in changes.items():
        words += ["-o", f"{key}={json.dumps(value)}"]
    return shlex.join(words)


def write_suite(path: Path, tree: Mapping[str, Any], command: str) -> None:
    """Write a suite's run file, with the command that generated it as a comment.

    An existing file is replaced only if this function wrote it and nobody has edited it.
    """
    body = yaml.safe_dump(tree, sort_keys=False, default_flow_style=None, width=100)
    if path.exists():
        _, mark, before = path.read_text("utf-8", "replace").partition(_MARK)
        digest, _, before = before.partition("\n")
        if not mark or digest != content_hash(before):
            problem = f"{path} was edited, or not written by this command: it is kept."
            remedy = f"Run it (harness run {path}), rename it, or use {option('name', 'NEW')}."
            raise ConfigError(problem, remedy)
    make_folder(path.parent)
    comment = " ".join(command.split())
    write_whole(path, f"# {comment}\n{_MARK}{content_hash(body)}\n{body}".encode())
