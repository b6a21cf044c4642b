"""The controllers of a small cluster, as clients of its API server.

Decisions are pure functions without ``async``. Actions use the API, so webhooks and quotas apply to
every pod. Controllers react to watch events, and use timers only where time matters. Not
implemented: adoption of orphans, revisions as objects, CronJobs, HPAs.
"""
