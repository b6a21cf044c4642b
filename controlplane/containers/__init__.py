"""Containers that run as processes of this machine, for pods of a real control plane.

``command`` and ``variables`` (the process to start; without I/O), ``sources`` (Secrets and
ConfigMaps), ``volumes`` and ``folders`` (files), ``process`` (one run of one container),
``probes``, ``logs`` and ``endpoint`` (for ``kubectl logs``), ``pods`` (processes follow the state
machine of ``sandbox.kubelet.pod_lifecycle``) and ``observations`` (changes that they report to it).
"""
