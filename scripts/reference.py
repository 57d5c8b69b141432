"""Writes the pages of docs/reference that scripts/docs makes: python scripts/reference.py FOLDER

commands.md has the help of every command, and plugins.md the options of every plug-in. run_file.md
has the keys of a run file, and records.md the fields of records, with their types, defaults and
comments in the code. The examples are below; each is parsed, and a wrong one ends the program.
"""

import inspect
import json
import os
import re
import shlex
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

os.environ["COLUMNS"] = "80"

import yaml
from typer.core import TyperGroup
from typer.main import get_command
from typer.testing import CliRunner

from harness import records
from harness.cli import app
from harness.cli.verbs import all_verbs
from harness.config import run_file, sections
from harness.plugins.gate.section import CheckSection
from harness.records import Decoding, DecodingConstraint

COMMANDS = """
run quickstart
run my_run.yaml --dry-run
run my_run.yaml --model openai/gpt-4o-mini --limit 50 -o decoding.temperature=0
eval ifeval,collie --model openai/gpt-4o-mini,anthropic/claude-haiku-4-5 --limit 50 --budget 5
init my_benchmark
configs
reproduce collie
reproduce --verify collie.html
ls
show quickstart
show quickstart --failed
show quickstart --instance sent01/0
view quickstart
report quickstart other --output models.html
mv quickstart monday
rm monday --yes
compare quickstart other --by structure
table quickstart other --rows structure --format latex
ablation my_run --by category
matrix my_run
check quickstart --min pass_rate=0.9
check quickstart --baseline other --max-drop 0.02 --format junit
score quickstart
judge quickstart --judge my_judge.yaml
judge validate quickstart --against labels.jsonl
errors draw quickstart
errors tally sheet.csv
tasks ifeval
backends
checkers contains
judges yes_no
prices gpt-4o
doctor
data fetch ifeval
data ls
data path
data describe collie
cache stats
cache prune --older-than 30d --dry-run
export quickstart --output quickstart.parquet
import out/samples_ifeval.jsonl --name ifeval_lm_eval
mock --rpm 600 --latency 0.2 --fault 429=0.1
"""

RUN_FILE = {
    "": """
        task: {name: ifeval, dataset: public}
        model: {backend: openai, name: gpt-4o-mini}
        samples: 4
        variants: {one_answer: {}, feedback: {rounds.max: 3}}
        """,
    "task": """
        task: {name: jsonl, path: rows.csv, prompt: "{{ question }}", checks: [exact_match]}
        """,
    "task.shots": "task: {name: collie, shots: {n: 1, within: [structure], allow_fewer: true}}",
    "model": """
        model:
          backend: openai
          name: my-model
          base_url: https://models.example.org/v1
          api_key_env: MY_KEY
          price: {input: 0.2, output: 0.6}
        """,
    "decoding": "decoding: {temperature: 0, max_tokens: 1000, extra: {reasoning_effort: low}}",
    "decoding.constraint": 'decoding: {constraint: {regex: "[a-z]{4}"}}',
    "rounds": "rounds: {max: 4, stop_on_pass: true}",
    "limits": "limits: {concurrency: 100, rpm: 600, tpm: 100_000}",
    "budget": "budget: {usd: 20}",
    "judges": """
        judges:
          - name: yes_no
            as: polite
            model: {backend: openai, name: gpt-4o-mini, limits: {rpm: 500}}
        """,
    "panels": """
        judges:
          - {name: yes_no, as: small, model: {backend: openai, name: gpt-4o-mini}}
          - {name: yes_no, as: large, model: {backend: openai, name: gpt-4o}}
        panels: [{as: both, of: [small, large], by: mean}]
        """,
    "polish": "polish: {backend: openai, name: gpt-4o-mini}",
    "check": "check: {min: {pass_rate: 0.9}, by: language}",
}
SECTIONS = {
    "": run_file.RunFile,
    "task": sections.TaskSection,
    "task.shots": sections.ShotsSection,
    "model": sections.EvaluatedModelSection,
    "decoding": Decoding,
    "decoding.constraint": DecodingConstraint,
    "rounds": sections.RoundsSection,
    "limits": sections.LimitsSection,
    "budget": sections.BudgetSection,
    "judges": sections.JudgeSection,
    "panels": sections.PanelSection,
    "polish": sections.PolishSection,
    "check": CheckSection,
}
"""The sections by their keys in a run file."""
MORE = {
    "": "run-files.md",
    "task": "reference/plugins.md",
    "task.shots": "few_shot.md",
    "model": "providers.md",
    "decoding": "providers.md#what-each-backend-accepts",
    "decoding.constraint": "providers.md#constrained-decoding",
    "rounds": "runs.md",
    "limits": "limits.md",
    "budget": "limits.md#money",
    "judges": "judges.md",
    "panels": "judges.md#a-panel-judges-that-decide-together",
    "polish": "collie.md#the-papers-extras",
    "check": "check.md",
}
RECORDS = (
    *(records.Attempt, records.Score, records.Usage, records.Instance),
    *(records.Message, records.Request, records.Reply, records.Question, records.Criterion),
)
OPTIONS = {"task": "tasks", "model": "backends", "polish": "backends", "judges": "judges"}
"""Sections whose other keys are a plug-in's options, by its heading in plugins.md."""

