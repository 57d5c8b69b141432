"""Replies, budgets and rate limits that a team shares through PostgreSQL (the extra ``team``)."""

from harness.plugin import Plugin

plugin = Plugin(
    summary="Replies, budgets and rate limits that a team shares through PostgreSQL.",
    call_layers={"team": ".configured:team_layer"},
)
