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
    from jinja2.sandbox import ImmutableSandboxedEnvironment

# The Jinja filters allowed. They call nothing and add no padding (``center`` could add GBs).
FILTERS = frozenset(
    {"abs", "capitalize", "count", "d", "default", "dictsort", "first", "float", "int", "items"}
    | {"last", "length", "list", "lower", "map", "max", "min", "reject", "reverse", "select"}
    | {"sort", "string", "sum", "title", "trim", "truncate", "unique", "upper", "wordcount"}
)

LONGEST_TEMPLATE = 100_000
LONGEST_PROMPT = 10_000_000  # maximum characters of a prompt, and of a ``replace`` or ``join``
MOST_STEPS = 100_000  # maximum loop steps per prompt, over all of its loops


ROLES = ("system", "user", "assistant")
_OTHER_ROLES = {"ai", "bot", "developer", "human", "model", "tool"}
_HEADER = re.compile(r"(?m)^== (system|user|assistant) ==\n")
"""A line that begins a message (see `conversation`)."""


class _TooLong(Exception):
    """Raised if a prompt exceeds a limit."""


class Template:
    """A compiled prompt template.

    ``name``, for example ``task.prompt``, is for error messages. ``names`` are the fields used.

    Raises:
        ConfigError: If the text is not a valid template, or does more than templates may do.

    >>> Template("{{ q }}{% if hint is defined %} {{ hint }}{% endif %}", "").render({"q": "Why?"})
    'Why?'
    """

    def __init__(self, text: str, name: str) -> None:
        from jinja2 import TemplateError, meta

        self.text = text
        self.name = name
        if len(text) > LONGEST_TEMPLATE:
            raise ConfigError(f"{name} has more than {LONGEST_TEMPLATE:,} characters.")
        self._first_header = _HEADER.search(text)
        _refuse_near_headers(text, name, several=self._first_header is not None)
        try:
            tree = _environment().parse(text)
            _restrict(tree, name)
            self.names = frozenset(meta.find_undeclared_variables(tree) - {_STEPS})
            self._template = _environment().from_string(tree)
        except TemplateError as error:
            line = getattr(error, "lineno", None)
            place = f", line {line}" if line else ""
            problem = f"{name}{place}: {str(error.message).rstrip('.')}."
            raise ConfigError(problem, "Fields are written {{ question }}.") from None
        except RecursionError:
            raise ConfigError(f"{name} is nested too deeply.") from None

    def __reduce__(self) -> tuple[type[Template], tuple[str, str]]:
        return Template, (self.text, self.name)

    @property
    def sha256(self) -> str:
        """The SHA-256 of the template's text, as hexadecimal digits."""
        return hashlib.sha256(self.text.encode()).hexdigest()

    def refuse_unknown(self, fields: Collection[str]) -> None:
        """Raise ConfigError if the template uses a field that is not in ``fields``."""
        for name in sorted(self.names - set(fields)):
            problem = f"{self.name}: there is no field {name!r} here."
            raise ConfigError(problem, suggest_name(name, fields))

    def refuse_single_braces(self, fields: Collection[str]) -> None:
        """Raise DataInvalid if no field is used, but ``{NAME}`` names one of ``fields``."""
        if self.names:
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
            ConfigError: If a line of the template begins a message (see `conversation`).
            DataInvalid: If a field is missing or unsuitable, or if the prompt is too long.
        """
        from jinja2 import TemplateError, UndefinedError

        if self._first_header:
            line = self.text.count("\n", 0, self._first_header.start()) + 1
            raise ConfigError(
                f"{self.name}, line {line}: {self._first_header[0].strip()!r} would be sent as "
                "text, because this prompt is a single message.",
                "Remove the line. A system message belongs into its own key (such as task.system), "
                "if there is one.",
            )
        pieces: list[str] = []
        length = 0
        try:
            for piece in self._template.generate({**row, _STEPS: [0]}):
                pieces.append(piece)
                length += len(piece)
                if length > LONGEST_PROMPT:
                    raise _TooLong(f"a prompt of more than {LONGEST_PROMPT:,} characters")
        except UndefinedError as error:
            for field in sorted(self.names - row.keys()):
                if repr(field) in str(error):
                    problem = f"{self.name} needs the field {field!r}, which the row does not have."
                    raise DataInvalid(problem, suggest_name(field, map(str, row))) from None
            raise DataInvalid(f"{self.name}: {error.message}.") from None
        except (_TooLong, TemplateError, RecursionError) as error:
            problem = str(error).rstrip(".") or type(error).__name__
            raise DataInvalid(f"{self.name}: {problem}.") from None
        except (TypeError, ValueError, ArithmeticError, AttributeError, LookupError) as error:
            raise DataInvalid(f"{self.name}: a value does not fit ({error}).") from None
        return "".join(pieces)


def _refuse_near_headers(text: str, name: str, *, several: bool) -> None:
    """Raise ConfigError if a line is almost the beginning of a message, such as `=== User ===`.

    ``several`` says whether other lines begin messages. Names of other roles are then refused too.
    """
    for number, line in enumerate(text.split("\n"), start=1):
        near = re.fullmatch(r"=+(\w+)=*:?", "".join(line.split()))
        if near is None or line.count("=") < 2:
            continue
        word = near[1].lower()
        roles = get_close_matches(word, ROLES, n=1, cutoff=0.8)
        if not roles and not (several and word in _OTHER_ROLES):
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


_STEPS = "harness_loop_steps"  # name of the counter of loop steps in a template's context


def _restrict(tree: Any, where: str) -> None:
    """Make loops count their steps, and refuse constructs that templates may not use."""
    from jinja2 import nodes

    refused = {
        "calls or macros": (nodes.Call, nodes.CallBlock, nodes.Macro),
        "multiplication, powers or %": (nodes.Mul, nodes.Pow, nodes.Mod),
        "includes": (nodes.Include,),
        "imports or extends": (nodes.Import, nodes.FromImport, nodes.Extends),
        "blocks": (nodes.Block,),
        "assignments": (nodes.Assign, nodes.AssignBlock, nodes.With),
    }
    for what, kinds in refused.items():
        for node in tree.find_all(kinds):
            raise ConfigError(f"{where}, line {node.lineno}: a prompt template cannot have {what}.")
    for node in tree.find_all(nodes.Filter):
        if node.name not in _environment().filters:
            remedy = suggest_name(str(node.name), {*FILTERS, *_OWN})
            raise ConfigError(f"{where}, line {node.lineno}: no filter {node.name!r:.40}.", remedy)
    for node in tree.find_all(nodes.For):
        if node.recursive:
            raise ConfigError(f"{where}, line {node.lineno}: a loop cannot be recursive.")
        counter = nodes.Name(_STEPS, "load", lineno=node.lineno)
        options: tuple[Any, ...] = [counter], [], None, None
        node.iter = nodes.Filter(node.iter, "counted", *options, lineno=node.lineno)


def _counted(values: Iterable[Any], steps: list[int]) -> list[Any]:
    items = list(islice(values, MOST_STEPS - steps[0] + 1))
    steps[0] += len(items) + 1  # an empty loop within another is a step too
    if steps[0] > MOST_STEPS:
        raise _TooLong(f"more than {MOST_STEPS:,} steps of loops")
    return items


def _bounded(length: int) -> None:
    if length > LONGEST_PROMPT:
        raise _TooLong(f"a text of more than {LONGEST_PROMPT:,} characters")


def _replace(text: str, old: str, new: str) -> str:
    text = str(text)
    old = str(old)
    new = str(new)
    _bounded(len(text) + text.count(old) * len(new))
    return text.replace(old, new)


def _join(values: Iterable[Any], between: str = "") -> str:
    parts = [str(value) for value in values]
    _bounded(sum(map(len, parts)) + len(parts) * len(str(between)))
    return str(between).join(parts)


# Bounded replacements for Jinja filters, and our own.
_OWN: Mapping[str, Callable[..., Any]] = {
    "replace": _replace,
    "join": _join,
    "tojson": functools.partial(json.dumps, ensure_ascii=False),  # no HTML escapes
    "round": lambda value, digits=0: round(value, digits),
    "split": lambda text, at=None: str(text).split(at),
    # Removes the tags put around untrusted text, for prompts that were published without tags.
    "untagged": lambda text: re.sub(r"\A<(\w+)>\n(.*)\n</\1>\Z", r"\2", str(text), flags=re.S),
}


def _data_only(value: Any) -> Any:
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

    environment = Environment(undefined=StrictUndefined, finalize=_data_only, cache_size=0)
    environment.globals.clear()
    allowed = {name: environment.filters[name] for name in FILTERS}
    environment.filters = {**allowed, **_OWN, "counted": _counted}
    return environment


ENDING = ".jinja"
# Where built-in prompts are, in an installed package and in the source tree.
FOLDERS = (Path(__file__).with_name("texts"), Path(__file__).parents[2] / "prompts")


def is_path(prompt: str) -> bool:
    """Return whether a prompt is named by its file's path: built-in prompts of judges are not."""
    return "/" in prompt or prompt.endswith(ENDING)


