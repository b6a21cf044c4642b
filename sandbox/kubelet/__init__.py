"""Simulated kubelets: clients of an API server that run pods as a kubelet would report it.

From pure to shell: ``wire`` (the fields that are read), ``pod_resources`` and ``allocation``
(arithmetic), ``conditions``, ``containers``, ``pod_lifecycle`` and ``resizing`` (one pod),
``status`` and ``events`` (what is written), ``node`` (one kubelet), ``plan_clock`` (plans that a
jump of the clock doesn't change) and ``service`` (many kubelets on one client). Only ``service``
waits, and only it calls the API server. ``controlplane/containers`` replaces the simulated
containers by processes.
"""
