"""Loads run files: applies ``-o`` overrides to the YAML, and returns one `RunFile` per variant."""

import copy
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from harness.config.run_file import RunFile, flatten, is_below
from harness.config.sections import VARIABLE_REFERENCE
from harness.config.settings import configured_secrets
from harness.config.validation import safe_key, validate
from harness.config.yaml_text import RefusedYaml, is_plain_text, parse_yaml, read_mapping
from harness.errors import ConfigError, option, suggest_name


def set_key(tree: dict[str, Any], key: str, value: Any) -> None:
    """Set the value of a dotted key in nested mappings, adding missing sections.

    Elements of lists are found by ``as`` or else ``name``, as in ``judges.second.max_tokens``.

    Raises:
        ConfigError: If the key's path leads through a value or an unknown element, or ends at an
            element.
    """
    *sections, last = key.split(".")
    place: dict[str, Any] | list[Any] = tree
    for section in sections:
        if isinstance(place, dict):
            below = place.setdefault(section, {})
        else:
            below = _element(place, section)
        if not isinstance(below, dict | list):
            problem = f"{safe_key(key)!r} cannot be set: {section!r} is a value, not a section."
            raise ConfigError(problem, "Check the key's path.")
        place = below
    if isinstance(place, list):
        by_name = _by_name(place)
        if last not in by_name:
            list_key = ".".join(sections)
            problem = f"{safe_key(key)!r} names no element of the list {safe_key(list_key)!r}."
            forms = [safe_key(f"{list_key}.{name}.{last}") for name in by_name]
            remedy = f"Name the element: {', '.join(forms)}." if forms else "The list is empty."
            raise ConfigError(problem, remedy)
        problem = f"{safe_key(key)!r} cannot be set as a whole: it is an element of a list."
        raise ConfigError(problem, "Set its keys one by one.")
    place[last] = value


def _by_name(elements: list[Any]) -> dict[str, Any]:
    """Return those of a list's elements that are sections with a name."""
    by_name = {}
    for section in elements:
        name = isinstance(section, dict) and (section.get("as") or section.get("name"))
        if name:
            by_name[str(name)] = section
    return by_name


def _element(elements: list[Any], name: str) -> Any:
    by_name = _by_name(elements)
    if name not in by_name:
        remedy = suggest_name(name, by_name) or "Elements are found by their 'as' or 'name'."
        if name.isdecimal() and by_name:
            remedy = (
                f"Write an element's name, not its number: {', '.join(map(safe_key, by_name))}."
            )
        elif name.isdecimal() and elements:
            remedy = (
                "Elements are found by name: give them 'as' in the file, or set the whole list."
            )
        raise ConfigError(f"The list has no element {safe_key(name)!r}.", remedy)
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
    keys = key.split(".")
    problem = "the value is not valid YAML"
    remedy = f"Quote it: -o '{safe_key(key)}=\"…\"'."
    try:
        parsed = parse_yaml(value, keys)
        return key, value if is_plain_text(value, keys) else parsed
    except RefusedYaml as error:
        problem = str(error.problem)
        remedy = error.remedy
    except yaml.YAMLError as error:
        yaml_problem = str(getattr(error, "problem", ""))
        if "escape character" in yaml_problem:  # other messages may contain part of a secret
            problem += f" ({yaml_problem})"
            remedy = "Use single quotes: in double quotes, a backslash begins an escape."
    if re.search("{{|{%", value):
        return key, value
    raise ConfigError(f"-o {safe_key(key)}: {problem}.", remedy)


def load_variants(
    path: str | Path, overrides: Iterable[str] = (), values: Mapping[str, Any] | None = None
) -> dict[str, RunFile]:
    """Return the runs of a run file by variant. A file without variants has one run, named "".

    ``overrides`` have the form ``key.path=value``; ``values`` has values by dotted key.
    """
    return expand_variants(read_mapping(Path(path)), str(path), overrides, values)


