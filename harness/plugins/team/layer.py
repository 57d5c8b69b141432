"""The layer of a team: replies, rate limits and budgets in the database of ``HARNESS_CACHE_URL``.

The other modules import psycopg, an optional dependency, so they are only imported when needed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from harness.calls.budget import SharedBudget
from harness.calls.database import Restore
from harness.calls.rate_limits import SharedRates
from harness.calls.reply_cache import ReplyCache
from harness.calls.signals import Report
from harness.config.settings import Settings
from harness.engine.infrastructure import CallLayer
from harness.errors import HarnessError
from harness.plugin import CheckupFinding

if TYPE_CHECKING:
    from harness.plugins.team.database import TeamDatabase
    from harness.plugins.team.membership import TeamFacts


class TeamLayer(CallLayer):
    """Shares replies, rate limits and budgets with the machines of a team.

    Args:
        url: URL of the team's database.
        key: Encrypts the replies in the database. None: no encryption.
    """

    shares_calls = True

    def __init__(self, url: str, key: str | None) -> None:
        self._url = url
        self._key = key
        self._database: TeamDatabase | None = None

    def open_cache(self, path: Path, notice: Report, restore: Restore) -> ReplyCache:
        """Open the local file in front of the team's database."""
        from harness.plugins.team.reply_cache import TeamReplyCache

        return TeamReplyCache(path, self._url, self._key, notice=notice, restore=restore)

    def shared_rates(self, model_id: str) -> SharedRates:
        """Return this process's part of a model's rate limits in the team."""
        from harness.plugins.team.rates import TeamRates

        return TeamRates(self._opened(), model_id)

    def shared_budget(self, name: str, account: str, usd: float) -> SharedBudget:
        """Return an account's part of a budget of the team."""
        from harness.plugins.team.budgets import TeamBudget

        return TeamBudget(self._opened(), name, account, usd)

    def _opened(self) -> TeamDatabase:
        from harness.plugins.team.database import TeamDatabase

        if self._database is None:
            self._database = TeamDatabase(self._url)
        return self._database

    def facts(self) -> Mapping[str, str]:
        """Return the team, its replies and its payments."""
        facts = self._facts()
        return {
            "team": f"{facts.team} in {facts.database}",
            "its replies": f"{facts.replies:,}",
            "its payments": f"${facts.usd:,.2f} by runs with a budget: {facts.runs:,}",
        }

    def check(self) -> Iterator[CheckupFinding]:
        """Check whether the team's database answers."""
        try:
            facts = self._facts()
        except HarnessError as error:
            yield CheckupFinding("broken", "team's cache", error.message, error.remedy)
            return
        replies = f"{facts.replies:,} replies of the team {facts.team}"
        yield CheckupFinding("ok", "team's cache", f"{facts.database} answers; {replies}")

    def _facts(self) -> TeamFacts:
        from harness.plugins.team.membership import team_facts

        return team_facts(self._url, self._key)

    def close(self) -> None:
        """Close the connection."""
        if self._database is not None:
            self._database.close()


def team_layer(settings: Settings) -> TeamLayer | None:
    """Return the team's layer, or None if ``HARNESS_CACHE_URL`` is not set."""
    if settings.cache_url is None:
        return None
    key = settings.cache_key.get_secret_value() if settings.cache_key else None
    return TeamLayer(settings.cache_url.get_secret_value(), key)
