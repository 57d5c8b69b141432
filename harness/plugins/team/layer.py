"""A team's layer: replies, rate limits and budgets in the database of ``HARNESS_CACHE_URL``."""

from collections.abc import Iterator, Mapping
from pathlib import Path

from harness.calls.budget import SharedBudget
from harness.calls.database import Restore
from harness.calls.rate_limits import SharedRates
from harness.calls.reply_cache import ReplyCache
from harness.calls.signals import Report
from harness.engine.infrastructure import CallLayer
from harness.errors import HarnessError
from harness.plugin import CheckupFinding
from harness.plugins.team.budgets import TeamBudget
from harness.plugins.team.database import TeamDatabase, TeamFacts, team_facts
from harness.plugins.team.rates import TeamRates
from harness.plugins.team.reply_cache import TeamReplyCache


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
        return TeamReplyCache(path, self._url, self._key, notice=notice, restore=restore)

    def shared_rates(self, model_id: str) -> SharedRates:
        """Return this process's part of a model's rate limits in the team."""
        return TeamRates(self._opened(), model_id)

    def shared_budget(self, name: str, account: str, usd: float) -> SharedBudget:
        """Return an account's part of a budget of the team."""
        return TeamBudget(self._opened(), name, account, usd)

    def _opened(self) -> TeamDatabase:
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
        return team_facts(self._url, self._key)

    def close(self) -> None:
        """Close the connection."""
        if self._database is not None:
            self._database.close()
