"""A kubeconfig file for an API server that need not exist."""

from __future__ import annotations


def text(server: str) -> str:
    """Its content, with one user who has a token."""
    return f"""
apiVersion: v1
kind: Config
current-context: it
clusters: [{{name: it, cluster: {{server: "{server}"}}}}]
users: [{{name: it, user: {{token: abc}}}}]
contexts: [{{name: it, context: {{cluster: it, user: it}}}}]
"""
