"""Loads tasks of lm-evaluation-harness, and lets it build their documents, prompts and requests."""

from __future__ import annotations

import contextlib
import fnmatch
import importlib
import io
import json
import logging
import random
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
from jinja2.exceptions import TemplateError
from jinja2.sandbox import ImmutableSandboxedEnvironment
from msgspec import Struct

from harness.errors import ConfigError, DataMissing, ExtraMissing, import_extra, suggest_name
from harness.plugin_interface import wrap_errors

# lm-eval's defaults (lm_eval.defaults), on which shuffled documents and sampled shots depend.
PYTHON_SEED = 0
NUMPY_SEED = 1234
SHOTS_SEED = 1234

NO_CODE = "It runs code that the model writes, which the harness does not."
NO_PICTURES = "Its prompts contain pictures or sounds, which the harness does not send."

INPUTS = {
    *("tag", "task_alias", "custom_dataset", "dataset_path", "dataset_name", "dataset_kwargs"),
    *("training_split", "validation_split", "test_split", "process_docs"),
    *("num_fewshot", "fewshot_split", "fewshot_config", "fewshot_delimiter", "target_delimiter"),
    *("description", "doc_to_text", "gen_prefix", "generation_kwargs"),
}
"""Keys of lm-eval's configurations that change documents and requests, but no score of a reply."""


class LmDocument(Struct, frozen=True):
    """A document of a task of lm-eval, with the requests that lm-eval makes for it."""

    task: str
    number: int  # lm-eval's ``doc_id``
    requests: tuple[Any, ...]  # of lm_eval.api.instance.Instance

    @property
    def generates(self) -> bool:
        """Whether the model writes an answer. Otherwise, given answers are scored."""
        return bool(self.requests[0].request_type == "generate_until")

    @property
    def rolls(self) -> bool:
        """Whether the log-likelihood of the document's whole text is wanted."""
        return bool(self.requests[0].request_type == "loglikelihood_rolling")


@dataclass(frozen=True, slots=True)
class LmPrompts:
    """Settings for lm-eval's prompts, under lm-eval's names."""

    num_fewshot: int | None = None
    apply_chat_template: bool | str = False
    fewshot_as_multiturn: bool = True
    system_instruction: str | None = None
    fewshot_seed: int = SHOTS_SEED

    @property
    def template(self) -> Callable[..., str] | None:
        """The function that lm-eval calls with the turns of a chat, or None for plain text."""
        if isinstance(self.apply_chat_template, str):
            return ChatTemplate(Path(self.apply_chat_template))
        return _as_json if self.apply_chat_template else None


def _as_json(turns: Sequence[Mapping[str, str]], add_generation_prompt: bool = True) -> str:
    return json.dumps(turns, ensure_ascii=False)


class ChatTemplate:
    """A chat template read from a file, such as a model's ``chat_template.jinja``."""

    def __init__(self, path: Path) -> None:
        settings: dict[str, Any] = {"trim_blocks": True, "lstrip_blocks": True}
        environment = ImmutableSandboxedEnvironment(
            **settings, extensions=["jinja2.ext.loopcontrols"]
        )
        self._path = path
        try:
            self._template = environment.from_string(path.read_text("utf-8"))
        except (OSError, UnicodeDecodeError, TemplateError) as error:
            problem = f"The chat template {path} cannot be read ({error})."
            raise ConfigError(problem, "Write true, or the path of a Jinja template.") from None

    def __call__(
        self, turns: Sequence[Mapping[str, str]], add_generation_prompt: bool = True
    ) -> str:
        """Return the text of a chat. Without a generation prompt, it ends with the last turn."""
        context = {"messages": turns, "add_generation_prompt": add_generation_prompt}
        try:
            text = self._template.render(context, bos_token="", eos_token="")
        except TemplateError as error:
            raise ConfigError(f"The chat template {self._path} fails ({error}).") from None
        if add_generation_prompt:
            return text
        last = turns[-1]["content"].strip()
        if (begin := text.rfind(last)) < 0:
            problem = f"The chat template {self._path} changes the text of the last turn:"
            remedy = "Change the template so that it keeps this text."
            raise ConfigError(f"{problem} {last!r:.80}.", remedy)
        return text[: begin + len(last)]


@dataclass(frozen=True, slots=True)
class LmTasks:
    """Loaded tasks by name, the groups that they belong to, and their documents."""

    tasks: Mapping[str, Any]  # of lm_eval.api.task.Task
    groups: Mapping[str, Any]  # of lm_eval.api.group.Group
    documents: list[LmDocument] = field(default_factory=list)

    def group_of(self, task: str) -> str | None:
        """Return the name of a group that a task directly belongs to, if there is one."""
        for name, group in self.groups.items():
            if task in group.child_names:
                return name
        return None


def load(
    names: Sequence[str], include_path: Path | None, prompts: LmPrompts, metadata: Mapping[str, Any]
) -> LmTasks:
    """Load tasks, and build their requests, exactly as lm-eval's ``simple_evaluate`` does.

    The arguments are those of the task ``lm_eval``.
    """
    templates = import_extra("lm_eval.utils", "lm-eval").env
    if not hasattr(templates.from_string, "cache_info"):
        # lm-eval compiles its templates again for each document, which takes most of its time.
        templates.from_string = lru_cache(1000)(templates.from_string)
    logging.getLogger("lm_eval").setLevel(logging.ERROR)
    python = random.getstate()
    numpy = np.random.get_state()
    random.seed(PYTHON_SEED)
    np.random.seed(NUMPY_SEED)
    try:
        with contextlib.redirect_stderr(io.StringIO()):  # its progress bars
            loaded = _loaded(names, include_path, metadata)
            for name, task in loaded.tasks.items():
                _configure(name, task, prompts)
            for name, task in loaded.tasks.items():
                with wrap_errors(f"lm-eval's task {name!r}"), _importing(name):
                    loaded.documents.extend(_documents(name, task, prompts))
    finally:
        random.setstate(python)
        np.random.set_state(numpy)
    return loaded


