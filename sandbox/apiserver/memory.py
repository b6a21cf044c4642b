"""Garbage collection of the process that serves the API."""

import gc

_YOUNG = 50_000  # new containers before a collection; a pod's JSON decodes into some 200
_OLDER = (20, 50)


def relax_garbage_collection() -> None:
    """Collect cycles rarely. Programs call this after imports and set-up.

    Requests create many dictionaries and hardly any cycles. Each full collection would traverse
    tens of thousands of stored objects for nothing.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(_YOUNG, *_OLDER)