def named(folder: str = "") -> list[str]:
    """Return the sorted names of all built-in prompts, or of those in one folder."""
    names = {
        path.relative_to(root).with_suffix("").as_posix()
        for root in FOLDERS
        for path in root.glob(f"{folder or '**'}/*{ENDING}")
    }
    return sorted(names)


def read(name: str) -> Template:
    """Return the template of a built-in prompt.

    Rendering the template omits the newline at the end of its file.

    Raises:
        DataMissing: If there is no such prompt.
    """
    for root in FOLDERS:
        path = root / f"{name}{ENDING}"
        if path.is_file():
            return Template(_text(path), f"prompts/{name}{ENDING}")
    raise DataMissing(f"There is no prompt {name!r}.", suggest_name(name, named()))


def conversation(template: Template, row: Mapping[str, Any]) -> tuple[Message, ...]:
    """Return the messages that a template gives for a row.

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
    parts: list[Any] = turns or ["user", first]
    pairs = zip(parts[::2], parts[1::2], strict=True)
    return tuple(Message(role, Template(text, template.name).render(row)) for role, text in pairs)


def read_file(path: Path, option: str) -> Template:
    """Return the template in a user's file.

    ``option`` is the key in the run file that names the file, for error messages.

    Raises:
        ConfigError: If the file cannot be read, or is not a valid template.
    """
    return Template(_text(path), option)


def _text(path: Path) -> str:
    try:
        with path.open(encoding="utf-8", newline="") as file:
            text = file.read(LONGEST_TEMPLATE + 2)
    except (OSError, UnicodeDecodeError) as error:
        problem = getattr(error, "strerror", None) or "it is not UTF-8"
        message = f"The prompt {path} cannot be read: {problem}."
        raise ConfigError(message, "Check the path and its permissions.") from None
    return text.replace("\r\n", "\n")
