"""Run a component in place of its image: ``pod_process.py ADDRESS MODULE [FLAG …]``.

A pod has a network of its own: its processes listen on all addresses, and reach themselves by
loopback. Here all pods share the network of the machine, so the pod's address replaces both.
"""

import runpy
import socket
import sys
from typing import Any

_create_server, _connect = socket.create_server, socket.socket.connect


def main() -> None:
    """Run the module with the remaining arguments."""
    own, module, *flags = sys.argv[1:]
    ports: set[int] = set()

    def create_server(address: tuple[str, int], **options: Any) -> socket.socket:
        host, port = address
        if host:
            return _create_server(address, **options)
        ports.add(port)
        options |= {"family": socket.AF_INET, "dualstack_ipv6": False}
        return _create_server((own, port), **options)

    def connect(self: socket.socket, address: Any) -> None:
        if address[0] == "127.0.0.1" and address[1] in ports:
            address = (own, address[1])
        _connect(self, address)

    socket.create_server = create_server  # type: ignore[assignment]  # fewer parameters
    socket.socket.connect = connect  # type: ignore[assignment,method-assign]  # for the whole process
    sys.argv = [module, *flags]
    runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
