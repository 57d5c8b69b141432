"""What the server saw: the evidence that a client neither lost nor doubled a call."""

from __future__ import annotations

from collections import Counter

from msgspec import Struct


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
    abandoned: requests whose client had left before the answer was ready.
    by_status: HTTP statuses sent. by_fault: faults drawn. by_path: requests by
        the wire's path.
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

    def leave(self, status: int | None = None) -> None:
        """A request is over; with which status, if one was sent."""
        self.in_flight -= 1
        if status is not None:
            self.by_status[status] += 1

    def abandon(self) -> None:
        """A request is over because its client left."""
        self.abandoned += 1
        self.leave()

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
        )

    def by_body(self) -> dict[str, BodyCount]:
        """The counts of each body by its digest."""
        # The list is made in one step, safe from the server's thread.
        return {d: BodyCount(b.requests, b.answered) for d, b in list(self.bodies.items())}
