"""The command line. The only package that imports click.

A command's docstring is its help. The commands hold no rules of their own: they read a manifest or a storage, talk to a
driver by ``control.client``, and print. Those with ``--json`` answer the operator as well, which runs them in pods and
reads the termination message (``machine``); what they print there is a format (docs/formats.md).
"""
