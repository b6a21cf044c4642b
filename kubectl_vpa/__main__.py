"""The program ``kubectl-vpa``, which kubectl finds as ``kubectl vpa``."""

import importlib.util
import sys


def main() -> int:
    """Run the program and return its exit code."""
    if importlib.util.find_spec("rich") is None:
        print("kubectl-vpa needs more packages: pip install 'pyvpa[cli]'", file=sys.stderr)
        return 1
    # Imported here, because without these packages it fails.
    from kubectl_vpa import program  # noqa: PLC0415 - it imports these packages

    return program.main()


if __name__ == "__main__":
    sys.exit(main())
