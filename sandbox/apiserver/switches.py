"""``/sandbox/faults`` and ``/sandbox/clock``: what tests in other processes turn."""

from datetime import timedelta

import msgspec

from common.errors import ConfigError
from sandbox import description, errors
from sandbox.apiserver.answers import Answer, json_answer
from sandbox.apiserver.faults import ApiFault, ApiFaults
from sandbox.apiserver.requests import Request
from sandbox.clocks import ShiftedClock
from sandbox.description import Section
from sandbox.times import micro_time


class Switches:
    """Serves them for one API server."""

    def __init__(self, faults: ApiFaults, clock: ShiftedClock) -> None:
        self._faults = faults
        self._clock = clock

    def answer(self, request: Request) -> Answer | None:
        """Answer, or None where the path is another.

        Raises:
            ApiError: 400, the body can't be used; 405.
        """
        served = {"/sandbox/faults": self._turn_faults, "/sandbox/clock": self._turn_clock}
        serve = served.get(request.path.rstrip("/"))
        if serve is None:
            return None
        if request.method == "PUT":
            try:
                return serve(Section(msgspec.json.decode(request.body), ""))
            except (ConfigError, msgspec.DecodeError) as error:
                raise errors.bad_request(str(error)) from error
        if request.method == "DELETE":
            return serve(Section({}, ""))
        if request.method != "GET":
            raise errors.method_not_allowed()
        return serve(None)

    def _turn_faults(self, wanted: Section | None) -> Answer:
        """``{items: [rule, …]}`` replaces all rules; what is answered can be sent back."""
        if wanted is not None:
            rules = []
            for one in wanted.sections("items"):
                one.take("hits", description.whole, 0)  # counted anew
                rules.append(ApiFault.parse(one))
            wanted.close()
            self._faults.replace(rules)
        return json_answer({"items": self._faults.as_json()})

    def _turn_clock(self, wanted: Section | None) -> Answer:
        """``{ahead: duration}``: how far the clock is ahead of the machine's; ``-1h`` is behind."""
        if wanted is not None:
            ahead = wanted.take("ahead", _signed_seconds, 0.0)
            wanted.close()
            self._clock.ahead = timedelta(seconds=ahead)
        seconds = self._clock.ahead / timedelta(seconds=1)
        return json_answer({"now": micro_time(self._clock.now()), "ahead": f"{seconds:g}s"})


def _signed_seconds(value: object) -> float:
    if isinstance(value, int | float) and not isinstance(value, bool) and value < 0:
        return float(value)
    return description.seconds(value)
