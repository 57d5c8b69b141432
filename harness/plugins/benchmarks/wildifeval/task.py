"""WildIFEval: real users' constraints, judged one by one by the judge ``yes_no``.

Lior et al. 2025, "WildIFEval: Instruction Following in the Wild" (arXiv 2503.06573). The public
part of the data set has conversation ids and constraints. The messages are in LMSYS-Chat-1M, which
you must request at its source and must not redistribute. Like the authors, the task finds each
conversation by its id, and takes the first message.
"""

from __future__ import annotations

import ast
import hashlib
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import cached_property, partial
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias

import msgspec
import yaml
from msgspec import Meta, Struct
from typing_extensions import override

from harness.datasets.catalogue import decode_json_as
from harness.datasets.folder import DataFolder, parquet_rows, read_jsonl, sha256
from harness.datasets.rows import Row, convert_row, read_rows, read_unique
from harness.errors import ConfigError, DataInvalid, DataMissing
from harness.ports import Task, read_paper
from harness.records import Criterion, Instance, Message, Score

FOLDER = "wildifeval"  # in the data folder, with the public files
PAPER_EXAMPLES = f"{FOLDER}/paper_examples.jsonl"
PUBLIC = f"{FOLDER}/wild-if-eval"
CHATS = f"{FOLDER}/lmsys-chat-1m"
CATEGORIES_FILE = f"{FOLDER}/constraint_categories.csv"
DOMAINS_FILE = f"{FOLDER}/domains.csv"

BUILTIN = Path(__file__).with_name("builtin.jsonl")
ENDINGS = (".parquet", ".jsonl", ".jsonl.gz")

NAMED = 5  # maximum missing conversations named in a message; the fingerprint hashes all of them
OTHER = "Other"  # category of constraints outside the eight below; not in the paper's figures

_CATEGORIES = Path(__file__).with_name("categories.yaml").read_text("utf-8")
CATEGORIES: Mapping[str, str] = yaml.safe_load(_CATEGORIES)  # descriptions by name


def named(category: str) -> str:
    """Return the paper's name of a category: ``Other: TITLE`` becomes ``Other``."""
    text = category.strip()
    letters = _letters(text)
    for name in (*CATEGORIES, OTHER):
        if _letters(name) == letters:
            return name
    if re.match(r"\W*other\b\s*[:*]", text, re.IGNORECASE):
        return OTHER
    return text


def _letters(text: str) -> str:
    return "".join(filter(str.isalpha, text.lower()))


class Constraint(Struct, frozen=True):
    """A condition that a response must satisfy. ``category`` is empty if it is unknown."""

    text: str
    category: str = ""


class WildIFEvalItem(Struct, frozen=True):
    """A user's instruction and its constraints; the domain is empty if unknown."""

    id: str
    task: str
    constraints: tuple[Constraint, ...]
    domain: str = ""


One: TypeAlias = Instance[WildIFEvalItem]