BELOW_GUIDES = "---\nsearch: {boost: 0.5}\n---\n"  # in search results
KEY = re.compile(r"^    (\w+): (.+?)(?: = (.+?))?(?:  # (.+))?$", re.MULTILINE)
WORDS: dict[str, Any] = {
    r"Annotated\[(\w+), .*\]": r"\1",
    r'"': "",
    r"Literal\[([^]]*)\]": lambda found: found[1].replace(", ", " or "),
    r"tuple\[(\w+), \.\.\.\]": r"list of \1",
    r"\bdict\[.*\]": "mapping",
    r"^Any$": "section or null",
    r" \| ": " or ",
    r"\bNone\b": "null",
    r"\bstr\b|\bJudgeName\b": "text",
    r"\bint\b|\bCount\b|\bSeed\b": "whole number",
    r"\bfloat\b": "number",
    r"\bbool\b": "true or false",
    r"list of (Judge|Panel)Section": r"list of sections",
    r"^Bounds$": "section or null",
    r"ReasoningMarks": "keep, or list",
    r"\w+Section|DecodingConstraint|\bPrice\b|^Decoding$": "section",
}
"""Python's notation of types, and the words for them in a run file, in order."""
DEFAULTS = {
    "None": "`null`",
    "True": "`true`",
    "False": "`false`",
    "()": "`[]`",
    "dict": "`{}`",
    "": "`''`",
}


def text(*words: str) -> str:
    ended = CliRunner().invoke(app, [*words], prog_name="harness", catch_exceptions=False)
    assert ended.exit_code == 0, words
    return ended.stdout.strip()


def fenced(lines: str, language: str) -> str:
    return f"```{language}\n{lines}\n```\n"


def parse(line: str) -> None:
    """Raise click.UsageError unless a command line is valid."""
    verb, *words = shlex.split(line)
    group: Any = get_command(app)
    context: Any = group.get_command(group.make_context("harness", ["ls"]), verb).make_context(
        verb, words
    )
    if isinstance(context.command, TyperGroup):
        found: Any = context.command.get_command(context, words[0])
        found.make_context(words[0], words[1:])


