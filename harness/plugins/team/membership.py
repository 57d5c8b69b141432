"""Joins a team, checks how its replies are encrypted, and summarises its saved data."""

import base64
import binascii
import hmac
import os
from contextlib import closing
from typing import Any, NamedTuple

from harness.calls.database import ReplyRow
from harness.errors import ConfigError, StoreFailed, import_extra
from harness.plugins.team.database import Cursor, TeamDatabase

_JOIN = "INSERT INTO harness.teams (key_check) VALUES (%s) ON CONFLICT DO NOTHING"
_KEY_CHECK = "SELECT team, key_check FROM harness.teams WHERE team = current_user"
_FACTS = """
SELECT current_user,
    (SELECT count(*) FROM harness.replies WHERE team = current_user),
    (SELECT count(DISTINCT run) FROM harness.payments WHERE team = current_user),
    (SELECT coalesce(sum(usd), 0) FROM harness.payments WHERE team = current_user)
"""


class Cipher:
    """Encrypts replies with AES-256-GCM, each bound to its call's key.

    Args:
        key: 32 bytes in Base64.
    """

    def __init__(self, key: str) -> None:
        try:
            secret = base64.b64decode(key, validate=True)
        except (binascii.Error, ValueError):
            secret = b""
        if len(secret) != 32:
            raise ConfigError(
                "HARNESS_CACHE_KEY is not a key: 32 bytes in Base64.",
                "To make one for the team: openssl rand -base64 32",
            )
        aead = import_extra("cryptography.hazmat.primitives.ciphers.aead", "team")
        self._aead: Any = aead.AESGCM(secret)
        self.check = hmac.digest(secret, b"harness team cache", "sha256")
        """Identifies the key without revealing it."""

    def encrypt(self, row: ReplyRow) -> ReplyRow:
        """Return a row with its reply encrypted."""
        nonce = os.urandom(12)
        return row[0], nonce + self._aead.encrypt(nonce, row[1], row[0]), *row[2:]

    def decrypt(self, row: ReplyRow) -> ReplyRow:
        """Return a row with its reply decrypted. A damaged reply becomes empty."""
        invalid = import_extra("cryptography.exceptions", "team").InvalidTag
        try:
            return row[0], self._aead.decrypt(row[1][:12], row[1][12:], row[0]), *row[2:]
        except (invalid, ValueError):
            return row[0], b"", *row[2:]


def join(cursor: Cursor, database: str, cipher: Cipher | None) -> None:
    """Record how the team's replies are encrypted, if nobody has yet, and check the key."""
    cursor.execute(_JOIN, [cipher.check if cipher else b""])
    check_key(cursor, database, cipher)


def check_key(cursor: Cursor, database: str, cipher: Cipher | None) -> None:
    """Raise StoreFailed if the team's first process encrypted replies in a different way."""
    check = cipher.check if cipher else b""
    row = cursor.execute(_KEY_CHECK).fetchone()
    if row is None or row[1] == check:
        return
    team, expected = row
    remedy = "Set HARNESS_CACHE_KEY to the team's key."
    if not expected:
        state = "not encrypted"
        remedy = "Unset HARNESS_CACHE_KEY, or use another role or database."
    else:
        state = "encrypted with another key" if check else "encrypted with a key"
    raise StoreFailed(f"The replies of the team {team} in {database} are {state}.", remedy)


class TeamFacts(NamedTuple):
    """A team's saved data. ``runs`` counts runs with a budget, and ``usd`` is what they paid."""

    database: str
    team: str
    replies: int
    runs: int
    usd: float


def team_facts(url: str, key: str | None) -> TeamFacts:
    """Summarise the data that a team has saved in the database at ``url``.

    ``key`` is the key that encrypts the team's replies (None: they are not encrypted).
    """
    cipher = None if key is None else Cipher(key)
    with closing(TeamDatabase(url)) as database:

        def work(cursor: Cursor) -> Any:
            check_key(cursor, database.name, cipher)
            return cursor.execute(_FACTS).fetchone()

        return TeamFacts(database.name, *database.transact(work, 0))