class WildIFEvalTask(Task[WildIFEvalItem]):
    """Real users' constraints, judged one by one (Lior et al. 2025).

    Args:
        dataset: ``builtin`` (a small example), ``paper_examples`` (20 from the paper), ``public``
            (joined to your copy of LMSYS-Chat-1M), or a path (JSONL or the published format).
        chats: File or folder with your copy of the chats (default: its place in the data folder).
        categories: For the published format, a CSV file of constraints and their categories.
        domains: For the published format, a CSV file of tasks and their domains.
        missing_chats: If your copy lacks conversations, ``refuse`` to run, or ``leave_out`` their
            tasks and record the number in the manifest.
    """

    # The paper judges whatever fits in 1,000 tokens.
    on_truncated = "grade"
    table = read_paper(__file__).table

    def __init__(
        self,
        dataset: str = "builtin",
        chats: str | None = None,
        categories: str | None = None,
        domains: str | None = None,
        missing_chats: Literal["refuse", "leave_out"] = "refuse",
        *,
        data: DataFolder,
    ) -> None:
        self.dataset = dataset
        self._missing_chats = missing_chats
        names = {"builtin": str(BUILTIN), "paper_examples": PAPER_EXAMPLES, "public": PUBLIC}
        self.path = data.file_or_folder(names.get(dataset, dataset))
        self._chats: Path | None = None
        self._tables: list[Path | None] = []
        if is_public(self.path):
            self._chats = data.file_or_folder(chats or CHATS)
            for table, usual in ((categories, CATEGORIES_FILE), (domains, DOMAINS_FILE)):
                has_table = table or (data.root / usual).is_file()
                self._tables.append(data.file(table or usual) if has_table else None)
        elif chats or categories or domains:
            problem = "task.chats, categories and domains are for data in the published format"
            raise ConfigError(f"{problem}; {self.path.name} already has the tasks' texts.")

    def instances(self) -> Iterator[One]:
        """Yield the tasks in file order."""
        items = self._joined[0] if self._chats else read_items(self.path)
        for item in items:
            groups = {"n_constraints": str(len(item.constraints))}
            if item.domain:
                groups["domain"] = item.domain
            yield Instance(id=item.id, data=item, groups=groups)

    def fingerprint(self) -> Mapping[str, str]:
        """Return the data set's name and hash, and the missing chats.

        Data in the published format is hashed after it has been joined with the chats.
        """
        fields = {"dataset": self.dataset, "dataset_sha256": ""}
        if self._chats is None:
            return fields | {"dataset_sha256": sha256(self.path)}
        items, missing = self._joined
        fields["dataset_sha256"] = hashlib.sha256(msgspec.json.encode(items)).hexdigest()
        if missing:
            every = "\n".join(sorted(missing)).encode()
            fields["missing_chats"] = _ids_text(missing)
            fields["missing_chats_sha256"] = hashlib.sha256(every).hexdigest()
        return fields

    def messages(self, instance: One, shots: Sequence[One]) -> tuple[Message, ...]:
        """Return the user's message as written. ``shots`` are not used, as in the paper."""
        return (Message("user", instance.data.task),)

    def score(self, instance: One, text: str) -> Mapping[str, Score]:
        """Return no scores: only judges decide."""
        return {}

    def feedback(self, instance: One, text: str, scores: Mapping[str, Score]) -> str:
        """Return a request to answer again."""
        return "Your answer does not meet all that was asked for yet. Please answer again."

    def reference(self, instance: One) -> str | None:
        """Return None: the data set has no reference answers."""
        return None

    @override
    def instruction(self, instance: One) -> str:
        """Return the user's instruction, for a judge."""
        return instance.data.task

    @override
    def criteria(self, instance: One) -> Sequence[Criterion]:
        """Return the constraints as criteria, with their categories as groups."""
        criteria = []
        for constraint in instance.data.constraints:
            groups = {}
            if constraint.category:
                groups["category"] = constraint.category
            criteria.append(Criterion(constraint.text, groups))
        return criteria

    @cached_property
    def _joined(self) -> tuple[tuple[WildIFEvalItem, ...], tuple[str, ...]]:
        assert self._chats is not None
        items, missing = join(self.path, self._chats, *self._tables)
        if missing and self._missing_chats == "refuse":
            lost = f"{_ids_text(missing)} of {len(missing) + len(items):,} conversations"
            remedy = "Complete the copy, or set task.missing_chats to leave_out."
            raise DataInvalid(f"{self._chats} lacks {lost}.", remedy)
        if not items:
            raise DataInvalid(f"{self._chats} has none of the conversations of {self.path}.")
        return items, missing


def _ids_text(missing: Sequence[str]) -> str:
    """Format ids as their number and the first few of them, such as "2 (a, b)"."""
    listed = ", ".join(missing[:NAMED])
    if len(missing) > NAMED:
        listed += ", …"
    return f"{len(missing):,} ({listed})"


_Text = Annotated[str, Meta(pattern=r"\S")]


class _Constraint(Struct):
    text: _Text
    category: str | None = None


class _Row(Struct):
    task: _Text
    constraints: (
        Annotated[dict[_Text, str | None], Meta(min_length=1)]
        | Annotated[list[_Text | _Constraint], Meta(min_length=1)]
    )
    id: Any = None
    domain: Any = None
    total_num_constraints: int | None = None


