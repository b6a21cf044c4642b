"""Check that a release can be made: ``python -P -m release``; with ``--only-package`` the wheel."""

import argparse
import sys
from pathlib import Path

from release import bill_of_materials, distribution, krew, licences, named_versions, vulnerabilities
from release.checks import Release, run_checks

ROOT = Path(__file__).resolve().parent.parent
# In order: the environment of the wheel is described, and the description is checked.
CHECKS = (
    *named_versions.CHECKS,
    *distribution.CHECKS,
    *krew.CHECKS,
    *bill_of_materials.CHECKS,
    *licences.CHECKS,
    *vulnerabilities.CHECKS,
)


def main() -> int:
    """Print a line for each check; return 1 if one failed."""
    parser = argparse.ArgumentParser(prog="release", description=(__doc__ or "").partition(":")[0])
    parser.add_argument(
        "--only-package", action="store_true", help="Only build, install and run the wheel."
    )
    only_package = parser.parse_args().only_package
    checks = distribution.CHECKS if only_package else CHECKS
    passed = run_checks(checks, Release.of(ROOT), write=lambda line: print(line, flush=True))
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())
