"""What the server saw: the evidence that a client neither lost nor doubled a call."""

from __future__ import annotations

from collections import Counter

from msgspec import Struct

from harness.mock.models import kept_as
from harness.mock.peak import Peak, PerMinute


class BodyCount(Struct):
    """How often one body was asked, and how often answered usably."""

    requests: int = 0
    answered: int = 0


class Snapshot(Struct, frozen=True):
    """The counters at one moment; also the JSON of ``GET /stats``.

    requests: posts to a wire's path, also those that were refused.
    answered: usable replies, the ones a client must keep: complete, well formed,
        with text, a refusal or a filter's verdict. `empty`, `reasoning_only` and
        broken ones are not.
    repeated: requests for a body that had been answered usably before. Where
        samples are told apart by nothing in the body, these are legitimate.
    abandoned: requests whose client left before it had been sent a whole answer.
    by_status: HTTP statuses sent. by_fault: faults drawn. by_path: requests by
        the wire's path.
    by_model: requests by model, of those with the right key, a sensible body
        and a known model; also those that a rate limit refused. Models beyond
        the first thousand are counted together.
    peak_per_minute: the most that was let in during any 60 seconds, over all
        models. What is refused at the door, by a rate limit too, is not in it.
        A drawn fault is: a request without tokens where it is an HTTP status,
        with the tokens of its answer otherwise.
    prompt_tokens, completion_tokens: as told in complete, well-formed replies.
    """

    requests: int
    answered: int
    repeated: int
    abandoned: int
    unique_bodies: int
    in_flight: int
    max_in_flight: int
    prompt_tokens: int
    completion_tokens: int
    by_status: dict[int, int]
    by_fault: dict[str, int]
    by_path: dict[str, int]
    by_model: dict[str, int]
    peak_per_minute: PerMinute


class Stats:
    """Counts requests; owned by the server's thread, read from any.

    A request is counted out before the last byte of its answer is sent: a
    client that has its answer finds it counted.
    """

    def __init__(self) -> None:
        self.in_flight = 0
        self.reset()

    def reset(self) -> None:
        """Count from nothing, all but the requests in flight.

        Bodies are forgotten too, so their next requests draw the luck of first ones.
        """
        self.requests = 0
        self.answered = 0
        self.repeated = 0
        self.abandoned = 0
        self.max_in_flight = self.in_flight
        self.prompt_tokens = 0
        self.completion_tokens = 0
        self.by_status: Counter[int] = Counter()
        self.by_fault: Counter[str] = Counter()
        self.by_path: Counter[str] = Counter()
        self.by_model: Counter[str] = Counter()
        self.peak = Peak()
        self.bodies: dict[str, BodyCount] = {}

    def arrive(self, digest: str, path: str) -> BodyCount:
        """A request has come; its body's counts, this request included."""
        self.requests += 1
        self.by_path[path] += 1
        self.in_flight += 1
        if self.in_flight > self.max_in_flight:
            self.max_in_flight = self.in_flight
        body = self.bodies.get(digest)
        if body is None:
            body = self.bodies[digest] = BodyCount()
        body.requests += 1
        if body.answered:
            self.repeated += 1
        return body

    def recognise(self, model: str) -> None:
        """A request makes sense, and names this model."""
        self.by_model[kept_as(model, self.by_model)] += 1

    def leave(self, status: int | None = None) -> None:
        """A request is over; with which status, if one was sent."""
        self.in_flight -= 1
        if status is not None:
            self.by_status[status] += 1

    def abandon(self, status: int | None = None) -> None:
        """A request is over because its client left; with which status, if one was sent."""
        self.abandoned += 1
        self.leave(status)

    def snapshot(self) -> Snapshot:
        """The counters now."""
        return Snapshot(
            requests=self.requests,
            answered=self.answered,
            repeated=self.repeated,
            abandoned=self.abandoned,
            unique_bodies=len(self.bodies),
            in_flight=self.in_flight,
            max_in_flight=self.max_in_flight,
            prompt_tokens=self.prompt_tokens,
            completion_tokens=self.completion_tokens,
            by_status=dict(self.by_status),
            by_fault=dict(self.by_fault),
            by_path=dict(self.by_path),
            by_model=dict(self.by_model),
            peak_per_minute=self.peak.most,
        )

    def by_body(self) -> dict[str, BodyCount]:
        """The counts of each body by its digest."""
        # The list is made in one step, safe from the server's thread.
        return {d: BodyCount(b.requests, b.answered) for d, b in list(self.bodies.items())}