def table(header: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    lines = [list(header), ["---"] * len(list(header)), *map(list, rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"


def commands() -> str:
    examples = COMMANDS.strip().splitlines()
    for line in examples:
        parse(line)
    pages = [
        "# Options of commands\n",
        "[Commands](../commands.md) explains exit codes and common options.\n",
    ]
    for name in all_verbs():
        shown = text(name, "--help")
        below = re.findall(r"^  (\w+) ", shown.partition("Commands:")[2], re.MULTILINE)
        verbs = ["validate"] if name == "judge" else below
        for words in ([name], *([name, verb] for verb in verbs)):
            pages.append(f"{'#' * (len(words) + 1)} harness {' '.join(words)}\n")
            mine = [line for line in examples if re.match(rf"{' '.join(words)}\b", line)]
            if words == [name]:
                mine = [line for line in mine if line.split()[1:2] not in [[one] for one in verbs]]
            if mine:
                pages.append(fenced("\n".join(f"harness {line}" for line in mine), "sh"))
            pages.append(fenced(text(*words, "--help"), "text"))
    return "\n".join(pages)


def keys(name: str) -> Iterable[list[str]]:
    """Yield the name, type, default and meaning of each key of a section, as cells."""
    source = inspect.getsource(SECTIONS[name])
    if name == "model":  # with the keys of every model
        source = inspect.getsource(sections.ModelSection) + source
    code = re.sub(r"\n +(?=[|)\]]|default)", "", source)
    for key, kind, default, about in KEY.findall(code):
        given = re.sub(r".*default(?:_factory)?=([^,)]+).*", r"\1", default).strip("\"'")
        for pattern, word in WORDS.items():
            kind = re.sub(pattern, word, kind)
        below = f"{name}.{key}".lstrip(".")
        if below in SECTIONS:
            kind = re.sub(r"sections?", rf"[\g<0>](#{below.replace('.', '')})", kind)
        shown = DEFAULTS.get(given, f"`{given}`") if default else "required"
        if re.match(r"\w*Section\b|Decoding$", given):
            shown = ""
        elif given.startswith("Field("):
            shown = "required"
        if ", by default" in about:
            shown = ""
        about = about.replace("None", "null").replace("``", "`")
        yield [f"`{key.rstrip('_')}`", kind, shown, about[:1].upper() + about[1:]]


def run_files() -> str:
    pages = ["# Run-file keys\n", "[Run files](../run-files.md) is the introduction.\n"]
    for name, section in SECTIONS.items():
        example = inspect.cleandoc(RUN_FILE[name])
        given = {"task": {"name": "ifeval"}, "model": {"backend": "openai"}}
        run_file.RunFile.model_validate(given | yaml.safe_load(example))
        about = (inspect.getdoc(section) or "").partition(": ")[2]
        summary = f"{about[:1].upper()}{about[1:]}".replace("``", "`") or inspect.getdoc(section)
        pages += [f"## {name or 'Top level'}\n", f"{summary} [More](../{MORE[name]}).\n"]
        pages.append(table(("key", "type", "default", "meaning"), keys(name)))
        if name in OPTIONS:
            other = f"plugins.md#{OPTIONS[name]}"
            pages.append(f"All other keys are [options]({other}) of the plug-in.\n")
        pages.append(fenced(example, "yaml"))
    return "\n".join(pages)


def record_fields() -> str:
    pages = [
        "# Records\n",
        "What [results](python.md#results) consist of, and what plug-ins get and return.\n",
    ]
    for record in RECORDS:
        about = (inspect.getdoc(record) or "").replace("``", "`")
        rows = [
            [
                f"`{name}`",
                f"`{kind}`",
                f"`{default}`" if default else "",
                cell(said[:1].upper() + said[1:]),
            ]
            for name, kind, default, said in KEY.findall(inspect.getsource(record))
        ]
        pages += [f"## {record.__name__}\n", f"{about}\n"]
        pages.append(table(("field", "type", "default", "meaning"), rows))
    return "\n".join(pages)


def cell(words: str) -> str:
    return words.replace("|", "&#124;").replace("<", "&lt;").replace("{", "&#123;")


def plugin(name: str, card: Any) -> str:
    """Return a plug-in's part of the page: summary, options, facts, and an example."""
    pages = [f"### {name}\n", f"{cell(card['summary'])}\n"]
    if card["options"]:
        rows = [
            [
                f"`{one['name']}`",
                cell(one["kind"]),
                "required" if one["default"] is None else f"`{one['default'] or chr(39) * 2}`",
                cell(one["about"]),
            ]
            for one in card["options"]
        ]
        pages.append(table(("option", "type", "default", "meaning"), rows))
    for title, fact in card.get("facts", ()):
        if title == "in a run file":
            pages.append(fenced(fact, "yaml"))
        elif not title.startswith("dataset="):  # of this installation
            pages.append(f"{title.capitalize()}: {cell(fact)}.\n")
    return "\n".join(pages)


def plugins() -> str:
    pages = ["# Plug-ins and their options\n", "[Writing a plug-in](../plugins.md) adds one.\n"]
    listed = {name: json.loads(text(name, "--format", "json")) for name in ("tasks", "backends")}
    pages.append("## Tasks\n")
    for name, card in listed["tasks"].items():
        pages += [plugin(name, card), fenced(f"task: {{name: {name}}}", "yaml")]
    pages.append("## Backends\n")
    for name, card in listed["backends"]["backends"].items():
        pages += [plugin(name, card), fenced(f"model: {{backend: {name}, name: MODEL}}", "yaml")]
    for kind in ("checkers", "judges"):
        pages.append(f"## {kind.title()}\n")
        instructions = []
        for one in json.loads(text(kind, "--format", "json")):
            name = one["name"]
            if ":" in name:
                instructions.append([f"`{name}`", cell(one["summary"])])
            else:
                pages.append(plugin(name, json.loads(text(kind, name, "--format", "json"))[name]))
        if instructions:
            pages += ["### Instructions of IFEval and IFBench\n"]
            pages += ["`harness checkers NAME` shows the options of one.\n"]
            pages += [table(("check", "meaning"), instructions)]
    return "\n".join(pages)


def main(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    pages = {
        "commands": commands,
        "run_file": run_files,
        "plugins": plugins,
        "records": record_fields,
    }
    for name, page in pages.items():
        (folder / f"{name}.md").write_text(BELOW_GUIDES + page(), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
