"""``python -m polydom.server`` and the ``polydom`` command."""
