"""Loads run files: applies ``-o`` overrides to the YAML, and returns one `RunFile` per variant."""

import copy
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from harness.config.run_file import RunFile, flatten, is_below
from harness.config.sections import VARIABLE
from harness.config.settings import configured_secrets
from harness.config.validation import key_only, validated
from harness.config.yaml_text import RefusedYaml, is_plain_text, parse_yaml, read
from harness.errors import ConfigError, nearest


def override(tree: dict[str, Any], key: str, value: Any) -> None:
    """Set the value of a dotted key in nested mappings, adding missing sections.

    Elements of lists are found by ``as`` or else ``name``, as in ``judges.second.max_tokens``.

    Raises:
        ConfigError: If the key's path leads through a value or an unknown element, or ends at an
            element.
    """
    *sections, last = key.split(".")
    place: dict[str, Any] | list[Any] = tree
    for section in sections:
        below = (
            place.setdefault(section, {}) if isinstance(place, dict) else _element(place, section)
        )
        if not isinstance(below, dict | list):
            problem = f"{key_only(key)!r} cannot be set: {section!r} is a value, not a section."
            raise ConfigError(problem, "Check the key's path.")
        place = below
    if isinstance(place, list):
        elements = _named(place)
        if last not in elements:
            problem = (
                f"{key_only(key)!r} names no element of the list {key_only('.'.join(sections))!r}."
            )
            forms = [key_only(f"{'.'.join(sections)}.{name}.{last}") for name in elements]
            remedy = f"Name the element: {', '.join(forms)}." if forms else "The list is empty."
            raise ConfigError(problem, remedy)
        problem = f"{key_only(key)!r} cannot be set as a whole: it is an element of a list."
        raise ConfigError(problem, "Set its keys one by one.")
    place[last] = value


def _named(elements: list[Any]) -> dict[str, Any]:
    sections = [section for section in elements if isinstance(section, dict)]
    return {
        str(name): section
        for section in sections
        if (name := section.get("as") or section.get("name"))
    }


def _element(elements: list[Any], name: str) -> Any:
    by_name = _named(elements)
    if name not in by_name:
        remedy = nearest(name, by_name) or "Elements are found by their 'as' or 'name'."
        if name.isdecimal() and by_name:
            remedy = (
                f"Write an element's name, not its number: {', '.join(map(key_only, by_name))}."
            )
        elif name.isdecimal() and elements:
            remedy = (
                "Elements are found by name: give them 'as' in the file, or set the whole list."
            )
        raise ConfigError(f"The list has no element {key_only(name)!r}.", remedy)
    return by_name[name]


def parse_override(text: str) -> tuple[str, Any]:
    """Split an override ``key.path=value`` into the key and the value.

    Plain text is taken literally, without YAML's comments and folded lines, and so is a Jinja
    template that is not valid YAML. Other values are parsed as YAML.
    """
    key, equals, value = text.partition("=")
    if not equals or not all(key.split(".")):
        # Show only the beginning: without '=', a key may be run together with a secret.
        begin = "".join(re.findall(r"\A[\w.]*", text))
        begin = begin if begin == text else f"{begin}…"
        raise ConfigError(f"-o {begin!r} is not an override.", "Write -o key.path=value.")
    problem, remedy = (
        "the value is not valid YAML",
        f"Quote it: -o '{key_only(key)}=\"…\"'.",
    )
    try:
        keys = key.split(".")
        parsed = parse_yaml(value, keys)
        return key, value if is_plain_text(value, keys) else parsed
    except RefusedYaml as error:
        problem, remedy = str(error.problem), error.remedy
    except yaml.YAMLError as error:
        yaml_problem = str(getattr(error, "problem", ""))
        if "escape character" in yaml_problem:  # other messages may contain part of a secret
            problem += f" ({yaml_problem})"
            remedy = "Use single quotes: in double quotes, a backslash begins an escape."
    if re.search("{{|{%", value):
        return key, value
    raise ConfigError(f"-o {key_only(key)}: {problem}.", remedy)


def load(
    path: str | Path, overrides: Iterable[str] = (), further: Mapping[str, Any] | None = None
) -> dict[str, RunFile]:
    """Return the runs of a run file by variant. A file without variants has one run, named "".

    ``overrides`` have the form ``key.path=value``; ``further`` has values by dotted key.
    """
    return expand(read(Path(path)), str(path), overrides, further)