def _item(raw: Row, where: str) -> WildIFEvalItem:
    row = convert_row(raw, _Row, where)
    constraints = []
    if isinstance(row.constraints, dict):
        for text, category in row.constraints.items():
            constraints.append(_constraint(text, category))
    else:
        for constraint in row.constraints:
            if isinstance(constraint, str):
                constraints.append(_constraint(constraint, None))
            else:
                constraints.append(_constraint(constraint.text, constraint.category))
    total = row.total_num_constraints
    if total not in (None, len(constraints)):
        problem = f"{len(constraints)} constraints, but 'total_num_constraints' is {total}"
        remedy = "A mapping keeps one of two equal constraints: write a list."
        raise DataInvalid(f"{where}: {problem}.", remedy)
    name = str(row.id or where.rpartition(" ")[2])
    return WildIFEvalItem(name, row.task, tuple(constraints), str(row.domain or ""))


def _constraint(text: str, category: str | None) -> Constraint:
    return Constraint(text.strip(), named(category or ""))


read_items = partial(
    read_unique, build=_item
)  # yields the items; the default id is the row's number


def is_public(path: Path) -> bool:
    """Return whether a data set is in the published format, without the tasks' texts."""
    if path.is_dir() or path.suffix == ".parquet":
        return True
    for _, row in read_rows(path):
        return "decomposition" in row
    return False


def join(
    decompositions: Path, chats: Path, categories: Path | None = None, domains: Path | None = None
) -> tuple[tuple[WildIFEvalItem, ...], tuple[str, ...]]:
    """Join the public data set with the chats by conversation id.

    CSV files may map constraints to ``categories``, and tasks to ``domains``. Return the tasks
    whose chat was found, and the ids of the missing chats.
    """
    constraints_by_id: dict[str, list[str]] = {}
    for where, raw in _records(decompositions, "decomposition"):
        row = convert_row(raw, _Wanted, where)
        if row.conversation_id in constraints_by_id:
            raise DataInvalid(f"{where}: the conversation {row.conversation_id!r} occurs twice.")
        constraints_by_id[row.conversation_id] = row.decomposition
    tasks: dict[str, str] = {}
    for where, raw in _records(chats, "conversation", constraints_by_id):
        turns = raw.get("conversation")
        if isinstance(turns, list):
            turns = turns[:1]
        chat = convert_row(raw | {"conversation": turns}, _Chat, where)
        tasks.setdefault(chat.conversation_id, chat.conversation[0].content)
    category_of = _table(categories, "constraint", "categories")
    domain_of = _table(domains, "task", "domain")
    items = []
    missing = []
    for name, texts in constraints_by_id.items():
        if name not in tasks:
            missing.append(name)
            continue
        constraints = [_constraint(text, category_of.get(text.strip())) for text in texts]
        domain = domain_of.get(tasks[name].strip(), "")
        items.append(WildIFEvalItem(name, tasks[name], tuple(constraints), domain))
    return tuple(items), tuple(missing)


class _Wanted(Struct):
    conversation_id: _Text
    decomposition: Annotated[list[_Text], Meta(min_length=1)]


class _Turn(Struct):
    content: _Text


class _Chat(Struct):
    conversation_id: _Text
    conversation: Annotated[list[_Turn], Meta(min_length=1)]  # only the first turn is read


def _records(
    place: Path, column: str, only: Collection[str] | None = None
) -> Iterator[tuple[str, Row]]:
    """Yield (location, row) for each row, or only for the conversations ``only``."""
    for path in _files(place):
        rows = _parquet(path, column, only) if path.suffix == ".parquet" else read_jsonl(path)
        for number, row in enumerate(rows, start=1):
            name = row.get("conversation_id")
            if only is None or not isinstance(name, str) or name in only:
                yield f"{path}, item {number}", row


