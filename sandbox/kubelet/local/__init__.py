"""Containers that really run, as processes of this machine.

``command`` and ``variables`` (what is started; without I/O), ``sources`` (Secrets and ConfigMaps),
``volumes`` and ``folders`` (what it finds on disk),
``process`` and ``launcher`` (one run of one container), ``probes``, ``logs``, and ``pods``, which
makes processes follow the state machine of ``sandbox.kubelet.pod_lifecycle``.
"""
