"""All verbs together: their options mean the same, and their help is readable."""

import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from harness.cli import _import_command
from harness.cli.options import RUN, RUNS
from harness.cli.verbs import all_verbs
from harness.plugin_loader import kind
from tests.cli.command import harness

OTHER_MODELS = {"mock", "cache prune"}
"""Verbs whose ``--model`` does not name a model to ask."""


def commands() -> Iterator[tuple[str, Any]]:
    verbs = dict(all_verbs())
    for declared in all_verbs().values():
        for word, place in declared.subverbs.items():
            verbs[word] = replace(declared, target=place)
    for verb, declared in verbs.items():
        command = _import_command(verb, declared)
        if below := getattr(command, "commands", None):
            yield from ((f"{verb} {name}", one) for name, one in below.items())
        else:
            yield verb, command


COMMANDS = dict(commands())
OPTIONS = {
    verb: [one for one in command.params if one.param_type_name == "option"]
    for verb, command in COMMANDS.items()
}


def test_a_letter_has_one_meaning() -> None:
    meanings = defaultdict(set)
    for option in (one for options in OPTIONS.values() for one in options):
        for letter in (name for name in option.opts if len(name) == 2):
            meanings[letter].add(tuple(name for name in option.opts if name != letter))
    assert (
        dict(meanings).items()
        <= {"-m": {("--model",)}, "-o": {("--override",)}, "-n": {()}}.items()
    )


def test_an_option_has_its_letter_in_all_verbs() -> None:
    letters = {"--override": "-o", "--model": "-m"}
    for verb, options in OPTIONS.items():
        for option in options:
            for name in set(option.opts) & set(letters):
                assert letters[name] in option.opts or verb in OTHER_MODELS, (verb, name)


def test_a_name_is_a_flag_in_all_verbs_or_in_none() -> None:
    kinds = defaultdict(lambda: defaultdict(list))  # type: ignore[var-annotated]
    for verb, options in OPTIONS.items():
        for option in options:
            for name in option.opts:
                kinds[name][bool(option.is_flag)].append(verb)
    kinds.pop("--cluster", None)  # of machines in doctor, of samples in compare and matrix
    assert not {name: dict(found) for name, found in kinds.items() if len(found) > 1}


def test_former_names_lead_to_options() -> None:
    former = {verb: declared.former_options for verb, declared in all_verbs().items()}
    for verb, names in former.items():
        own = [options for name, options in OPTIONS.items() if name.split()[0] == verb]
        known = {name for options in own for option in options for name in option.opts}
        assert set(names.values()) <= known
        if verb != "build":
            assert not known & (set(names) - {"-o"})


def test_every_verb_takes_runs_alike() -> None:
    taken = {
        verb: parameter
        for verb, command in COMMANDS.items()
        for parameter in command.params
        if parameter.name in ("run", "runs")
    }
    of_plugins = {"compare", "show", "judge", "validate", "errors draw", "export"} & COMMANDS.keys()
    assert {"rm", "mv"} | of_plugins <= taken.keys()
    for verb, parameter in taken.items():
        assert parameter.param_type_name == "argument", verb
        assert parameter.help in (RUN, RUNS), verb
        assert parameter.metavar == "RUN", verb


@pytest.mark.parametrize("verb", ["", *COMMANDS])
def test_help_shows_neither_types_nor_cut_lines(verb: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    words = {"validate": ["judge", "validate"]}.get(verb, verb.split())
    said = harness(*words, "--help").stdout
    assert "..." not in said.replace("}...", "").replace("]...", "").replace("[ARGS]...", "")
    assert not re.findall(r"<(?:int|str|float|path|file|list)[^>|]*>|typing\.", said)
    assert all(len(line) <= 80 for line in said.splitlines())


@pytest.mark.parametrize(
    "verb", sorted({"compare", "table", "ablation", "matrix", "check"} & COMMANDS.keys())
)
def test_a_comparison_begins_with_its_question(verb: str) -> None:
    first = " ".join(COMMANDS[verb].help.partition("\n\n")[0].split())
    assert first.endswith("?")
    assert all_verbs()[verb].summary.partition("?")[1]


def test_lists_of_choices_are_shown_as_choices() -> None:
    said = "\n".join(harness("tasks", name).stdout for name in kind("tasks").names())
    assert "typing." not in said
    assert "list[" not in said
    assert "Check the path" not in said  # every data set that is listed has a name
