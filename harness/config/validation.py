"""Explains errors in configuration files.

The messages name keys. They quote only values that cannot be secret, such as numbers and names.
"""

import re
from collections.abc import Sequence
from dataclasses import is_dataclass
from typing import Annotated, Any, Literal, TypeVar, get_args, get_origin, get_type_hints

from pydantic import BaseModel, BeforeValidator, ConfigDict, GetCoreSchemaHandler, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import CoreSchema, ErrorDetails, core_schema

from harness.declarations import declared_members
from harness.errors import ConfigError, suggest_name

M = TypeVar("M", bound=BaseModel)

_SECTION = "must be a section, with keys below it"
REQUIREMENTS = {
    "missing": "is missing",
    "string_type": "must be text: put it in quotes",
    "int_type": "must be a whole number",
    "float_type": "must be a number",
    "float_parsing": "must be a number",
    "finite_number": "must be a finite number",
    "bool_type": "must be true or false",
    "bool_parsing": "must be true or false",
    "date_from_datetime_parsing": "must be a date, such as 2026-11-20",
    "tuple_type": "must be a list",
    "dict_type": _SECTION,
    "model_type": _SECTION,
    "dataclass_type": _SECTION,
}
"""For each error type of Pydantic, the text that follows the key in a message."""

EXAMPLES = {
    f"task {_SECTION}": "task: {name: jsonl, path: rows.jsonl}",
    f"model {_SECTION}": "model: {backend: openai, name: gpt-4o-mini}",
}
"""For messages that a section must be a mapping, an example of a valid section."""


class Section(BaseModel):
    """A section of a configuration file. Unknown keys are errors."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class Declared:
    """Marks a key of a section whose type a plug-in declares as one of its ``sections``.

    Args:
        key: The key in run files, such as ``limits.batch``.
        docs: The page of the documentation that describes the key.
    """

    def __init__(self, key: str, docs: str) -> None:
        self.key = key
        self.docs = docs

    def load_type(self) -> Any:
        """Return the declared type, or None if no plug-in declares the key."""
        members = declared_members("sections").get(self.key)
        return members[0].load() if members else None

    def __get_pydantic_core_schema__(self, _: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        if (declared_type := self.load_type()) is not None:
            return handler.generate_schema(declared_type)
        return core_schema.no_info_plain_validator_function(self._check_unset)

    def _check_unset(self, content: object) -> None:
        if content is not None:
            raise ValueError(f"no plug-in for this key is installed (harness docs {self.docs})")


def _check_reasoning(marks: object) -> object:
    if marks is None or marks == "keep":
        return marks
    if not isinstance(marks, list | tuple) or not marks:
        raise ValueError("must be keep, or a list of names and of pairs [OPENING, CLOSING]")
    for item in marks:
        if isinstance(item, str) and item:
            continue
        pair = item if isinstance(item, list | tuple) else ()
        if len(pair) != 2 or not all(isinstance(mark, str) and mark.strip() for mark in pair):
            raise ValueError("each item must be a name, or a pair [OPENING, CLOSING] of texts")
    return marks


ReasoningMarks = Annotated[
    Literal["keep"] | tuple[str | tuple[str, str], ...] | None, BeforeValidator(_check_reasoning)
]
"""The marks around a model's reasoning: ``keep``, or names and pairs. None: all known marks."""


def safe_key(key: str) -> str:
    """Return a key for a message, without the part after ":", "=" or a space.

    That part may be a secret.
    """
    name = re.split(r"[:=\s]", key.strip(), maxsplit=1)[0]
    return name if name == key else f"{name}…"


def validate(model: type[M], tree: object, where: str, form: str = "") -> M:
    """Validate nested mappings with a Pydantic model.

    Args:
        model: The model's class.
        tree: The mappings.
        where: Names the source, such as a file, at the beginning of messages.
        form: The remedy in messages.

    Returns:
        An instance of the model.

    Raises:
        ConfigError: If the mappings are invalid.
    """
    try:
        return model.model_validate(tree)
    except ValidationError as error:
        raise ConfigError(
            f"{where}: {'; '.join(describe_errors(error, model)[:3])}.", form
        ) from None


def describe_errors(error: ValidationError, model: type[BaseModel]) -> list[str]:
    """Describe each validation error in a phrase that names the key."""
    return [_describe_error(details, model) for details in error.errors()]


def _describe_error(details: ErrorDetails, model: type[BaseModel]) -> str:
    # Pydantic names the types of a union in the location: `DecodingConstraint | Literal["task"]`.
    parts = [str(part) for part in details["loc"]]
    parts = [part for part in parts if not re.match(r"literal\[|DecodingConstraint$", part)]
    key = ".".join(map(safe_key, parts))
    kind = details["type"]
    if kind in ("extra_forbidden", "unexpected_keyword_argument"):
        hint = _suggest_key(parts[-1], parts[:-1], model).rstrip(".")
        return f"unknown key {key!r:.80} ({hint[:1].lower()}{hint[1:]})"
    if kind in REQUIREMENTS:
        message = f"{key} {REQUIREMENTS[kind]}".lstrip()
        if message in EXAMPLES:
            message += f", such as {EXAMPLES[message]}"
        return message
    message = details["msg"].removeprefix("Value error, ").replace("Input should be", "must be", 1)
    return f"{key}: {message[:1].lower()}{message[1:]}" if key else message


def _suggest_key(key: str, section: Sequence[str], model: type[BaseModel]) -> str:
    if ":" in key:
        return "A space is missing after its colon"
    if not section:
        for name in model.model_fields:
            if key in _valid_keys(model, [name]):
                return f"Did you mean {f'{name}.{key}'!r}?"
    return suggest_name(key, _valid_keys(model, section), "".join(f"{part}." for part in section))


def _valid_keys(model: Any, section: Sequence[str]) -> list[str]:
    for part in section:
        if is_dataclass(model):
            model = get_type_hints(model).get(part)
        else:  # an index of a list or key of a mapping does not change the section
            by_key = {field.alias or name: field for name, field in model.model_fields.items()}
            model = _type_of(by_key[part]) if part in by_key else model
        while not _is_section(model):
            # In a list or mapping of sections, or a union of types, find the section.
            kinds = get_args(model)
            if not kinds:
                return []
            model = next(filter(_is_section, kinds), kinds[-1])
    if is_dataclass(model):
        return list(model.__dataclass_fields__)
    return [field.alias or name for name, field in model.model_fields.items()]


def _type_of(field: FieldInfo) -> Any:
    for mark in field.metadata:
        if isinstance(mark, Declared):
            declared = mark.load_type()
            return declared.__origin__ if get_origin(declared) is Annotated else declared
    return field.annotation


def _is_section(kind: Any) -> bool:
    return is_dataclass(kind) or (isinstance(kind, type) and issubclass(kind, BaseModel))