def _files(place: Path) -> list[Path]:
    if not place.is_dir():
        return [place]
    every = sorted(path for path in place.rglob("*") if path.is_file())
    for ending in ENDINGS:  # one format only: a folder may contain the same rows in two
        if matches := [path for path in every if path.name.endswith(ending)]:
            return matches
    raise DataMissing(f"The folder {place} contains no file that ends with {', '.join(ENDINGS)}.")


def _parquet(path: Path, column: str, only: Collection[str] | None) -> Iterator[Row]:
    if not path.is_file():
        raise DataMissing(f"There is no file {path}.", "Check the path.")
    query = f"SELECT conversation_id, {column} FROM read_parquet($file)"  # noqa: S608
    if only is None:
        return parquet_rows(path, query)
    # Of a million conversations, read only the wanted ones, and of these the first turn.
    query = query.replace(f" {column} ", f" {column}[1:1] AS {column} ")
    query += " WHERE conversation_id IN (SELECT unnest($only::VARCHAR[]))"
    return parquet_rows(path, query, only=list(only))


def _table(path: Path | None, key: str, value: str) -> dict[str, str]:
    """Map a CSV file's column ``key`` to its column ``value``."""
    table: dict[str, str] = {}
    if path is None:
        return table
    for _, row in read_rows(path):
        if not {key, value} <= row.keys():
            raise DataInvalid(f"{path}: must have the columns {key} and {value}.")
        table[row[key].strip()] = row[value].strip()
    return table


def prompt(
    code: Path, fields: Mapping[str, str], words_sha256: str | None = None
) -> Iterator[bytes]:
    """Yield a template made from a prompt in a Python file, which is parsed but not run.

    Args:
        code: The Python file.
        fields: Maps parts of the prompt, such as ``{request}``, to their replacements in the
            template. A variable ``x`` that the code inserts is the part ``{x}``.
        words_sha256: The hash of the template's words, joined by single spaces, or None if it is
            not checked.
    """
    try:
        tree = ast.parse(code.read_text(encoding="utf-8"))
        text = _prompt_text(tree, fields)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise DataInvalid(f"{code}: it is not Python code ({error}).") from None
    if text is None:
        raise DataInvalid(f"{code}: it has no prompt with {', '.join(fields)}.")
    for part, replacement in fields.items():
        text = text.replace(part, replacement)
    digest = hashlib.sha256(" ".join(text.split()).encode()).hexdigest()
    if words_sha256 not in (None, digest):
        raise DataInvalid(f"{code}: its prompt has the sha256 {digest} and not {words_sha256}.")
    yield f"{text}\n".encode()


def _prompt_text(tree: ast.AST, fields: Iterable[str]) -> str | None:
    """Return the first string expression that has all the fields, outer ones first, or None."""
    for node in ast.walk(tree):
        text = _text(node)
        if text and all(field in text for field in fields):
            return text
    return None


def category_prompt(
    code: Path, categories: Path, fields: Mapping[str, str], words_sha256: str | None = None
) -> Iterator[bytes]:
    """Yield a template as `prompt` does, with the categories in a JSON file filled in."""
    where = f"{categories}: not a list of categories"
    described = decode_json_as(categories.read_bytes(), list[_Category], where)
    listed = ""
    for number, category in enumerate(described):
        listed += f"\n{number}. *{category.name}*: {category.description}\nExamples: "
        for example in category.examples:
            listed += f"\n - {example}"
    yield from prompt(code, {"{categories_str}": listed, **fields}, words_sha256)


class _Category(msgspec.Struct):
    name: str
    description: str
    examples: list[str]


def _text(node: ast.AST) -> str | None:
    """Return a string expression's text, with ``{x}`` for a variable ``x``, or None if unknown."""
    match node:
        case ast.Constant(value=str() as text):
            return text
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return f"{{{name}}}"
        case ast.FormattedValue(value=ast.Name() as variable):
            return _text(variable)
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            parts: list[ast.expr] = [left, right]
        case ast.JoinedStr(values=parts):
            pass
        case ast.Call(func=ast.Attribute(value=inner, attr="strip"), args=[]):
            return (_text(inner) or "").strip()
        case _:
            return None
    texts = [_text(part) for part in parts]
    return None if None in texts else "".join(map(str, texts))
