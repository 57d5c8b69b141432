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

    Args:
        tree: The mappings, which are changed.
        key: The dotted key. Elements of lists are found by ``as`` or else ``name``, as in
            ``judges.second.max_tokens``.
        value: The new value.

    Raises:
        ConfigError: If the key's path leads through a value or an unknown element, or ends at an
            element.
    """
    *sections, last = key.split(".")
    parent: dict[str, Any] | list[Any] = tree
    for section in sections:
        if isinstance(parent, dict):
            child = parent.setdefault(section, {})
        else:
            child = _find_element(parent, section)
        if not isinstance(child, dict | list):
            problem = f"{safe_key(key)!r} cannot be set: {section!r} is a value, not a section."
            raise ConfigError(problem, "Check the key's path.")
        parent = child
    if isinstance(parent, list):
        by_name = _elements_by_name(parent)
        if last not in by_name:
            list_key = ".".join(sections)
            problem = f"{safe_key(key)!r} names no element of the list {safe_key(list_key)!r}."
            forms = [safe_key(f"{list_key}.{name}.{last}") for name in by_name]
            remedy = f"Name the element: {', '.join(forms)}." if forms else "The list is empty."
            raise ConfigError(problem, remedy)
        problem = f"{safe_key(key)!r} cannot be set as a whole: it is an element of a list."
        raise ConfigError(problem, "Set its keys one by one.")
    parent[last] = value


def _elements_by_name(elements: list[Any]) -> dict[str, Any]:
    """Return the elements of a list that are sections with a name, by name."""
    by_name = {}
    for section in elements:
        name = isinstance(section, dict) and (section.get("as") or section.get("name"))
        if name:
            by_name[str(name)] = section
    return by_name


def _find_element(elements: list[Any], name: str) -> Any:
    by_name = _elements_by_name(elements)
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
        beginning = "".join(re.findall(r"\A[\w.]*", text))
        beginning = beginning if beginning == text else f"{beginning}…"
        raise ConfigError(f"-o {beginning!r} is not an override.", "Write -o key.path=value.")
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
    """Load the runs of a run file, by variant. A file without variants has one run, named "".

    Args:
        path: The run file.
        overrides: Overrides of the form ``key.path=value``.
        values: Further values to set, by dotted key.

    Raises:
        ConfigError: If the file or an override is invalid.
    """
    return expand_variants(read_mapping(Path(path)), str(path), overrides, values)


def expand_variants(
    raw: dict[str, Any],
    path: str,
    overrides: Iterable[str] = (),
    values: Mapping[str, Any] | None = None,
    model_section: Callable[[str], dict[str, Any]] | None = None,
) -> dict[str, RunFile]:
    """Return the runs of a run file's content, by variant, like `load_variants`.

    Args:
        raw: The file's content.
        path: Names the file in messages.
        overrides: Overrides of the form ``key.path=value``.
        values: Further values to set, by dotted key.
        model_section: Returns the section of a model that is given by its name only.

    Raises:
        ConfigError: If the content or an override is invalid.
    """
    fixed = [*map(parse_override, overrides), *(values or {}).items()]
    common = _apply_changes(raw, fixed, path, model_section)
    if common.get("variants") or common.get("matrix"):
        for section, key in (("task", "name"), ("model", "backend")):
            options = common.get(section, {})
            if section not in raw and isinstance(options, dict):
                common[section] = {key: "", **options}  # each variant is validated with its own
    _check_backend(common, path)
    if "name" in common:
        remedy = f"A run has the name of its file, or another one with {option('name', 'NAME')}."
        raise ConfigError(f"{path}: unknown key 'name'.", f"{remedy} A task's name is task.name.")
    base = validate(RunFile, common, path)
    runs: dict[str, RunFile] = {}
    first_names: dict[str, str] = {}  # of the variants, by their content
    for name, changes in base.expanded_variants().items():
        where = f"{path}, variant {name!r}"
        model_keys = [key for key in changes if _MODEL_KEY.fullmatch(key)]
        model_overrides = _model_overrides(changes, model_keys, fixed, model_section)
        before = {key: value for key, value in fixed if (key, value) not in model_overrides}
        if without_effect := [key for key in flatten(before) if is_below(key, changes)]:
            problem = f"{where}: it sets {', '.join(without_effect)}, so an override has no effect."
            raise ConfigError(problem, "Change the run file, or remove the override.")
        all_changes = [*before.items(), *changes.items(), *model_overrides]
        tree = _apply_changes(raw, all_changes, where, model_section)
        tree.pop("variants", None)
        tree.pop("matrix", None)
        for key in model_keys:
            _check_same_address(_section(common, key), _section(tree, key), key, where)
        runs[name] = validate(RunFile, tree, where)
        first_name = first_names.setdefault(repr(runs[name]), name)
        if first_name != name:
            raise ConfigError(f"{where}: it is identical to {first_name!r}.", "Remove one of them.")
    return runs or {"": base}


def _model_overrides(
    changes: Mapping[str, Any],
    model_keys: Sequence[str],
    overrides: Iterable[tuple[str, Any]],
    model_section: Callable[[str], dict[str, Any]] | None,
) -> list[tuple[str, Any]]:
    """Return the overrides of keys in a variant's models that the variant does not set itself.

    They also apply to the variant's models, for example the address of a server.

    Args:
        changes: What the variant sets, by dotted key.
        model_keys: The keys among these that replace a model's section.
        overrides: All overrides, as pairs of a dotted key and a value.
        model_section: Returns the section of a model that is given by its name only.
    """
    sections = {key: changes[key] for key in model_keys}
    for key, section in sections.items():
        if model_section and isinstance(section, str):
            sections[key] = model_section(section)
    stated_keys = flatten(sections)
    model_overrides = []
    for key, value in overrides:
        is_stated = is_below(key, stated_keys) or any(is_below(s, [key]) for s in stated_keys)
        if is_below(key, model_keys) and not is_stated:
            model_overrides.append((key, value))
    return model_overrides


def _check_backend(tree: Mapping[str, Any], where: str) -> None:
    """Raise ConfigError if a file's only model is the address of its variants' models."""
    model = tree.get("model")
    if isinstance(model, dict) and "base_url" in model and "backend" not in model:
        remedy = "For several models of one server: model: {backend: openai, base_url: URL} and "
        remedy += "matrix: {model.name: [A, B]}."
        raise ConfigError(f"{where}: model.backend is missing.", remedy)


def _check_same_address(
    base: Mapping[str, Any], variant: Mapping[str, Any], key: str, where: str
) -> None:
    """Raise ConfigError if a variant's model has lost the address that the file sets.

    The variant replaces the file's section ``base`` by ``variant``. A model of another provider has
    another address anyway.
    """
    url = base.get("base_url")
    provider = base.get("preset") or base.get("backend")
    is_same_provider = provider == (variant.get("preset") or variant.get("backend"))
    if url and is_same_provider and "base_url" not in variant:
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
        mapping = _elements_by_name(tree) if isinstance(tree, list) else tree
        tree = mapping.get(part) if isinstance(mapping, dict) else None
    return tree if isinstance(tree, dict) else {}


_MODEL_KEY = re.compile(r"model|polish|user\.model|judges\.[^.]+\.model")  # of models' sections


def check_no_secrets(tree: object, where: str) -> None:
    """Raise ConfigError if nested mappings contain a configured secret.

    ``where`` names the mappings' source in the message.
    """
    texts = list(_texts(tree, ""))
    variables: set[str] = set()
    for path, text in texts:
        if path.endswith("api_key_env"):
            variables.add(text)
        if ".headers." in f".{path}":
            variables.update(VARIABLE_REFERENCE.findall(text))
    secrets = configured_secrets(variables)
    for path, text in texts:
        for variable, value in secrets.items():
            if value in text:
                problem = f"{path or 'it'} contains the value of {variable}, a secret"
                remedy = "Remove it. Backends read keys from the environment (model.api_key_env)."
                raise ConfigError(f"{where}: {problem}.", remedy)


def _texts(tree: object, path: str) -> Iterator[tuple[str, str]]:
    """Yield a dotted key and a text for each key and scalar in nested mappings and lists.

    The dotted key of a key is that of the mapping that contains it. ``path`` is that of ``tree``.
    """
    if isinstance(tree, dict):
        for key, child in tree.items():
            yield path, str(key)
            yield from _texts(child, f"{path}.{key}".lstrip("."))
    elif isinstance(tree, list | tuple):
        for child in tree:
            yield from _texts(child, path)
    else:
        yield path, str(tree)


def _apply_changes(
    raw: dict[str, Any],
    changes: Iterable[tuple[str, Any]],
    where: str,
    model_section: Callable[[str], dict[str, Any]] | None = None,
) -> dict[str, Any]:
    """Return a copy of a run file's content in which dotted keys have new values.

    Args:
        raw: The file's content.
        changes: Pairs of a dotted key and its new value.
        where: Names the file in messages.
        model_section: Returns the section of a model that is given by its name only.

    Raises:
        ConfigError: If a key cannot be set, or the result contains a secret.
    """
    tree = copy.deepcopy(raw)
    judges = tree.get("judges")
    parents = [*(judges if isinstance(judges, list) else ()), tree.get("user")]
    models = [(parent, "model") for parent in parents if isinstance(parent, dict)]
    for section, key in [(tree, "model"), (tree, "polish"), *models]:
        if model_section and isinstance(section.get(key), str):
            section[key] = model_section(section[key])
    for key, value in changes:
        try:
            if model_section and isinstance(value, str) and _MODEL_KEY.fullmatch(key):
                value = model_section(value)
            set_key(tree, key, value)
        except ConfigError as error:
            raise ConfigError(f"{where}: {error.message}", error.remedy) from None
    check_no_secrets(tree, where)
    return tree
