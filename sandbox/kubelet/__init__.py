"""Simulated kubelets: clients of an API server that report pods as a kubelet would.

Without I/O: ``wire`` (the fields that are read), ``pod_resources`` and ``allocation`` (arithmetic),
``conditions``, ``containers``, ``pod_lifecycle`` and ``resizing`` (one pod), ``status`` (the
objects that are written), ``node`` (one kubelet), ``plan_clock`` (timers that are independent of
jumps of the clock). With I/O: ``service`` (many kubelets on one client).
``controlplane/containers`` replaces simulated containers by processes.
"""
