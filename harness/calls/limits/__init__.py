"""How hard a model may be worked: a `lane` for each, in which its calls wait their turn.

It opens by `rate_limits` (so much in any minute: a `window` for each limit, a
`token_estimate` of what a call will use) and by `adaptive_limit` (how many at once).
"""
