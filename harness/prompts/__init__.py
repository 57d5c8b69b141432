"""Prompts: Jinja templates with strict limits, either built in (``prompts/``) or in users' files.

A row of data is never treated as a template. Neither a row nor a user's template can hang the run
or reach into Python: nothing can be called, attributes are keys of mappings, there is no
multiplication, only the filters listed here exist, and loops and output are bounded. A missing
field is an error.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from difflib import get_close_matches
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.errors import ConfigError, DataInvalid, DataMissing, suggest_name
from harness.records import Message

if TYPE_CHECKING:
    from jinja2 import UndefinedError
    from jinja2.sandbox import ImmutableSandboxedEnvironment

# The allowed filters of Jinja. They call nothing and add no padding (``center`` could add GBs).
FILTERS = frozenset(
    {"abs", "capitalize", "count", "d", "default", "dictsort", "first", "float", "int", "items"}
    | {"last", "length", "list", "lower", "map", "max", "min", "reject", "reverse", "select"}
    | {"sort", "string", "sum", "title", "trim", "truncate", "unique", "upper", "wordcount"}
)

MAX_TEMPLATE_CHARS = 100_000
MAX_PROMPT_CHARS = 10_000_000  # of a prompt, and of the result of ``replace`` or ``join``
MAX_LOOP_STEPS = 100_000  # per prompt, over all of its loops


ROLES = ("system", "user", "assistant")
_FOREIGN_ROLES = {"ai", "bot", "developer", "human", "model", "tool"}
_HEADER = re.compile(r"(?m)^== (system|user|assistant) ==\n")
"""Matches a line that begins a message (see `render_conversation`)."""


class _LimitExceeded(Exception):
    """A prompt exceeds a limit."""


class Template:
    """A compiled prompt template.

    Args:
        text: The template.
        name: What error messages call it, for example ``task.prompt``.

    Attributes:
        fields: The names of the fields that the template uses.

    Raises:
        ConfigError: If the text is not a valid template, or does more than templates may do.

    >>> Template("{{ q }}{% if hint is defined %} {{ hint }}{% endif %}", "").render({"q": "Why?"})
    'Why?'
    """

    def __init__(self, text: str, name: str) -> None:
        from jinja2 import TemplateError, meta

        self.text = text
        self.name = name
        if len(text) > MAX_TEMPLATE_CHARS:
            raise ConfigError(f"{name} has more than {MAX_TEMPLATE_CHARS:,} characters.")
        self._first_header = _HEADER.search(text)
        _check_near_headers(text, name, has_headers=self._first_header is not None)
        try:
            tree = _environment().parse(text)
            _check_constructs(tree, name)
            _count_loop_steps(tree)
            self.fields = frozenset(meta.find_undeclared_variables(tree) - {_STEP_COUNTER})
            self._template = _environment().from_string(tree)
        except TemplateError as error:
            line = getattr(error, "lineno", None)
            location = f", line {line}" if line else ""
            problem = f"{name}{location}: {str(error.message).rstrip('.')}."
            raise ConfigError(problem, "Fields are written {{ question }}.") from None
        except RecursionError:
            raise ConfigError(f"{name} is nested too deeply.") from None

    def __reduce__(self) -> tuple[type[Template], tuple[str, str]]:
        return Template, (self.text, self.name)

    @property
    def sha256(self) -> str:
        """The SHA-256 of the template's text, as hexadecimal digits."""
        return hashlib.sha256(self.text.encode()).hexdigest()

    def check_fields(self, fields: Collection[str]) -> None:
        """Raise ConfigError if the template uses a field that is not one of ``fields``."""
        for name in sorted(self.fields - set(fields)):
            problem = f"{self.name}: there is no field {name!r} here."
            raise ConfigError(problem, suggest_name(name, fields))

    def check_single_braces(self, fields: Collection[str]) -> None:
        """Raise DataInvalid if no field is used, but ``{NAME}`` names one of ``fields``."""
        if self.fields:
            return
        for name in re.findall(r"\{(\w+)\}", self.text):
            if name in fields:
                problem = (
                    f"{self.name} uses no field of the row: {{{name}}} would be sent as it is."
                )
                raise DataInvalid(problem, f"Write {{{{ {name} }}}}.")

    def render(self, row: Mapping[str, Any]) -> str:
        """Return the prompt for a row.

        Raises:
            ConfigError: If a line of the template begins a message (see `render_conversation`).
            DataInvalid: If a field is missing or unsuitable, or if the prompt is too long.
        """
        from jinja2 import TemplateError, UndefinedError

        if self._first_header:
            raise self._header_error(self._first_header)
        try:
            return self._generate(row)
        except UndefinedError as error:
            raise self._undefined_error(error, row) from None
        except (_LimitExceeded, TemplateError, RecursionError) as error:
            problem = str(error).rstrip(".") or type(error).__name__
            raise DataInvalid(f"{self.name}: {problem}.") from None
        except (TypeError, ValueError, ArithmeticError, AttributeError, LookupError) as error:
            raise DataInvalid(f"{self.name}: a value does not fit ({error}).") from None

    def _generate(self, row: Mapping[str, Any]) -> str:
        pieces: list[str] = []
        length = 0
        for piece in self._template.generate({**row, _STEP_COUNTER: [0]}):
            pieces.append(piece)
            length += len(piece)
            if length > MAX_PROMPT_CHARS:
                raise _LimitExceeded(f"a prompt of more than {MAX_PROMPT_CHARS:,} characters")
        return "".join(pieces)

    def _header_error(self, header: re.Match[str]) -> ConfigError:
        line = self.text.count("\n", 0, header.start()) + 1
        return ConfigError(
            f"{self.name}, line {line}: {header[0].strip()!r} would be sent as text, because this "
            "prompt is a single message.",
            "Remove the line. A system message belongs into its own key (such as task.system), if "
            "there is one.",
        )

    def _undefined_error(self, error: UndefinedError, row: Mapping[str, Any]) -> DataInvalid:
        for field in sorted(self.fields - row.keys()):
            if repr(field) in str(error):
                problem = f"{self.name} needs the field {field!r}, which the row does not have."
                return DataInvalid(problem, suggest_name(field, map(str, row)))
        return DataInvalid(f"{self.name}: {error.message}.")


