"""Simulated kubelets: clients of an API server that run pods as a kubelet would report it.

From pure to shell: ``wire`` (what is read), ``pod_resources`` and ``allocation`` (arithmetic),
``conditions``, ``containers``, ``pod_lifecycle`` and ``resizing`` (one pod), ``status`` and
``events`` (what is written), ``node`` (one kubelet), ``service`` (many of them on one client).
Only ``service`` waits, and only it speaks to the API server.
"""
