"""The time for which targets stay although there is less room for them."""

from datetime import timedelta

PATIENCE = timedelta(minutes=30)
"""Room that has gone may come back for this time: nodes are replaced in upgrades, and Jobs and
rollouts end. A target that followed at once would have pods updated twice."""