def _check_near_headers(text: str, name: str, *, has_headers: bool) -> None:
    """Check that no line looks like the beginning of a message, such as `=== User ===`.

    Args:
        text: The text of the template.
        name: What error messages call it.
        has_headers: Whether other lines begin messages. Names of foreign roles are then refused
            too.

    Raises:
        ConfigError: If a line does, or if there is no text below the last header.
    """
    for number, line in enumerate(text.split("\n"), start=1):
        near_header = re.fullmatch(r"=+(\w+)=*:?", "".join(line.split()))
        if near_header is None or line.count("=") < 2:
            continue
        word = near_header[1].lower()
        roles = get_close_matches(word, ROLES, n=1, cutoff=0.8)
        if not roles and not (has_headers and word in _FOREIGN_ROLES):
            continue
        headers = " or ".join(f"'== {role} =='" for role in roles or ROLES)
        if not _HEADER.fullmatch(f"{line}\n"):
            raise ConfigError(
                f"{name}, line {number}: {line.strip()!r:.60} does not begin a message.",
                f"Write {headers}, without other characters in the line. To send the line as text, "
                f"write {{{{ {line.strip()!r:.60} }}}}.",
            )
        if number == text.count("\n") + 1:
            raise ConfigError(f"{name}, line {number}: the message has no text.", "Add it below.")


_STEP_COUNTER = "harness_loop_steps"  # name of the counter of loop steps in a template's context
_STEP_FILTER = "counted"  # name of the filter that counts them


