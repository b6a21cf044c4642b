"""The objects that commands print: the schema of ``-o json`` and ``-o yaml``, a module for each.

docs/kubectl-vpa-output.md documents the fields. Every field is always written, so that a script can
rely on it. Fields may be added; none changes its meaning or disappears without another
``apiVersion``.
"""
