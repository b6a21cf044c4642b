"""The read API of a process, from its client and its leader election."""

import socket
from collections.abc import Callable

from common.kube.client import KubeClient
from common.kube.lease import LeaderElection
from common.read_api.access import Access
from common.read_api.reviews import ApiServerAddresses, ApiServerReviews
from common.read_api.routes import Leadership, Origin, ReadApi
from common.read_model.page import PassInfo


def no_pass() -> None:
    """Return that a component has no passes."""


def read_api(
    component: str,
    client: KubeClient,
    *,
    election: LeaderElection | None = None,
    last_pass: Callable[[], PassInfo | None] = no_pass,
) -> ReadApi:
    """Return the read API of a component, without paths of its own."""

    def leadership() -> Leadership:
        if election is None:
            return Leadership()
        return Leadership(leading=election.leading, leader=election.leader or None)

    origin = Origin(
        component=component,
        identity=socket.gethostname() if election is None else election.identity,
        leadership=leadership,
        last_pass=last_pass,
    )
    return ReadApi(origin, Access(ApiServerReviews(client), ApiServerAddresses(client)))