def _check_constructs(tree: Any, name: str) -> None:
    """Raise ConfigError if a template has a construct that templates may not use."""
    from jinja2 import nodes

    refused = {
        "calls or macros": (nodes.Call, nodes.CallBlock, nodes.Macro),
        "multiplication, powers or %": (nodes.Mul, nodes.Pow, nodes.Mod),
        "includes": (nodes.Include,),
        "imports or extends": (nodes.Import, nodes.FromImport, nodes.Extends),
        "blocks": (nodes.Block,),
        "assignments": (nodes.Assign, nodes.AssignBlock, nodes.With),
    }
    for construct, kinds in refused.items():
        for node in tree.find_all(kinds):
            problem = f"{name}, line {node.lineno}: a prompt template cannot have {construct}."
            raise ConfigError(problem)
    for node in tree.find_all(nodes.Filter):
        if node.name not in _environment().filters:
            remedy = suggest_name(str(node.name), {*FILTERS, *_OWN_FILTERS})
            raise ConfigError(f"{name}, line {node.lineno}: no filter {node.name!r:.40}.", remedy)
    for node in tree.find_all(nodes.For):
        if node.recursive:
            raise ConfigError(f"{name}, line {node.lineno}: a loop cannot be recursive.")


def _count_loop_steps(tree: Any) -> None:
    """Make the loops of a template count their steps."""
    from jinja2 import nodes

    for node in tree.find_all(nodes.For):
        counter = nodes.Name(_STEP_COUNTER, "load", lineno=node.lineno)
        options: tuple[Any, ...] = [counter], [], None, None
        node.iter = nodes.Filter(node.iter, _STEP_FILTER, *options, lineno=node.lineno)


def _take_steps(values: Iterable[Any], steps: list[int]) -> list[Any]:
    """Return the items of a loop, and add their number to the template's only counter."""
    items = list(islice(values, MAX_LOOP_STEPS - steps[0] + 1))
    steps[0] += len(items) + 1  # an empty loop within another is a step too
    if steps[0] > MAX_LOOP_STEPS:
        raise _LimitExceeded(f"more than {MAX_LOOP_STEPS:,} steps of loops")
    return items


def _check_length(length: int) -> None:
    if length > MAX_PROMPT_CHARS:
        raise _LimitExceeded(f"a text of more than {MAX_PROMPT_CHARS:,} characters")


def _replace(text: str, old: str, new: str) -> str:
    text = str(text)
    old = str(old)
    new = str(new)
    _check_length(len(text) + text.count(old) * len(new))
    return text.replace(old, new)


def _join(values: Iterable[Any], between: str = "") -> str:
    texts = [str(value) for value in values]
    separator = str(between)
    _check_length(sum(map(len, texts)) + len(texts) * len(separator))
    return separator.join(texts)


# Filters of ours, some of which replace filters of Jinja, with bounded results.
_OWN_FILTERS: Mapping[str, Callable[..., Any]] = {
    "replace": _replace,
    "join": _join,
    "tojson": functools.partial(json.dumps, ensure_ascii=False),  # no HTML escapes
    "round": lambda value, digits=0: round(value, digits),
    "split": lambda text, at=None: str(text).split(at),
    # Removes the tags put around untrusted text, for prompts that were published without tags.
    "untagged": lambda text: re.sub(r"\A<(\w+)>\n(.*)\n</\1>\Z", r"\2", str(text), flags=re.S),
}


def _require_data(value: Any) -> Any:
    """Return a value that a template prints, if it can be data."""
    from jinja2 import Undefined

    if isinstance(value, str | int | float | list | tuple | dict | Undefined):
        return value
    raise TypeError("null is not text" if value is None else f"{type(value).__name__} is not data")


