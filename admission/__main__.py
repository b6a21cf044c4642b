"""The admission controller: ``python -P -m admission``."""

import logging
import os
import sys
from collections.abc import Sequence

from admission.run import PROGRAM, serve
from admission.settings import AdmissionSettings
from common.flags import read_flags
from common.runtime import logs, service
from common.runtime.clock import SystemClock

logger = logging.getLogger(__name__)

_DEFAULT_NAMESPACE = "kube-system"


async def _main(argv: Sequence[str]) -> None:
    settings = read_flags(AdmissionSettings, argv, program=PROGRAM, environ=os.environ)
    logs.configure(settings.verbosity, settings.logging_format)
    for warning in settings.warnings:
        logger.warning(warning)
    namespace = os.environ.get("NAMESPACE") or _DEFAULT_NAMESPACE
    await serve(settings, SystemClock(), namespace=namespace)


def main() -> int:
    """Run the program and return its exit code."""
    return service.run(PROGRAM, lambda: _main(sys.argv[1:]))


if __name__ == "__main__":
    sys.exit(main())
