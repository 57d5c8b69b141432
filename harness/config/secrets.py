"""What a run file may not hold: secrets. They stand in environment variables.

>>> names_a_secret("OPENAI_API_KEY"), names_a_secret("max_tokens")
(True, False)
"""

from __future__ import annotations

import re
from collections.abc import Iterator

SECRETS = frozenset(
    {"api_key", "apikey", "api_token", "access_token", "auth_token", "token", "bearer"}
    | {"authorization", "password", "secret", "secret_key"}
)
"""Option names that ask for a secret, which a run file may not hold."""


def shown(key: str) -> str:
    """A key as it may be shown: cut where a value was run into it (``api_key:sk-…``)."""
    name = re.split(r"[:=\s]", key.strip(), maxsplit=1)[0]
    return name if name == key else f"{name}…"


def keys_of(tree: object) -> Iterator[str]:
    """The keys of nested mappings and lists."""
    if isinstance(tree, dict):
        for key, below in tree.items():
            yield str(key)
            yield from keys_of(below)
    elif isinstance(tree, list):
        for below in tree:
            yield from keys_of(below)


def names_a_secret(key: str) -> bool:
    """Whether what stands under such a key is a secret."""
    name = key.lower().replace("-", "_")
    return name in SECRETS or name.endswith(("_api_key", "_secret", "_password"))


def names_a_user(url: str) -> bool:
    """Whether an address holds a user's name, and with it perhaps a password."""
    return "@" in re.split(r"[/?#]", url.split("//", 1)[-1], maxsplit=1)[0]
