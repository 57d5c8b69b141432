"""Makes templates from the prompts in WildIFEval's published code, which is not executed."""

import ast
import hashlib
from collections.abc import Iterator, Mapping
from pathlib import Path

import msgspec

from harness.datasets.catalogue import decoded
from harness.errors import DataInvalid


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
        nodes = ast.walk(ast.parse(code.read_text(encoding="utf-8")))  # outer expressions first
        text = next(text for text in map(_text, nodes) if text and all(f in text for f in fields))
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise DataInvalid(f"{code}: it is not Python code ({error}).") from None
    except StopIteration:
        raise DataInvalid(f"{code}: it has no prompt with {', '.join(fields)}.") from None
    for part, replacement in fields.items():
        text = text.replace(part, replacement)
    digest = hashlib.sha256(" ".join(text.split()).encode()).hexdigest()
    if words_sha256 not in (None, digest):
        raise DataInvalid(f"{code}: its prompt has the sha256 {digest} and not {words_sha256}.")
    yield f"{text}\n".encode()


def category_prompt(
    code: Path, categories: Path, fields: Mapping[str, str], words_sha256: str | None = None
) -> Iterator[bytes]:
    """Yield a template as `prompt` does, with the categories in a JSON file filled in."""
    where = f"{categories}: not a list of categories"
    found = decoded(categories.read_bytes(), list[_Category], where)
    listed = [
        "\n - ".join([f"\n{n}. *{of.name}*: {of.description}\nExamples: ", *of.examples])
        for n, of in enumerate(found)
    ]
    yield from prompt(code, {"{categories_str}": "".join(listed), **fields}, words_sha256)


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
            texts = [_text(left), _text(right)]
        case ast.JoinedStr(values=parts):
            texts = [_text(part) for part in parts]
        case ast.Call(func=ast.Attribute(value=inner, attr="strip"), args=[]):
            return (_text(inner) or "").strip()
        case _:
            return None
    return None if None in texts else "".join(map(str, texts))
