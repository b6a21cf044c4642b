"""The admission controller: ``python -P -m admission``."""

import os
import sys
from collections.abc import Sequence

from admission import workers
from admission.settings import AdmissionSettings
from common.flags import read_flags
from common.runtime import logs, service
from common.runtime.clock import SystemClock

_DEFAULT_NAMESPACE = "kube-system"


async def _main(argv: Sequence[str]) -> None:
    settings = read_flags(AdmissionSettings, argv, program=workers.PROGRAM, environ=os.environ)
    logs.configure(settings.verbosity, settings.logging_format)
    worker = workers.Worker.of(os.environ)
    if settings.workers > 1 and worker is None:
        await workers.supervise(argv, count=settings.workers, port=settings.port)
        return
    # Here, because a supervisor needs none of it: 27 MiB instead of 100.
    from admission import serving  # noqa: PLC0415 - see above

    namespace = os.environ.get("NAMESPACE") or _DEFAULT_NAMESPACE
    await serving.serve(settings, SystemClock(), namespace=namespace, worker=worker)


def main() -> int:
    """Entry point; the exit code."""
    code = 0
    try:
        code = service.run(workers.PROGRAM, lambda: _main(sys.argv[1:]))
    except* workers.RefusedError:  # a worker has said on standard error what is wrong
        code = 2
    return code


if __name__ == "__main__":
    sys.exit(main())
