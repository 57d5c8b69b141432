"""The book of payments: what each run with a budget has paid, in the file of replies.

A payment is written in the transaction of its reply, so that a run that is
killed and goes on knows what it has spent. A run without a budget has none.

>>> Payment("gpt4_collie", 0.002).usd
0.002
"""

from __future__ import annotations

import math

from msgspec import Struct


class Payment(Struct, frozen=True):
    """What a run has paid for one call.

    Raises: ValueError where the price is no amount of money.
    """

    run: str
    usd: float

    def __post_init__(self) -> None:
        if not (math.isfinite(self.usd) and self.usd >= 0):
            raise ValueError(f"{self.usd!r} is no amount of money")


PaymentRow = tuple[str, bytes, float, float]
"""run, key, usd, created."""

COLUMNS = ["run", "key", "usd", "created"]

SCHEMA = """
CREATE TABLE IF NOT EXISTS payments (
    run TEXT NOT NULL, key BLOB NOT NULL, usd REAL NOT NULL, created REAL NOT NULL,
    PRIMARY KEY (run, key)
) WITHOUT ROWID
"""

INSERT = """
INSERT INTO payments (run, key, usd, created) VALUES {rows}
ON CONFLICT (run, key) DO UPDATE SET usd = usd + excluded.usd
"""
"""A key that is paid for again (its reply was pruned, or was empty) has cost both times."""

OF_RUN = "SELECT key, usd FROM payments WHERE run = ?"
