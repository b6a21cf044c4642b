"""A metrics server that is a program of its own: ``python -P -m sandbox.metrics_server``.

It scrapes the kubelets (``scraping``), reads what they say (``exposition``), takes differences
(``measuring``), and answers as ``sandbox.kubelet.metrics_server`` does.
"""
