"""The team's layer, if the settings name a team.

Every command that makes calls imports this module, but few have a team or psycopg.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from harness.config.settings import Settings

if TYPE_CHECKING:
    from harness.plugins.team.layer import TeamLayer


def team_layer(settings: Settings) -> TeamLayer | None:
    """Return the team's layer, or None if ``HARNESS_CACHE_URL`` is not set."""
    if settings.cache_url is None:
        return None
    from harness.plugins.team.layer import TeamLayer  # imports psycopg, an optional dependency

    key = settings.cache_key.get_secret_value() if settings.cache_key else None
    return TeamLayer(settings.cache_url.get_secret_value(), key)
