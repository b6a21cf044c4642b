"""The controllers of a small cluster, as clients of its API server.

What they decide is pure and stands in functions without ``async``; what they do goes through
the API, so webhooks and quotas see every pod. They react to watch events and look again only
when time matters. Not there: adoption of orphans, revisions as objects, CronJobs, HPAs.
"""