def expand(
    raw: dict[str, Any],
    path: str,
    overrides: Iterable[str] = (),
    further: Mapping[str, Any] | None = None,
    named: Callable[[str], dict[str, Any]] | None = None,
) -> dict[str, RunFile]:
    """Return the runs by variant, like `load`, given a run file's content (``raw``).

    ``path`` names the file in messages. ``named`` returns a model's section by the model's name.
    """
    fixed = [*map(parse_override, overrides), *(further or {}).items()]
    whole = _changed(raw, fixed, path, named)
    for section, key in (("task", "name"), ("model", "backend")):
        own = section not in raw and (whole.get("variants") or whole.get("matrix"))
        if own and isinstance(options := whole.get(section, {}), dict):
            whole[section] = {key: "", **options}  # each variant is validated with its own
    _refuse_no_backend(whole, path)
    base = validated(RunFile, whole, path)
    runs: dict[str, RunFile] = {}
    same: dict[str, str] = {}
    for name, changes in base.combinations().items():
        where = f"{path}, variant {name!r}"
        models = {k: v for k, v in changes.items() if _MODEL.fullmatch(k)}
        sections = {k: named(v) if named and isinstance(v, str) else v for k, v in models.items()}
        taken = flatten(sections)
        # A model option, such as the server, also applies to a variant's model that leaves it out.
        own = [
            (k, v)
            for k, v in fixed
            if is_below(k, models) and not any(is_below(k, [t]) or is_below(t, [k]) for t in taken)
        ]
        others = {k: v for k, v in fixed if (k, v) not in own}
        if lost := [key for key in flatten(others) if is_below(key, changes)]:
            problem = f"{where}: it sets {', '.join(lost)}, so an override has no effect."
            raise ConfigError(problem, "Change the run file, or remove the override.")
        tree = _changed(raw, [*others.items(), *changes.items(), *own], where, named)
        tree.pop("variants", None)
        tree.pop("matrix", None)
        for key in models:
            _refuse_other_address(_section(whole, key), _section(tree, key), key, where)
        runs[name] = validated(RunFile, tree, where)
        twin = same.setdefault(repr(runs[name]), name)
        if twin != name:
            raise ConfigError(f"{where}: it is identical to {twin!r}.", "Remove one of them.")
    return runs or {"": base}


def _refuse_no_backend(tree: Mapping[str, Any], where: str) -> None:
    """Raise ConfigError if a file's only model is the address of its variants' models."""
    model = tree.get("model")
    if isinstance(model, dict) and "base_url" in model and "backend" not in model:
        remedy = "For several models of one server: model: {backend: openai, base_url: URL} and "
        remedy += "matrix: {model.name: [A, B]}."
        raise ConfigError(f"{where}: model.backend is missing.", remedy)


def _refuse_other_address(
    base: Mapping[str, Any], variant: Mapping[str, Any], key: str, where: str
) -> None:
    """Raise ConfigError if a variant's model has lost the address that the file sets.

    The variant replaces the file's section ``base`` by ``variant``. A model of another provider has
    another address anyway.
    """
    url, provider = base.get("base_url"), base.get("preset") or base.get("backend")
    if (
        url
        and "base_url" not in variant
        and provider == (variant.get("preset") or variant.get("backend"))
    ):
        name = variant.get("name") or variant.get("backend")
        raise ConfigError(
            f"{where}: the file sends its calls to {url}, and the variant's model {name!r} would "
            "be called elsewhere.",
            f"To keep the address: {key}.name instead of {key}, as in matrix: {{{key}.name: "
            f"[A, B]}}. To use the provider's own: {key}: {{backend: {variant.get('backend')}, "
            f"name: {name}, base_url: null}}.",
        )


def _section(tree: Any, key: str) -> Mapping[str, Any]:
    """Return the section at a dotted key, or {} if there is none."""
    for part in key.split("."):
        mapping = _named(tree) if isinstance(tree, list) else tree
        tree = mapping.get(part) if isinstance(mapping, dict) else None
    return tree if isinstance(tree, dict) else {}


_MODEL = re.compile(r"model|polish|user\.model|judges\.[^.]+\.model")  # keys of models' sections


def refuse_secrets(tree: object, where: str) -> None:
    """Raise ConfigError, naming ``where``, if mappings contain a configured secret."""
    texts = list(_texts(tree, ""))
    variables = {text for place, text in texts if place.endswith("api_key_env")}
    for place, text in texts:
        variables |= {*VARIABLE.findall(text)} if ".headers." in f".{place}" else set()
    secrets = configured_secrets(variables)
    for place, text in texts:
        for variable, value in secrets.items():
            if value in text:
                problem = f"{place or 'it'} contains the value of {variable}, a secret"
                remedy = "Remove it. Backends read keys from the environment (model.api_key_env)."
                raise ConfigError(f"{where}: {problem}.", remedy)


def _texts(tree: object, place: str) -> Iterator[tuple[str, str]]:
    """Yield (place, text) for each key and scalar in nested mappings and lists.

    Places are dotted keys. The place of a key is that of the mapping that contains it.
    """
    if isinstance(tree, dict):
        for key, below in tree.items():
            yield place, str(key)
            yield from _texts(below, f"{place}.{key}".lstrip("."))
    elif isinstance(tree, list | tuple):
        for below in tree:
            yield from _texts(below, place)
    else:
        yield place, str(tree)


def _changed(
    raw: dict[str, Any],
    changes: Iterable[tuple[str, Any]],
    where: str,
    named: Callable[[str], dict[str, Any]] | None = None,
) -> dict[str, Any]:
    tree = copy.deepcopy(raw)
    judges = tree.get("judges")
    second = [*(judges if isinstance(judges, list) else ()), tree.get("user")]
    of_second = [(section_of, "model") for section_of in second if isinstance(section_of, dict)]
    for section, key in [(tree, "model"), (tree, "polish"), *of_second]:
        if named and isinstance(section.get(key), str):
            section[key] = named(section[key])
    for key, value in changes:
        try:
            if named and isinstance(value, str) and _MODEL.fullmatch(key):
                value = named(value)
            override(tree, key, value)
        except ConfigError as error:
            raise ConfigError(f"{where}: {error.message}", error.remedy) from None
    refuse_secrets(tree, where)
    return tree