@functools.cache
def _environment() -> ImmutableSandboxedEnvironment:
    from jinja2 import StrictUndefined
    from jinja2.runtime import LoopContext
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    class Environment(ImmutableSandboxedEnvironment):
        def getitem(self, obj: Any, argument: Any) -> Any:
            if isinstance(argument, slice) and isinstance(obj, list | tuple | str):
                return obj[argument]
            if isinstance(obj, Mapping | list | tuple | str):
                with contextlib.suppress(LookupError, TypeError):
                    return obj[argument]
            return self.undefined(obj=obj, name=argument)

        def getattr(self, obj: Any, attribute: str) -> Any:
            if isinstance(obj, LoopContext) and not attribute.startswith("_"):
                return super().getattr(obj, attribute)
            return self.getitem(obj, attribute)

    environment = Environment(undefined=StrictUndefined, finalize=_require_data, cache_size=0)
    environment.globals.clear()
    allowed = {name: environment.filters[name] for name in FILTERS}
    environment.filters = {**allowed, **_OWN_FILTERS, _STEP_FILTER: _take_steps}
    return environment


SUFFIX = ".jinja"
# Folders of built-in prompts, in an installed package and in the source tree.
BUILTIN_FOLDERS = (Path(__file__).with_name("texts"), Path(__file__).parents[2] / "prompts")


def is_prompt_path(prompt: str) -> bool:
    """Return whether a judge's prompt is the path of a file, rather than the name of a built-in."""
    return "/" in prompt or prompt.endswith(SUFFIX)


def prompt_names(folder: str = "") -> list[str]:
    """Return the sorted names of the built-in prompts in one folder, or in all if it is ""."""
    names = {
        path.relative_to(root).with_suffix("").as_posix()
        for root in BUILTIN_FOLDERS
        for path in root.glob(f"{folder or '**'}/*{SUFFIX}")
    }
    return sorted(names)


def read_builtin(name: str) -> Template:
    """Return the template of a built-in prompt, which omits the newline at the end of its file.

    Raises:
        DataMissing: If there is no such prompt.
    """
    for root in BUILTIN_FOLDERS:
        path = root / f"{name}{SUFFIX}"
        if path.is_file():
            return Template(_read_text(path), f"prompts/{name}{SUFFIX}")
    raise DataMissing(f"There is no prompt {name!r}.", suggest_name(name, prompt_names()))


def render_conversation(template: Template, row: Mapping[str, Any]) -> tuple[Message, ...]:
    """Render a template of several messages for a row.

    In the template, each message begins with the line ``== system ==``, ``== user ==`` or
    ``== assistant ==``. Without such lines, a template is one user message. Lines in the values of
    a row never begin a message. Similar lines, such as ``=== User ===``, are refused.

    Raises:
        ConfigError: If there is text before the first message, or a message's text is not a valid
            template.
        DataInvalid: As in `Template.render`.
    """
    first, *turns = _HEADER.split(template.text)
    if turns and Template(first, template.name).render(row).strip():
        problem = f"{template.name}: there is text before the first line '== {turns[0]} =='."
        raise ConfigError(problem, "Remove it, or begin it with a line such as '== system =='.")
    sections: list[Any] = turns or ["user", first]  # roles and texts in turn
    messages = []
    for role, text in zip(sections[::2], sections[1::2], strict=True):
        messages.append(Message(role, Template(text, template.name).render(row)))
    return tuple(messages)


def read_file(path: Path, option: str) -> Template:
    """Return the template in a user's file.

    Args:
        path: The file.
        option: The key in the run file that names the file, for error messages.

    Raises:
        ConfigError: If the file cannot be read, or is not a valid template.
    """
    return Template(_read_text(path), option)


def _read_text(path: Path) -> str:
    try:
        with path.open(encoding="utf-8", newline="") as file:
            text = file.read(MAX_TEMPLATE_CHARS + 2)
    except (OSError, UnicodeDecodeError) as error:
        problem = getattr(error, "strerror", None) or "it is not UTF-8"
        message = f"The prompt {path} cannot be read: {problem}."
        raise ConfigError(message, "Check the path and its permissions.") from None
    return text.replace("\r\n", "\n")
