"""Simulated kubelets: clients of an API server that run pods as a kubelet would report it.

From pure to shell: ``wire`` (what is read), ``pod_resources`` and ``allocation`` (arithmetic),
``conditions``, ``containers``, ``pod_lifecycle`` and ``resizing`` (one pod), ``status`` and
``events`` (what is written), ``adoption`` (pods of an earlier kubelet), ``preemption`` (who goes
for a critical pod), ``node`` (one kubelet), ``steady`` (plans, whatever the clock does) and
``service`` (many of them on one client).
``facts`` is what is learnt of containers that really run, which are in ``local``; ``endpoint``
is the kubelets' own HTTPS endpoint, with usage (``resource_metrics``) and logs. Only ``service``
and ``local`` wait, and only they speak to the API server.
"""