def expand_variants(
    raw: dict[str, Any],
    path: str,
    overrides: Iterable[str] = (),
    values: Mapping[str, Any] | None = None,
    model_section: Callable[[str], dict[str, Any]] | None = None,
) -> dict[str, RunFile]:
    """Return the runs by variant, like `load`, given a run file's content (``raw``).

    ``path`` names the file in messages. ``model_section`` returns a model's section by its name.
    """
    fixed = [*map(parse_override, overrides), *(values or {}).items()]
    common = _changed(raw, fixed, path, model_section)
    if common.get("variants") or common.get("matrix"):
        for section, key in (("task", "name"), ("model", "backend")):
            options = common.get(section, {})
            if section not in raw and isinstance(options, dict):
                common[section] = {key: "", **options}  # each variant is validated with its own
    _refuse_no_backend(common, path)
    if "name" in common:
        remedy = f"A run has the name of its file, or another one with {option('name', 'NAME')}."
        raise ConfigError(f"{path}: unknown key 'name'.", f"{remedy} A task's name is task.name.")
    base = validate(RunFile, common, path)
    runs: dict[str, RunFile] = {}
    same: dict[str, str] = {}
    for name, changes in base.expanded_variants().items():
        where = f"{path}, variant {name!r}"
        model_keys = [key for key in changes if _MODEL.fullmatch(key)]
        of_models = _of_models(changes, model_keys, fixed, model_section)
        others = {key: value for key, value in fixed if (key, value) not in of_models}
        if lost := [key for key in flatten(others) if is_below(key, changes)]:
            problem = f"{where}: it sets {', '.join(lost)}, so an override has no effect."
            raise ConfigError(problem, "Change the run file, or remove the override.")
        tree = _changed(raw, [*others.items(), *changes.items(), *of_models], where, model_section)
        tree.pop("variants", None)
        tree.pop("matrix", None)
        for key in model_keys:
            _refuse_other_address(_section(common, key), _section(tree, key), key, where)
        runs[name] = validate(RunFile, tree, where)
        twin = same.setdefault(repr(runs[name]), name)
        if twin != name:
            raise ConfigError(f"{where}: it is identical to {twin!r}.", "Remove one of them.")
    return runs or {"": base}


def _of_models(
    changes: Mapping[str, Any],
    model_keys: Sequence[str],
    overrides: Iterable[tuple[str, Any]],
    model_section: Callable[[str], dict[str, Any]] | None,
) -> list[tuple[str, Any]]:
    """Return the overrides of a variant's models that the variant itself leaves out.

    An option of the file's model, such as the server, also applies to a variant's model.
    """
    sections = {key: changes[key] for key in model_keys}
    for key, section in sections.items():
        if model_section and isinstance(section, str):
            sections[key] = model_section(section)
    stated_keys = flatten(sections)
    of_models = []
    for key, value in overrides:
        is_stated = is_below(key, stated_keys) or any(is_below(s, [key]) for s in stated_keys)
        if is_below(key, model_keys) and not is_stated:
            of_models.append((key, value))
    return of_models


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
    url = base.get("base_url")
    provider = base.get("preset") or base.get("backend")
    is_same = provider == (variant.get("preset") or variant.get("backend"))
    if url and is_same and "base_url" not in variant:
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
        mapping = _by_name(tree) if isinstance(tree, list) else tree
        tree = mapping.get(part) if isinstance(mapping, dict) else None
    return tree if isinstance(tree, dict) else {}


_MODEL = re.compile(r"model|polish|user\.model|judges\.[^.]+\.model")  # keys of models' sections


def check_no_secrets(tree: object, where: str) -> None:
    """Raise ConfigError, naming ``where``, if mappings contain a configured secret."""
    texts = list(_texts(tree, ""))
    variables: set[str] = set()
    for place, text in texts:
        if place.endswith("api_key_env"):
            variables.add(text)
        if ".headers." in f".{place}":
            variables.update(VARIABLE_REFERENCE.findall(text))
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
    model_section: Callable[[str], dict[str, Any]] | None = None,
) -> dict[str, Any]:
    tree = copy.deepcopy(raw)
    judges = tree.get("judges")
    holders = [*(judges if isinstance(judges, list) else ()), tree.get("user")]
    models = [(holder, "model") for holder in holders if isinstance(holder, dict)]
    for section, key in [(tree, "model"), (tree, "polish"), *models]:
        if model_section and isinstance(section.get(key), str):
            section[key] = model_section(section[key])
    for key, value in changes:
        try:
            if model_section and isinstance(value, str) and _MODEL.fullmatch(key):
                value = model_section(value)
            set_key(tree, key, value)
        except ConfigError as error:
            raise ConfigError(f"{where}: {error.message}", error.remedy) from None
    check_no_secrets(tree, where)
    return tree
