"""How the process that serves the API keeps its memory."""

import gc

_YOUNG = 50_000  # new containers before a collection; a pod's JSON decodes into some 200
_OLDER = (20, 50)


def relax_garbage_collection() -> None:
    """Collect cycles seldom: for programs, once everything is imported and set up.

    Requests make many dictionaries and hardly any cycles, and the store holds tens of
    thousands of objects that each full collection would walk through for nothing.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(_YOUNG, *_OLDER)