def _loaded(
    names: Sequence[str], include_path: Path | None, metadata: Mapping[str, Any]
) -> LmTasks:
    manager_of = importlib.import_module("lm_eval.tasks").TaskManager
    options = {"include_path": include_path and str(include_path), "metadata": dict(metadata)}
    # Reading lm-eval's 14,000 tasks takes 8 s, which your own tasks rarely need.
    manager = manager_of(include_defaults=False, **options)
    try:
        return _load_matching(manager, names)
    except ExtraMissing:
        raise
    except ConfigError:
        return _load_matching(manager_of(**options), names)


def _load_matching(manager: Any, names: Sequence[str]) -> LmTasks:
    chosen: list[str] = []
    for name in names:
        matching = [name]
        if Path(name).suffix not in (".yaml", ".yml"):
            matching = sorted(fnmatch.filter(manager.all_tasks, name))
        if not matching:
            similar = [task for task in manager.all_tasks if task[:2] == name[:2]]
            remedy = f"{suggest_name(name, similar)} For a task of your own, set task.include_path."
            raise ConfigError(f"lm-eval has no task named {name!r}.", remedy.strip())
        chosen += [task for task in matching if task not in chosen]
    listed = ", ".join(chosen)
    try:
        with wrap_errors(f"Loading {listed} with lm-eval"), _importing(listed):
            loaded = manager.load(chosen)
    except ConfigError as error:
        if not isinstance(cause := error.__cause__, OSError):
            raise
        remedy = "They are downloaded from the Hugging Face Hub at first use."
        if isinstance(cause, FileNotFoundError) and "Hub" not in str(cause):
            remedy = "Correct dataset_kwargs in the task's file. "
            remedy += "Relative paths start at the current folder."
        reason = f"{type(cause).__name__}: {cause}"
        raise DataMissing(f"The data of {listed} cannot be loaded ({reason}).", remedy) from None
    return LmTasks(loaded["tasks"], loaded.get("groups", {}))


@contextlib.contextmanager
def _importing(tasks: str) -> Iterator[None]:
    try:
        yield
    except ImportError as error:
        remedy = ""
        package = (error.name or "").partition(".")[0]
        if isinstance(error, ModuleNotFoundError) and package not in ("", "lm_eval"):
            remedy = f"If it is a package, install it: pip install {package}"
        raise ExtraMissing(f"lm-eval's {tasks} cannot be imported ({error}).", remedy) from None


def _configure(name: str, task: Any, prompts: LmPrompts) -> None:
    """Set the number of shots and the seed, and refuse an unsupported task."""
    for refused, why in (("UNSAFE_CODE", NO_CODE), ("MULTIMODAL", NO_PICTURES)):
        if getattr(task, refused, False):
            raise ConfigError(f"lm-eval's task {name!r} is not supported. {why}")
    task_shots = task.get_config("num_fewshot")
    if prompts.num_fewshot is not None and task_shots != 0:  # lm-eval keeps a 0 that the task sets
        task.set_config(key="num_fewshot", value=prompts.num_fewshot)
    elif task_shots is None:
        task.set_config(key="num_fewshot", value=0)
    task.set_fewshot_seed(seed=prompts.fewshot_seed)


def _documents(name: str, task: Any, prompts: LmPrompts) -> Iterator[LmDocument]:
    template = prompts.template
    try:
        task.build_all_requests(
            system_instruction=prompts.system_instruction,
            apply_chat_template=template is not None,
            fewshot_as_multiturn=prompts.fewshot_as_multiturn,
            chat_template=template,
        )
    except (AssertionError, ValueError):
        shots = task.get_config("num_fewshot")
        if not shots or (rows := len(task.sampler.fewshot_docs())) > shots:
            raise
        problem = f"lm-eval's task {name!r} has {rows:,} rows for few-shot examples"
        remedy = "Set task.num_fewshot to a smaller number."
        raise ConfigError(f"{problem}, too few for num_fewshot: {shots:,}.", remedy) from None
    for number, requests in groupby(task.instances, key=lambda request: request.doc_id):
        ordered = sorted(requests, key=lambda request: request.idx)
        document = LmDocument(name, number, tuple(ordered))
        kinds = {request.request_type for request in document.requests}
        if len(kinds) > 1 or (document.generates and len(document.requests) > 1):
            why = "it makes several kinds of request."
            raise ConfigError(f"lm-eval's task {name!r} is not supported: {why}")
        if template is _as_json and not document.generates:
            raise ConfigError(
                f"lm-eval's task {name!r} scores given answers, which are sent as plain text.",
                "Write the path of the model's chat template: task.apply_chat_template: FILE.jinja",
            )
        yield document


def described(task: Any) -> str:
    """Return the part of a task's configuration that scores depend on, as JSON.

    Functions are represented by their source code.
    """
    config = {}
    for key, value in task.dump_config().items():
        # If a document has several contexts, doc_to_text returns the index of the right one.
        is_index = key == "doc_to_text" and getattr(task, "multiple_input", 0)
        if key not in INPUTS or is_index:
            config[key] = value
    text = json.dumps(config, sort_keys=True, default=str)
    return re.sub(r" at 0x[0-9a-f]+", "", text)
